"""How much the delays of requests to a server differ, as far as its answers show it.

Only the round trip can be seen. What it takes beyond the shortest one is the most by which its
request can have arrived later than the fastest (`DelaySpread.excess`): a window that is counted
from there holds at the server.

How much later the next request may arrive is not known when it is sent: that is the spread of the
outbound delays. Where delays out and back differ alike, one of them spreads as much as the slowest
round trips take beyond the usual one; also where a few are much slower, since both are hardly ever
slow at once. Where the server refuses requests nevertheless, the outbound delay has the greater
part, and the spread is taken for larger.
"""

from __future__ import annotations

from collections import deque

#: Of so many latest round trips the slowest but two (one in a hundred) counts for the slowest.
_KEPT, _SLOWEST = 256, 3
#: Nothing is concluded from fewer, and from more only now and then.
_FEW, _EVERY = 64, 16
#: What the slowest round trip of all may take beyond the slowest of those kept.
_MARGIN = 1.2
#: What the shortest may be shorter than the shortest of those kept, of what the usual takes beyond.
_SHORTER = 0.2
#: What a refusal adds to the spread, and the most that all of them do.
REFUSED, _MOST = 1.15, 2.0


class DelaySpread:
    """What one process knows of the delays to one server; times in nanoseconds."""

    def __init__(self) -> None:
        self._round_trips: deque[int] = deque(maxlen=_KEPT)
        self._seen = 0
        self._shortest = self._usual = 0
        self._scale = 1.0

    def note(self, round_trip: int) -> int | None:
        """Note the round trip of one request.

        Returns:
            The spread of the outbound delays, now and then; else None.
        """
        self._round_trips.append(round_trip)
        self._seen += 1
        if self._seen < _FEW or self._seen % _EVERY:
            return None
        ordered = sorted(self._round_trips)
        self._shortest, self._usual = ordered[0], ordered[len(ordered) // 2]
        return int((ordered[-_SLOWEST] - self._usual) * _MARGIN * self._scale)

    def refused(self) -> None:
        """The server counted a request of ours too early, or out of order."""
        self._scale = min(_MOST, self._scale * REFUSED)

    def excess(self, round_trip: int) -> int:
        """The most by which a request arrived later than the fastest, by its round trip."""
        shortest = max(0, self._shortest - int(_SHORTER * (self._usual - self._shortest)))
        return max(0, round_trip - shortest)
