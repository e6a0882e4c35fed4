"""What a scripted fault does to an answer: replace it, change its page, or spoil its way out."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from headrace.sim.http import JSON, WHOLE, Delivery, Reply

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
    status: int = Field(500, ge=200, le=599)
    body: str | None = None
    content_type: str = JSON
    headers: dict[str, str] = Field(default_factory=dict)


class Html(_Action):
    """Answer with a gateway's HTML page, as outages do: 502, 520, 522, or even 200."""

    kind: Literal["html"] = "html"
    status: int = Field(502, ge=200, le=599)


class Malformed(_Action):
    """Answer 200 with JSON that is no page: an error object, strings, null, or one bad row."""

    kind: Literal["malformed"] = "malformed"
    shape: Literal["message", "strings", "null", "priceless", "null_row"] = "message"


class Cut(_Action):
    """Send `at_byte` bytes of the true body and close, in one of the three ways HTTP can be cut."""

    kind: Literal["cut"] = "cut"
    how: Literal["length", "close", "chunked"] = "length"
    at_byte: int = Field(5000, ge=0)


class Reset(_Action):
    """Reset the connection after `at_byte` bytes of the answer (0: instead of it)."""

    kind: Literal["reset"] = "reset"
    at_byte: int = Field(0, ge=0)


class Hang(_Action):
    """Say nothing, for `for_s` seconds (default: for ever), then close."""

    kind: Literal["hang"] = "hang"
    for_s: float | None = Field(None, ge=0)


class Drip(_Action):
    """Send the true answer a byte every `every_s` seconds, from its headers or its body on."""

    kind: Literal["drip"] = "drip"
    every_s: float = Field(2.0, ge=0)
    part: Literal["head", "body"] = "body"


class Slow(_Action):
    """Answer as always, but only after `s` seconds."""

    kind: Literal["slow"] = "slow"
    s: float = Field(5.0, ge=0)


class Stuck(_Action):
    """Serve one page for every cursor: the one below and with id `newest`, or the newest page."""

    kind: Literal["stuck"] = "stuck"
    newest: int | None = Field(None, ge=1)


class Stale(_Action):
    """Serve the first page (no cursor) as it was `behind` ids ago."""

    kind: Literal["stale"] = "stale"
    behind: int = Field(50, ge=1)


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


def kinds_of(actions: object) -> dict[str, type[BaseModel]]:
    """The members of an annotated union of actions, by their names in text and in JSON."""
    return {cls.model_fields["kind"].default: cls for cls in get_args(get_args(actions)[0])}


KINDS = kinds_of(Action)


def substitute(action: Action) -> Reply | None:
    """The reply that takes the place of the true one; `None` when the true one is needed."""
    match action:
        case Respond(status=status, body=body, content_type=content_type, headers=headers):
            text = f'{{"message":"scripted {status}"}}' if body is None else body
            return Reply(status, text.encode(), content_type, headers)
        case Html(status=status):
            page = _HTML.format(title=f"{status} Bad Gateway")
            return Reply(status, page.encode(), "text/html; charset=UTF-8")
        case Malformed(shape=shape):
            return Reply(200, _SHAPES[shape].encode())
        case _:
            return None


def delivery(action: Action) -> Delivery:
    """How the true reply goes out under an action."""
    match action:
        case Cut(how="length", at_byte=at_byte):
            return Delivery("cut_length", at_byte)
        case Cut(how="close", at_byte=at_byte):
            return Delivery("cut_close", at_byte)
        case Cut(at_byte=at_byte):
            return Delivery("cut_chunked", at_byte)
        case Reset(at_byte=at_byte):
            return Delivery("reset", at_byte)
        case Hang(for_s=for_s):
            return Delivery("hang", pause_s=for_s)
        case Drip(every_s=every_s, part="head"):
            return Delivery("drip_head", pause_s=every_s)
        case Drip(every_s=every_s):
            return Delivery("drip_body", pause_s=every_s)
        case _:
            return WHOLE
