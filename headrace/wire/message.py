"""The head of an answer: status line and headers, read in one go, refused if it is not HTTP/1.1.

RFC 9112: lines end with CRLF, a header is `name: value`, and the length of a body follows from the
status, then `Transfer-Encoding`, then `Content-Length`, then the end of the connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.wire.exceptions import Broken

SWITCHING_PROTOCOLS = 101

_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: .*)?")
_SENDABLE = re.compile(r"[\x20-\x7e]*")
_LENGTH = re.compile(r"[0-9]{1,18}")


def problem_of_credential(text: str) -> str:
    """Why a key cannot be sent as (a part of) a header, for people; empty if it can.

    The text itself is not in it. Keys from files and of `echo` often end in a line break.
    """
    if text != text.strip():
        return "begins or ends with white space or a line break"
    if not _SENDABLE.fullmatch(text):
        return "holds a line break or a character that is not plain ASCII"
    return ""


class Headers(dict[str, str]):
    """Headers by name in lower case; `get` takes a name in any case. Repeated ones are joined."""

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """The value of a header."""
        return super().get(name.lower(), default)


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before a body.

    Args:
        status: 100 to 999.
        headers: see `Headers`.
        keeps_open: whether the server will take another request on this connection.
    """

    status: int
    headers: Headers
    keeps_open: bool

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks.

        Raises:
            Broken: for a transfer coding that was not asked for.
        """
        coding = self.headers.get("transfer-encoding")
        if coding is None:
            return False
        if coding.strip().lower() != "chunked":
            raise Broken("the answer has an unknown transfer coding")
        return True

    @property
    def length(self) -> int | None:
        """How long the body is, None if only the end of the connection shows it.

        Raises:
            Broken: if the header is no number, or several that differ.
        """
        if self.status in (SWITCHING_PROTOCOLS, 204, 304):
            return 0
        text = self.headers.get("content-length")
        if text is None:
            return None
        values = {value.strip() for value in text.split(",")}
        if len(values) > 1 or not _LENGTH.fullmatch(value := values.pop()):
            raise Broken("the answer has an unreadable Content-Length")
        return int(value)


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer."""

    status: int
    headers: Headers
    body: bytes


def parse_head(raw: bytes) -> Head:
    """The head of an answer, from its first byte to before the empty line.

    Raises:
        Broken: if it is not a head of HTTP/1.0 or 1.1.
    """
    first, *lines = raw.decode("latin-1").split("\r\n")
    match = _STATUS_LINE.fullmatch(first)
    if match is None:
        raise Broken("the answer is not HTTP/1.1")
    headers = Headers()
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise Broken("the answer has a garbled header")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    options = headers.get("connection", "").lower()  # type: ignore[union-attr]
    status = int(match[2])
    keeps_open = "keep-alive" in options if match[1] == "0" else "close" not in options
    return Head(status, headers, keeps_open and status != SWITCHING_PROTOCOLS)
