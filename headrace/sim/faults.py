"""Scripted faults: when they strike, in what order, how they are written, which requests they meet.

A fault is data, so that a test adds it in process, a script sends it to the control endpoint, and a
user writes it on the command line, all in the same words. `ScriptedFault` is what faults of every
simulation share, `Fault` is the exchange's.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from headrace.sim.actions import KINDS, Action, Refuse, Stale
from headrace.sim.catalogue import first_problem
from headrace.sim.exceptions import SpecError
from headrace.sim.randomness import key_of, unit


class ScriptedFault(BaseModel, frozen=True, extra="forbid"):
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

    #: The actions by name.
    kinds: ClassVar[Mapping[str, type[BaseModel]]] = {}

    action: Any
    from_call: int = Field(1, ge=1)
    every: int = Field(1, ge=1)
    calls: int | None = Field(None, ge=1)
    probability: float = Field(1.0, ge=0.0, le=1.0)
    between_s: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if self.between_s is not None and self.between_s[0] >= self.between_s[1]:
            raise ValueError("between_s ends before it begins")
        return self

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a fault as written on the command line.

        Args:
            text: `KIND[,field=value…]`, fields of the action and of the fault in any order, for
                example `respond,status=503,probability=0.01` or `html,between_s=10:20`.

        Raises:
            SpecError: naming the field that cannot be read.
        """
        kind, *settings = text.split(",")
        action_class = cls.kinds.get(kind.strip())
        if action_class is None:
            hint = f"Kinds: {', '.join(cls.kinds)}"
            raise SpecError("fault", text, f"no kind {kind!r}", hint=hint)
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
            return cls.model_validate(fault)
        except ValidationError as error:
            raise SpecError("fault", text, first_problem(error)) from error

    @property
    def refuses(self) -> bool:
        """Whether it refuses connections: the listener does that, no request comes this far."""
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
    """The faults in force, in order; the first that meets a request decides. Thread-safe."""

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
        """How many requests each fault in force has met."""
        with self._lock:
            return {number: entry.hits for number, entry in self._entries.items()}

    def refuses_at(self, uptime_s: float) -> bool:
        """Whether connections are refused at this moment."""
        faults = self.in_force().values()
        return any(fault.refuses and fault.in_force_at(uptime_s) for fault in faults)

    def strike(self, subject: object, uptime_s: float) -> tuple[int, F] | None:
        """Count a request and return the fault that it meets, if any."""
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


Endpoint = Literal["trades", "ticker", "product", "products", "any"]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a request is about, as far as faults and statistics look at it."""

    endpoint: Endpoint
    product: str | None = None
    cursor: int | None = None


class Fault(ScriptedFault):
    """An action, and the requests it meets. All conditions must hold.

    Args:
        action: what happens.
        product: only this product.
        endpoint: only this kind of request.
        cursor: only this value of `after`.
        first_page: only requests without a cursor (true) or with one (false).
    """

    kinds = KINDS

    action: Action
    product: str | None = None
    endpoint: Endpoint = "trades"
    cursor: int | None = None
    first_page: bool | None = None

    def concerns(self, subject: Subject) -> bool:
        """Whether a request is meant; an older first page is one for requests without a cursor."""
        if isinstance(self.action, Stale) and subject.cursor is not None:
            return False
        return (
            self.endpoint in ("any", subject.endpoint)
            and self.product in (None, subject.product)
            and self.cursor in (None, subject.cursor)
            and (self.first_page is None or self.first_page == (subject.cursor is None))
        )


parse_fault = Fault.parse
