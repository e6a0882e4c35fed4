"""Scripted faults of a simulated Looker: which requests they meet, and what becomes of the answer.

A fault is data, as for the exchange: a test adds it in process, a script sends it to the control
endpoint, a user writes it on the command line, in the same words.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from headrace.sim.actions import Cut, Drip, Hang, Html, Refuse, Reset, Respond
from headrace.sim.catalogue import first_problem
from headrace.sim.exceptions import SpecError
from headrace.sim.randomness import key_of, unit


class Error(BaseModel):
    """Answer as Looker itself does when something is wrong: its JSON, its documentation URL."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["error"] = "error"
    status: int = Field(default=500, ge=400, le=599)
    message: str = "An error has occurred."


class Revoke(BaseModel):
    """Take every token back before this request is judged: it is answered 401."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["revoke"] = "revoke"


class Slow(BaseModel):
    """Answer as always, but only after `s` seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["slow"] = "slow"
    s: float = Field(default=5.0, ge=0)


LookerAction = Annotated[
    Error | Revoke | Slow | Respond | Html | Cut | Reset | Hang | Drip | Refuse,
    Field(discriminator="kind"),
]
_CLASSES: tuple[type[BaseModel], ...] = (
    Error, Revoke, Slow, Respond, Html, Cut, Reset, Hang, Drip, Refuse,
)  # fmt: skip
KINDS = {cls.model_fields["kind"].default: cls for cls in _CLASSES}
Ask = Literal["login", "list", "item", "write", "any"]


class LookerFault(BaseModel):
    """An action, and the requests it befalls. All conditions must hold.

    Args:
        action: what happens.
        ask: logins, listings, single items, writes, or any of them.
        type: only about this content type (`lookml_dashboard` for the listing of those).
        id: only about this single item.
        offset: only listings that begin at this offset.
        covers: only listings whose [offset, offset + limit) holds this place.
        from_call, every, calls, probability, between_s: as for a fault of the exchange.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: LookerAction
    ask: Ask = "any"
    type: str | None = None
    id: str | None = None
    offset: int | None = None
    covers: int | None = None
    from_call: int = Field(default=1, ge=1)
    every: int = Field(default=1, ge=1)
    calls: int | None = Field(default=None, ge=1)
    probability: float = Field(default=1.0, ge=0.0, le=1.0)
    between_s: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class LookerSubject:
    """What a request is about, as far as faults and statistics look at it."""

    ask: Ask
    type: str | None = None
    id: str | None = None
    offset: int | None = None
    limit: int | None = None

    @property
    def product(self) -> str | None:
        """What the log counts requests by: the content type."""
        return self.type


@dataclass(slots=True)
class _Entry:
    fault: LookerFault
    key: int
    seen: int = 0
    hits: int = 0


class LookerFaults:
    """The faults in force, in order; the first that befalls a request decides. Thread-safe."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._lock = threading.Lock()
        self._entries: dict[int, _Entry] = {}
        self._added = 0

    def add(self, fault: LookerFault) -> int:
        """Put a fault in force and return its number."""
        with self._lock:
            self._added += 1
            key = key_of(self._seed, f"fault {self._added}")
            self._entries[self._added] = _Entry(fault, key)
            return self._added

    def clear(self) -> None:
        """Lift every fault."""
        with self._lock:
            self._entries.clear()

    def remove(self, number: int) -> None:
        """Lift one fault; lifting it twice is no error."""
        with self._lock:
            self._entries.pop(number, None)

    def in_force(self) -> dict[int, LookerFault]:
        """The faults by number."""
        with self._lock:
            return {number: entry.fault for number, entry in self._entries.items()}

    def hits(self) -> dict[int, int]:
        """How many requests each fault in force has befallen."""
        with self._lock:
            return {number: entry.hits for number, entry in self._entries.items()}

    def strike(self, subject: LookerSubject, uptime_s: float) -> tuple[int, LookerFault] | None:
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


def _meets(fault: LookerFault, subject: LookerSubject, uptime_s: float) -> bool:
    if isinstance(fault.action, Refuse):
        return False  # the listener sees to it: such a request never comes this far
    if fault.covers is not None:
        start = subject.offset or 0
        end = float("inf") if subject.limit is None else start + subject.limit
        if subject.ask != "list" or not start <= fault.covers < end:
            return False
    return (
        fault.ask in ("any", subject.ask)
        and fault.type in (None, subject.type)
        and fault.id in (None, subject.id)
        and fault.offset in (None, subject.offset)
        and in_force_at(fault, uptime_s)
    )


def in_force_at(fault: LookerFault, uptime_s: float) -> bool:
    """Whether the fault's interval holds this moment."""
    return fault.between_s is None or fault.between_s[0] <= uptime_s < fault.between_s[1]


def _fires(entry: _Entry) -> bool:
    fault, since = entry.fault, entry.seen - entry.fault.from_call
    return (
        since >= 0
        and since % fault.every == 0
        and (fault.calls is None or entry.hits < fault.calls)
        and (fault.probability == 1.0 or unit(entry.key, entry.seen) < fault.probability)
    )


_FAULT = TypeAdapter(LookerFault)


def parse_looker_fault(text: str) -> LookerFault:
    """Read a fault as written on the command line.

    Args:
        text: `KIND[,field=value…]`, fields of the action and of the fault in any order, for
            example `error,status=500,type=look,id=7` or `html,between_s=10:20`.

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
