"""What an exchange can answer instead of what is asked for, by status and shape of the answer."""

from __future__ import annotations

import msgspec

from headrace.logs.redaction import safe_text
from headrace.wire.exceptions import (
    AccessDenied,
    BadAnswer,
    PermanentError,
    PutOff,
    RequestError,
    RequestRefused,
    ServerError,
    Throttled,
)
from headrace.wire.transport import Response


class StuckPage(BadAnswer):
    """The answer does not move: it holds ids at or above the cursor it was asked to go below."""


class Contradiction(BadAnswer):
    """The answer denies trades that are known to exist, or shows others under their ids."""

    empty = False


class ValueRefused(BadAnswer):
    """A value in a row cannot be held exactly; the message names the trade and the text."""


class UnknownProduct(PermanentError):
    """The exchange does not know the product (404, or a 400 that says so)."""


#: What decoding a body from outside may raise; the last of them for one that is nested deeply.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: 408 (a server's own time-out, often of an idle connection) and 425: the same request, later.
_ANOTHER_TIME = (408, 425)

_ELSEWHERE = (
    "This address, or the country it is in, may be barred for now: run again later or from "
    "elsewhere, what was fetched is kept"
)
#: By the statuses that refuse the caller.
_HINTS = {
    401: "Look at the key, its secret and passphrase in the Exchange block, and at the clock",
    403: _ELSEWHERE,
    407: "A proxy on the way wants a login: set HTTPS_PROXY to http://user:password@host:port",
    451: _ELSEWHERE,
}

#: What the exchange says of every 404.
_NOT_FOUND = ": NotFound"
#: Of what a server says, so much is quoted.
_QUOTED = 120


class _Message(msgspec.Struct):
    message: str = ""


_MESSAGE = msgspec.json.Decoder(_Message)


def refusal(response: Response) -> RequestError | None:
    """The error that a status means, or None if the body is worth reading."""
    status = response.status
    if status == 200:
        return None
    said = _said(response)
    if status == 429:
        return Throttled(f"throttled (429{said})", status=status)
    if status >= 500:
        return ServerError(f"the server failed ({status}{said})", status=status)
    if status in _ANOTHER_TIME:
        return PutOff(f"the server did not take the request now ({status}{said})", status=status)
    if status < 300:
        return BadAnswer(f"the server answered {status} instead of 200 with a body", status=status)
    if status < 400:
        return RequestRefused(
            f"the server answers with a redirect ({status}{_target(response)}), which is never "
            "followed",
            status=status,
            hint="If that is the API's address now, give it as base_url",
        )
    if status == 404:
        more = "" if said == _NOT_FOUND else said
        return UnknownProduct(
            f"the exchange does not know it ({status}{more})",
            status=status,
            hint="`headrace products list --live` shows what it lists",
        )
    if status in _HINTS:
        return AccessDenied(
            f"the exchange refuses this caller ({status}{said})", status=status, hint=_HINTS[status]
        )
    return RequestRefused(f"the exchange refused the request ({status}{said})", status=status)


def _said(response: Response) -> str:
    """The server's own words, or the start of its body: short, on one line, without codes."""
    try:
        said = _MESSAGE.decode(response.body).message
    except UNREADABLE:
        said = ""
    said = said or " ".join(response.body[:_QUOTED].decode("utf-8", "replace").split())
    return f": {safe_text(said[:_QUOTED])}" if said else ""


def _target(response: Response) -> str:
    """Where a redirect points to, as the server has it, in few and printable characters."""
    location = response.headers.get("Location")
    return f" to {location[:120]!r}" if location else ""
