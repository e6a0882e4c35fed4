"""Scripted faults, whatever is simulated: when they strike, in what order, how they are written.

A fault is data, so that a test adds it in process, a script sends it to the control endpoint, and a
user writes it on the command line, all in the same words.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from headrace.sim.actions import Refuse
from headrace.sim.catalogue import first_problem
from headrace.sim.exceptions import SpecError
from headrace.sim.randomness import key_of, unit


class ScriptedFault(BaseModel):
    """What happens and when; subclasses say which actions there are, and to which requests.

    Call numbers are counted per fault, over the requests that its other conditions let through,
    from 1.

    Args:
        action: what happens.
        from_call: not before this call.
        every: at every so many calls from then on.
        calls: at so many calls in all, then never again; `None` for no end.
        probability: with this chance, drawn from the seed and the call number.
        between_s: only in this interval of seconds since the server's start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Any
    from_call: int = Field(default=1, ge=1)
    every: int = Field(default=1, ge=1)
    calls: int | None = Field(default=None, ge=1)
    probability: float = Field(default=1.0, ge=0.0, le=1.0)
    between_s: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if self.between_s is not None and self.between_s[0] >= self.between_s[1]:
            raise ValueError("between_s ends before it begins")
        return self

    @property
    def refuses(self) -> bool:
        """Whether it shuts the door: the listener sees to that, no request comes this far."""
        return isinstance(self.action, Refuse)

    @abstractmethod
    def concerns(self, subject: Any) -> bool:
        """Whether a request is meant."""

    def in_force_at(self, uptime_s: float) -> bool:
        """Whether its interval holds this moment."""
        return self.between_s is None or self.between_s[0] <= uptime_s < self.between_s[1]


F = TypeVar("F", bound=ScriptedFault)


@dataclass(slots=True)
class _Entry(Generic[F]):
    fault: F
    key: int
    seen: int = 0
    hits: int = 0

    def fires(self) -> bool:
        """Whether the request just seen is one of those that it strikes."""
        fault, since = self.fault, self.seen - self.fault.from_call
        return (
            since >= 0
            and since % fault.every == 0
            and (fault.calls is None or self.hits < fault.calls)
            and (fault.probability == 1.0 or unit(self.key, self.seen) < fault.probability)
        )


class FaultBook(Generic[F]):
    """The faults in force, in order; the first that befalls a request decides. Thread-safe."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._lock = threading.Lock()
        self._entries: dict[int, _Entry[F]] = {}
        self._added = 0

    def add(self, fault: F) -> int:
        """Put a fault in force and return its number."""
        with self._lock:
            self._added += 1
            key = key_of(self._seed, f"fault {self._added}")
            self._entries[self._added] = _Entry(fault, key)
            return self._added

    def remove(self, number: int) -> None:
        """Lift one fault; lifting it twice is no error."""
        with self._lock:
            self._entries.pop(number, None)

    def clear(self) -> None:
        """Lift every fault."""
        with self._lock:
            self._entries.clear()

    def in_force(self) -> dict[int, F]:
        """The faults by number."""
        with self._lock:
            return {number: entry.fault for number, entry in self._entries.items()}

    def hits(self) -> dict[int, int]:
        """How many requests each fault in force has befallen."""
        with self._lock:
            return {number: entry.hits for number, entry in self._entries.items()}

    def refuses_at(self, uptime_s: float) -> bool:
        """Whether connections are refused at this moment."""
        faults = self.in_force().values()
        return any(fault.refuses and fault.in_force_at(uptime_s) for fault in faults)

    def strike(self, subject: object, uptime_s: float) -> tuple[int, F] | None:
        """Count a request and say which fault befalls it, if any."""
        struck = None
        with self._lock:
            for number, entry in self._entries.items():
                fault = entry.fault
                if fault.refuses or not (fault.concerns(subject) and fault.in_force_at(uptime_s)):
                    continue
                entry.seen += 1
                if struck is None and entry.fires():
                    entry.hits += 1
                    struck = (number, fault)
        return struck


def read_fault(text: str, fault_class: type[F], kinds: Mapping[str, type[BaseModel]]) -> F:
    """Read a fault as written on the command line.

    Args:
        text: `KIND[,field=value…]`, fields of the action and of the fault in any order.
        fault_class: what it becomes.
        kinds: the actions by name.

    Raises:
        SpecError: naming the field that cannot be read.
    """
    kind, *settings = text.split(",")
    action_class = kinds.get(kind.strip())
    if action_class is None:
        raise SpecError("fault", text, f"no kind {kind!r}", hint=f"kinds: {', '.join(kinds)}")
    action: dict[str, object] = {"kind": kind.strip()}
    fault: dict[str, object] = {"action": action}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise SpecError("fault", text, f"{setting!r} is not field=value")
        name = name.strip()
        into = action if name in action_class.model_fields else fault
        into[name] = tuple(value.split(":")) if name == "between_s" else value.strip()
    try:
        return fault_class.model_validate(fault)
    except ValidationError as error:
        raise SpecError("fault", text, first_problem(error)) from error
