"""What can go wrong with a request, by what should be done about it.

Below the transport a request ends without an answer (`WireError`). Above it, `RequestError` and its
kinds are what clients decide by. The kind comes from the status code and the shape of the answer,
never from words in a message: a 500 for `after=4290017` is a 500.
"""

from __future__ import annotations

from headrace.errors import HeadraceError


class WireError(Exception):
    """No complete answer. The text says why in a few words; it never holds a URL or a header.

    Attributes:
        stale: whether the request went over a kept connection and no byte of an answer came. The
            network may have forgotten the connection: this says nothing about the server.
    """

    stale = False


class Unreachable(WireError):
    """No connection: nothing listens, the name is unknown, or TLS was refused.

    Args:
        reason: in the words of the system.
        timed_out: whether it was the connect time-out.
        insecure: whether a server answered, but TLS failed (a certificate, most often).
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


class RequestError(HeadraceError):
    """Something about one request failed.

    Args:
        problem: what happened, without the place.
        product: the product asked for, or "" for requests about no product.
        cursor: the `after` cursor of the request, if it had one.
        status: the HTTP status, or None if no status line arrived.
        hint: the next step.

    Attributes:
        refuses_us: whether it is about who asks and from where, so that nothing else would be
            answered either.
    """

    refuses_us = False

    def __init__(
        self,
        problem: str,
        *,
        product: str = "",
        cursor: int | None = None,
        status: int | None = None,
        hint: str = "",
    ) -> None:
        where = product + (f" after={cursor}" if cursor is not None else "")
        super().__init__(f"{where}: {problem}" if where else problem, hint=hint)
        self.problem = problem
        self.product = product
        self.cursor = cursor
        self.status = status


class TransientError(RequestError):
    """Worth another attempt after a pause."""


class ServerError(TransientError):
    """The server answered 5xx."""


class ConnectionFailed(TransientError):
    """No connection, a reset, or an answer that broke off.

    Attributes:
        stale: whether only a kept connection failed, before a byte of an answer came. The next
            attempt goes at once, over a fresh one; this one says nothing about the server.
        unreachable: whether there was no connection at all, which is no matter of the request.
    """

    stale = False
    unreachable = False


class RequestTimeout(ConnectionFailed):
    """The request did not end within one of its time limits."""


class LocalFailure(TransientError):
    """Nothing was sent, since this machine lacks what a connection takes: files, ports, memory."""


class Throttled(TransientError):
    """The server answered 429."""


class PutOff(TransientError):
    """The server answered 408 or 425: it did not take this request now, and says nothing else."""


class BadAnswer(TransientError):
    """The status says success, but the body is no page of trades: HTML, cut, of another shape."""


class PermanentError(RequestError):
    """Another attempt would be answered the same."""


class ProxyRefusal(PermanentError):
    """The proxy on the way did not let the request through; the server never saw it."""

    refuses_us = True


class RequestRefused(PermanentError):
    """The server answered 400 or another 4xx that repeating does not mend."""


class AccessDenied(RequestRefused):
    """The server answered 401, 403, 407 or 451: it refuses the caller, for every request."""

    refuses_us = True


class KeyRefused(AccessDenied, TransientError):
    """The server refuses the API key: another one, or the same one later, may be taken."""


class RefusedThroughout(HeadraceError):
    """So many requests in a row were refused for who asks that no other is sent."""

    def __init__(self, source: str, last: RequestError, in_a_row: int) -> None:
        super().__init__(
            f"{source} refused {in_a_row} requests in a row, and answered no other meanwhile; "
            f"the last: {last.problem}",
            hint=last.hint,
        )
        self.source = source
        self.last = last


class RetriesExhausted(RequestError):
    """Every allowed attempt failed; `__cause__` is the last failure."""
