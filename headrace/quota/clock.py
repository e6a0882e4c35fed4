"""The clock of the quota, and where on the server's clock a request was probably counted.

Times are monotonic nanoseconds, which no setting of the wall clock moves, and the boot that they
count from.

A server that counts arrivals in a strict window sees the requests of an even sender unevenly: some
are delayed more than others. From outside, only the round trip can be seen. What it takes beyond
the shortest one seen lately is put down to the outbound delay, and the slot is moved back by that
much: a window counted from there holds on the server's clock as well (`Anchor`).

Most of the shortest round trip is common to all requests and moves all arrivals alike; it costs
nothing. A fifth of it is put down to the outbound delay too, since delays out and back need not be
alike. And where round trips differ much, the shortest of those seen is not the shortest there is:
it is taken for shorter by a fifth of what the usual one takes beyond it, about what one request in
a hundred gains.

Where the usual answer takes longer beyond the shortest than any slot is moved, it is no delay of
the network: it is the server's work, which begins when the request was counted. The cap shrinks
there, with the cube of how much longer it takes: at twice the cap, slots move by an eighth of it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

import psutil

NS = 1_000_000_000
MS = 1_000_000

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """What the quota and the breaker know of time."""

    @property
    def boot_id(self) -> str:
        """Names the span over which `now` is comparable, between processes too."""

    @property
    def slack(self) -> int:
        """By how many nanoseconds the true time may be later than `now`, where clocks differ."""

    def now(self) -> int:
        """Nanoseconds since some moment of this boot; never goes back."""


class MonotonicClock:
    """The machine's monotonic clock, which all processes of one boot share.

    Setting the wall clock does not move it. It starts again with every boot, so what is stored is
    only good together with the boot's id.
    """

    slack = 0

    def __init__(self) -> None:
        self.boot_id = boot_id()
        self.now = time.monotonic_ns  # an attribute, not a method: it is on the hot path


def boot_id() -> str:
    """Names the time since this machine was started."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:  # not Linux; whole minutes, because the value follows the wall clock's steps
        return f"booted-{round(psutil.boot_time() / 60)}"


#: Of the shortest round trip, the part that all requests have in common at least.
_SHARE_OF_SHORTEST = 0.8
#: What the shortest may be shorter than the shortest seen, as a part of the usual excess.
_MARGIN = 0.2
#: The usual excess follows the round trips of about so many answers.
_USUAL = 16
#: The shortest round trip is remembered over one to two spans of so many answers.
_SPAN = 64
#: Before so many answers nothing is known about the shortest, and all of a round trip may be it.
_FIRST = 8


class Anchor:
    """Estimates arrivals from the answers of one server.

    Args:
        cap_ms: the most by which a slot is moved; 0 leaves it where the request left.
    """

    def __init__(self, cap_ms: float) -> None:
        self._cap = int(cap_ms * MS)
        self._former = self._shortest = 1 << 62
        self._usual_excess = 0.0
        self._seen = 0

    def arrived(self, sent: int, answered: int) -> int:
        """When the server probably counted a request; all in nanoseconds."""
        round_trip = answered - sent
        self._seen += 1
        if self._seen % _SPAN == 0:
            self._former, self._shortest = self._shortest, round_trip
        self._shortest = min(self._shortest, round_trip)
        shortest = min(self._former, self._shortest)
        common = max(0.0, shortest - _MARGIN * self._usual_excess) if self._seen > _FIRST else 0.0
        self._usual_excess += (round_trip - shortest - self._usual_excess) / _USUAL
        cap = self._cap
        if self._usual_excess > cap:
            cap = int(cap * (cap / self._usual_excess) ** 3)
        # Where answers differ little, the shortest is known well, and all of it is common.
        known = common - min((1 - _SHARE_OF_SHORTEST) * common, self._usual_excess)
        return sent + min(cap, round_trip - int(known))
