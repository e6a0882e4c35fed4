"""Scripted faults: which requests they meet, and what becomes of the answer.

A fault is data, so that a test adds it in process, a script sends it to the control endpoint, and a
user writes it on the command line, all in the same words.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from headrace.sim.catalogue import first_problem
from headrace.sim.exceptions import SpecError
from headrace.sim.http import Delivery, Reply
from headrace.sim.randomness import key_of, unit

Endpoint = Literal["trades", "ticker", "product", "products", "any"]

_HTML = """<html>
<head><title>{title}</title></head>
<body>
<center><h1>{title}</h1></center>
<hr><center>cloudflare</center>
</body>
</html>
"""
_ROW = '"time":"2024-01-01T00:00:00.5Z","trade_id":7,"price":"1.5","size":"2","side":"buy"'
_SHAPES = {
    "message": '{"message":"rate limit exceeded"}',
    "strings": '["error"]',
    "null": "null",
    "priceless": "[{" + _ROW.replace('"price":"1.5",', "") + "}]",
    "null_row": "[{" + _ROW + "},null]",
}


class _Action(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Respond(_Action):
    """Answer with this status and body instead; the body defaults to an error in the API's form."""

    kind: Literal["respond"] = "respond"
    status: int = Field(default=500, ge=200, le=599)
    body: str | None = None
    content_type: str = "application/json; charset=utf-8"
    headers: dict[str, str] = Field(default_factory=dict)


class Html(_Action):
    """Answer with a gateway's HTML page, as outages do: 502, 520, 522, or even 200."""

    kind: Literal["html"] = "html"
    status: int = Field(default=502, ge=200, le=599)


class Malformed(_Action):
    """Answer 200 with JSON that is no page: an error object, strings, null, or one bad row."""

    kind: Literal["malformed"] = "malformed"
    shape: Literal["message", "strings", "null", "priceless", "null_row"] = "message"


class Cut(_Action):
    """Send `at_byte` bytes of the true body and close, in one of the three ways HTTP can be cut."""

    kind: Literal["cut"] = "cut"
    how: Literal["length", "close", "chunked"] = "length"
    at_byte: int = Field(default=5000, ge=0)


class Reset(_Action):
    """Reset the connection after `at_byte` bytes of the answer (0: instead of it)."""

    kind: Literal["reset"] = "reset"
    at_byte: int = Field(default=0, ge=0)


class Hang(_Action):
    """Say nothing, for `for_s` seconds (default: for ever), then close."""

    kind: Literal["hang"] = "hang"
    for_s: float | None = Field(default=None, ge=0)


class Drip(_Action):
    """Send the true answer a byte every `every_s` seconds, from its headers or its body on."""

    kind: Literal["drip"] = "drip"
    every_s: float = Field(default=2.0, ge=0)
    part: Literal["head", "body"] = "body"


class Stuck(_Action):
    """Serve one page for every cursor: the one below and with id `newest`, or the newest page."""

    kind: Literal["stuck"] = "stuck"
    newest: int | None = Field(default=None, ge=1)


class Stale(_Action):
    """Serve the first page (no cursor) as it was `behind` ids ago."""

    kind: Literal["stale"] = "stale"
    behind: int = Field(default=50, ge=1)


class Empty(_Action):
    """Serve an empty page although there are trades."""

    kind: Literal["empty"] = "empty"


class Refuse(_Action):
    """Refuse connections and drop those there are; the control endpoint is unreachable as well."""

    kind: Literal["refuse"] = "refuse"


Action = Annotated[
    Respond | Html | Malformed | Cut | Reset | Hang | Drip | Stuck | Stale | Empty | Refuse,
    Field(discriminator="kind"),
]
#: What changes the page itself, not its way to the client.
PageAction = Stuck | Stale | Empty


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


def spoiled(action: Action, reply: Reply) -> Reply:
    """What becomes of a true reply under an action (those on pages leave it as it is)."""
    match action:
        case Respond(status=status, body=body, content_type=content_type, headers=headers):
            text = f'{{"message":"scripted {status}"}}' if body is None else body
            return Reply(status, text.encode(), content_type, headers)
        case Html(status=status):
            page = _HTML.format(title=f"{status} Bad Gateway")
            return Reply(status, page.encode(), "text/html; charset=UTF-8")
        case Malformed(shape=shape):
            return Reply(200, _SHAPES[shape].encode())
        case Cut(how="length", at_byte=at_byte):
            return replace(reply, delivery=Delivery("cut_length", at_byte))
        case Cut(how="close", at_byte=at_byte):
            return replace(reply, delivery=Delivery("cut_close", at_byte))
        case Cut(at_byte=at_byte):
            return replace(reply, delivery=Delivery("cut_chunked", at_byte))
        case Reset(at_byte=at_byte):
            return replace(reply, delivery=Delivery("reset", at_byte))
        case Hang(for_s=for_s):
            return replace(reply, delivery=Delivery("hang", pause_s=for_s))
        case Drip(every_s=every_s, part="head"):
            return replace(reply, delivery=Delivery("drip_head", pause_s=every_s))
        case Drip(every_s=every_s):
            return replace(reply, delivery=Delivery("drip_body", pause_s=every_s))
        case _:
            return reply


_KINDS = {cls.model_fields["kind"].default: cls for cls in get_args(get_args(Action)[0])}
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
    action_class = _KINDS.get(kind.strip())
    if action_class is None:
        raise SpecError("fault", text, f"no kind {kind!r}", hint=f"kinds: {', '.join(_KINDS)}")
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
