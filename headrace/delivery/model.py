"""One request, and how it can end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

#: Methods that may be repeated although the first may have been carried out (RFC 9110, 9.2.2).
IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
METHODS = frozenset({*IDEMPOTENT_METHODS, "POST", "PATCH"})

_PATH = re.compile(r"/[\x21-\x7e]*")


class Outcome(StrEnum):
    """Each request that was accepted ends in exactly one of these."""

    SUCCESS = "success"
    EXPIRED = "expired"
    GRAVEYARD = "graveyard"


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What the producer hands over; key and nonce are added when it leaves.

    Args:
        path: with its query, percent-encoded.
        method: as in `GET`.
        body: JSON; None for a request without one.
        ttl_s: seconds from being accepted after which it must not leave any more; None for ever.
        idempotent: whether it may be sent again when the outcome of an attempt is not known; None:
            as its method says.

    Raises:
        ValueError: naming the field that cannot be used.
    """

    path: str
    method: str = "GET"
    body: bytes | None = None
    ttl_s: float | None = None
    idempotent: bool | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method {self.method!r} is none of {', '.join(sorted(METHODS))}")
        if not _PATH.fullmatch(self.path) or "#" in self.path:
            raise ValueError(f"path {self.path!r} is no path that can be asked for")
        if self.ttl_s is not None and not 0 < self.ttl_s < float("inf"):
            raise ValueError(f"ttl_s {self.ttl_s!r} is no number of seconds above 0")

    @property
    def may_repeat(self) -> bool:
        """Whether it is sent again when the outcome of an attempt is not known."""
        if self.idempotent is not None:
            return self.idempotent
        return self.method in IDEMPOTENT_METHODS


@dataclass(slots=True)
class Pending:
    """A request that was accepted and has not ended.

    Attributes:
        id: in the journal; rises with the order of arrival.
        tries: attempts so far.
        deadline_s: reading of the monotonic clock after which it must not leave; None for none.
        accepted_s: reading of the same clock.
        left: whether the attempt at hand has left this machine.
        key: label of the key that the last attempt was signed with; empty without one.
        fresh: whether the next attempt goes over a new connection.
        reason: why the last attempt failed.
    """

    id: int
    request: ApiRequest
    accepted_s: float
    deadline_s: float | None
    tries: int = 0
    left: bool = False
    key: str = ""
    fresh: bool = False
    reason: str = ""

    def left_s(self, now_s: float) -> float | None:
        """Seconds until it expires; None if it never does."""
        return None if self.deadline_s is None else self.deadline_s - now_s


@dataclass(frozen=True, slots=True)
class Buried:
    """A request in the graveyard.

    Attributes:
        accepted_at, ended_at: Unix seconds.
        unknown: whether the server may have carried it out.
    """

    id: int
    request: ApiRequest
    tries: int
    reason: str
    unknown: bool
    accepted_at: float
    ended_at: float
