"""Scripted faults: which requests they meet, and what becomes of the answer.

A fault is data, so that a test adds it in process, a script sends it to the control endpoint, and a
user writes it on the command line, all in the same words.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from headrace.sim.actions import KINDS, Action, Refuse, Stale
from headrace.sim.catalogue import first_problem
from headrace.sim.exceptions import SpecError
from headrace.sim.randomness import key_of, unit

Endpoint = Literal["trades", "ticker", "product", "products", "any"]


class Fault(BaseModel):
    """An action, and the requests it befalls. All conditions must hold.

    Call numbers are counted per fault, over the requests that its product, endpoint, cursor and
    interval let through, from 1.

    Args:
        action: what happens.
        product: only this product.
        endpoint: only this kind of request.
        cursor: only this value of `after`.
        first_page: only requests without a cursor (true) or with one (false).
        from_call: not before this call.
        every: at every so many calls from then on.
        calls: at so many calls in all, then never again; `None` for no end.
        probability: with this chance, drawn from the seed and the call number.
        between_s: only in this interval of seconds since the server's start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Action
    product: str | None = None
    endpoint: Endpoint = "trades"
    cursor: int | None = None
    first_page: bool | None = None
    from_call: int = Field(default=1, ge=1)
    every: int = Field(default=1, ge=1)
    calls: int | None = Field(default=None, ge=1)
    probability: float = Field(default=1.0, ge=0.0, le=1.0)
    between_s: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _check(self) -> Fault:
        if self.between_s is not None and self.between_s[0] >= self.between_s[1]:
            raise ValueError("between_s ends before it begins")
        return self


@dataclass(frozen=True, slots=True)
class Subject:
    """What a request is about, as far as faults and statistics look at it."""

    endpoint: Endpoint
    product: str | None = None
    cursor: int | None = None


@dataclass(slots=True)
class _Entry:
    fault: Fault
    key: int
    seen: int = 0
    hits: int = 0


class FaultBook:
    """The faults in force, in order; the first that befalls a request decides. Thread-safe."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._lock = threading.Lock()
        self._entries: dict[int, _Entry] = {}
        self._added = 0

    def add(self, fault: Fault) -> int:
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

    def in_force(self) -> dict[int, Fault]:
        """The faults by number."""
        with self._lock:
            return {number: entry.fault for number, entry in self._entries.items()}

    def hits(self) -> dict[int, int]:
        """How many requests each fault in force has befallen."""
        with self._lock:
            return {number: entry.hits for number, entry in self._entries.items()}

    def strike(self, subject: Subject, uptime_s: float) -> tuple[int, Fault] | None:
        """Count a request and say which fault befalls it, if any."""
        struck = None
        with self._lock:
            for number, entry in self._entries.items():
                if not _meets(entry.fault, subject, uptime_s):
                    continue
                entry.seen += 1
                if struck is None and _fires(entry):
                    entry.hits += 1
                    struck = (number, entry.fault)
        return struck


def _meets(fault: Fault, subject: Subject, uptime_s: float) -> bool:
    if isinstance(fault.action, Refuse):
        return False  # the listener sees to it: such a request never comes this far
    if isinstance(fault.action, Stale) and subject.cursor is not None:
        return False
    return (
        fault.endpoint in ("any", subject.endpoint)
        and fault.product in (None, subject.product)
        and fault.cursor in (None, subject.cursor)
        and (fault.first_page is None or fault.first_page == (subject.cursor is None))
        and (fault.between_s is None or fault.between_s[0] <= uptime_s < fault.between_s[1])
    )


def _fires(entry: _Entry) -> bool:
    fault, since = entry.fault, entry.seen - entry.fault.from_call
    return (
        since >= 0
        and since % fault.every == 0
        and (fault.calls is None or entry.hits < fault.calls)
        and (fault.probability == 1.0 or unit(entry.key, entry.seen) < fault.probability)
    )


_FAULT = TypeAdapter(Fault)


def parse_fault(text: str) -> Fault:
    """Read a fault as written on the command line.

    Args:
        text: `KIND[,field=value…]`, fields of the action and of the fault in any order, for
            example `respond,status=503,probability=0.01` or `cut,how=close,product=BTC-USD,calls=2`
            or `html,between_s=10:20`.

    Raises:
        SpecError: naming the field that cannot be read.
    """
    kind, *settings = text.split(",")
    action_class = KINDS.get(kind.strip())
    if action_class is None:
        raise SpecError("fault", text, f"no kind {kind!r}", hint=f"kinds: {', '.join(KINDS)}")
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
        return _FAULT.validate_python(fault)
    except ValidationError as error:
        raise SpecError("fault", text, first_problem(error)) from error
