"""How much the delays of requests to a server differ, as far as its answers show it.

A server that counts arrivals in a strict window has to be sent each request one window after it
counted an earlier one. When that was lies between departure and answer. What matters is by how much
a request arrived later than the fastest does (`Known.late`): the delay of the fastest moves all
arrivals alike.

**By the server's clock**, where an answer holds the time at which the request was counted. That
clock need not agree with ours: of the apparent delays, the shortest is that of the fastest request.
It is believed as long as there is a difference of the clocks by which every request was counted
after it left and before its answer came, and no request was far faster than all before. After a
step of a clock there is none; then it is learned from the beginning. What is no clock never has
one.

**By the round trip**, otherwise: what it takes beyond the shortest one is the most that the request
can have been late. Where that is no more than two spreads, one of the two ways need not have been
longer than a spread, and the request counts as late by one at most; but not where it was refused
for its order: that was late.

How much later the next request may arrive is not known when it is sent: that is the spread of the
outbound delays. By the server's clock it is seen. By round trips it is concluded: where delays out
and back differ alike, one of them spreads as much as the slow round trips take beyond the usual
one; also where a few are much slower, since both are hardly ever slow at once. Where the server
refuses requests nevertheless, the outbound delay has the greater part, and the spread is taken for
larger.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

from headrace.quota.clock import MS

#: So many latest answers count.
_KEPT = 256
#: Nothing is concluded from fewer, and from more only now and then.
_FEW, _EVERY = 64, 16
#: Of the delays by the server's clock, the slowest but two (one in a hundred) counts for the
#: slowest, which may take a little longer.
_SLOWEST, _MORE = 3, 1.03
#: Of the round trips one in twenty is slower than this, and the slowest takes so much more beyond
#: the usual. What is slower still is mostly this machine or the server, which were busy.
_SLOW, _MARGIN = 0.95, 1.5
#: What the shortest may be shorter than the shortest of those kept, of what the usual takes beyond.
_SHORTER = 0.2
#: What a clock that did not step may contradict what is known of it by, in nanoseconds.
_STEP = 3 * MS
#: What a refusal adds to the spread, and the most that all of them do.
REFUSED, _MOST = 1.15, 2.0


class Known(NamedTuple):
    """What an answer shows; times in nanoseconds.

    Attributes:
        late: the most by which its request arrived later than the fastest.
        exact: whether that is known by the server's clock.
        spread: of the outbound delays; None most of the time.
    """

    late: int
    exact: bool
    spread: int | None


class DelaySpread:
    """What one process knows of the delays to one server. Safe for many threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._round_trips: deque[int] = deque(maxlen=_KEPT)
        self._apparent: deque[int] = deque(maxlen=_KEPT)
        #: The answers' moments by our clock, less those by the server's.
        self._answered: deque[int] = deque(maxlen=_KEPT)
        self._seen = 0
        self._shortest = self._usual = self._fastest = self._soonest = 0
        self._spread = 0
        self._scale = 1.0

    def note(
        self, sent: int, answered: int, counted: int | None = None, *, refused: bool = False
    ) -> Known:
        """Note one answer.

        Args:
            sent: when its request left, in nanoseconds of our clock.
            answered: when it came.
            counted: when the server counted the request, in nanoseconds of the server's clock; None
                if it does not say.
            refused: whether the server refused it, since it came too early or too late.
        """
        round_trip = answered - sent
        with self._mutex:
            self._round_trips.append(round_trip)
            self._seen += 1
            if refused:
                self._scale = min(_MOST, self._scale * REFUSED)
            late = None if counted is None else self._late(counted - sent, answered - counted)
            due = self._seen >= _FEW and self._seen % _EVERY == 0
            spread = self._conclude() if due else None
            self._spread = self._spread if spread is None else spread
        if late is not None:
            return Known(late, True, spread)
        shortest = max(0, self._shortest - int(_SHORTER * (self._usual - self._shortest)))
        late = max(0, round_trip - shortest)
        if late <= 2 * self._spread and not refused:
            late = min(late, self._spread)
        return Known(late, False, spread)

    def _late(self, apparent: int, answered: int) -> int | None:
        """By how much a request was later than the fastest; None while too little is known."""
        seen = len(self._apparent)
        fastest, soonest = min(self._fastest, apparent), min(self._soonest, answered)
        contradicts = seen >= _FEW and apparent < self._fastest - _STEP
        if not seen or contradicts or fastest + soonest < -_STEP:
            self._apparent.clear()
            self._answered.clear()
            fastest, soonest = apparent, answered
        self._fastest, self._soonest = fastest, soonest
        self._apparent.append(apparent)
        self._answered.append(answered)
        return apparent - fastest if len(self._apparent) >= _FEW else None

    def _conclude(self) -> int:
        ordered = sorted(self._round_trips)
        self._shortest, self._usual = ordered[0], ordered[len(ordered) // 2]
        if len(self._apparent) >= _FEW:
            apparent = sorted(self._apparent)
            self._fastest, self._soonest = apparent[0], min(self._answered)
            return int((apparent[-_SLOWEST] - apparent[0]) * _MORE)
        slow = ordered[int(_SLOW * len(ordered))]
        return int((slow - self._usual) * _MARGIN * self._scale)
