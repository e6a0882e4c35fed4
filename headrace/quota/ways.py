"""How much the ways of requests to a server differ, as far as its answers show it.

Only the whole way there and back can be seen. What a way takes beyond the shortest one is the most
by which its request can have arrived later than the fastest (`WaySpread.excess`): a window that is
counted from there holds at the server.

How much later the next request may arrive is not known when it is sent: that is the spread. Where
the ways there and back differ alike, one of them spreads as much as the slowest ways take beyond
the usual one; also where a few are much slower, since both are hardly ever slow at once. Where the
server refuses requests nevertheless, the way there has the greater part, and the spread is taken
for larger.
"""

from __future__ import annotations

from collections import deque

#: Of so many latest ways the slowest but two (one in a hundred) counts for the slowest.
_KEPT, _SLOWEST = 256, 3
#: Nothing is concluded from fewer, and from more only now and then.
_FEW, _EVERY = 64, 16
#: What the slowest way of all may take beyond the slowest of those kept.
_MARGIN = 1.2
#: What the shortest may be shorter than the shortest of those kept, of what the usual takes beyond.
_SHORTER = 0.2
#: What a refusal adds to the spread, and the most that all of them do.
REFUSED, _MOST = 1.15, 2.0


class WaySpread:
    """What one process knows of the ways to one server; times in nanoseconds."""

    def __init__(self) -> None:
        self._ways: deque[int] = deque(maxlen=_KEPT)
        self._seen = 0
        self._shortest = self._usual = 0
        self._scale = 1.0

    def note(self, way: int) -> int | None:
        """Note a way there and back.

        Returns:
            The spread of the ways there, now and then; else None.
        """
        self._ways.append(way)
        self._seen += 1
        if self._seen < _FEW or self._seen % _EVERY:
            return None
        ways = sorted(self._ways)
        self._shortest, self._usual = ways[0], ways[len(ways) // 2]
        return int((ways[-_SLOWEST] - self._usual) * _MARGIN * self._scale)

    def refused(self) -> None:
        """The server counted a request of ours too early, or out of order."""
        self._scale = min(_MOST, self._scale * REFUSED)

    def excess(self, way: int) -> int:
        """The most by which a request arrived later than the fastest, by its way there and back."""
        shortest = max(0, self._shortest - int(_SHORTER * (self._usual - self._shortest)))
        return max(0, way - shortest)
