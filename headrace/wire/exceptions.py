"""The ways in which a request can end without an answer."""

from __future__ import annotations


class WireError(Exception):
    """No complete answer. The text says why in a few words; it never holds a URL or a header.

    Attributes:
        stale: whether the request went over a kept connection and no byte of an answer came. The
            network may have forgotten the connection: this says nothing about the server.
    """

    stale = False


class Unreachable(WireError):
    """No connection: nobody listens, the name is unknown, or TLS was refused.

    Args:
        reason: in the words of the system.
        timed_out: whether it was the connect time-out.
        insecure: whether somebody answered, but TLS failed (a certificate, most often).
    """

    def __init__(self, reason: str, *, timed_out: bool = False, insecure: bool = False) -> None:
        super().__init__(reason)
        self.timed_out = timed_out
        self.insecure = insecure


class ProxyRefused(WireError):
    """The proxy did not open the way to the server.

    Args:
        status: with which it answered.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"the proxy answered {status}")
        self.status = status


class Silent(WireError):
    """The server sent nothing for as long as the read time-out."""


class Broken(WireError):
    """The connection ended before the answer did, or what came is not HTTP/1.1."""
