"""How long things took, added up: count, sum, least, most, and how many below each bound."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate
from threading import Lock

#: Upper bounds of the histogram, in seconds. 3 s is there since an alarm stands on it.
BOUNDS_S = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, math.inf)


class Distribution:
    """Observed seconds. Safe between threads; one observation costs a microsecond or two."""

    __slots__ = ("_lock", "count", "counts", "least", "most", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.least = math.inf
        self.most = 0.0
        self.counts = [0] * len(BOUNDS_S)
        self._lock = Lock()

    def observe(self, seconds: float) -> None:
        """One more took so long."""
        with self._lock:
            self.count += 1
            self.total += seconds
            self.counts[bisect_left(BOUNDS_S, seconds)] += 1
            self.least = min(self.least, seconds)
            self.most = max(self.most, seconds)

    def take(self) -> Distribution:
        """What was observed since the last take; for one reader alone."""
        taken = Distribution()
        with self._lock:
            for name in ("count", "total", "least", "most", "counts"):
                own, fresh = getattr(self, name), getattr(taken, name)
                setattr(self, name, fresh)
                setattr(taken, name, own)
        return taken

    def add(self, other: Distribution) -> None:
        """Take in what another one holds."""
        with self._lock:
            self.count += other.count
            self.total += other.total
            self.least = min(self.least, other.least)
            self.most = max(self.most, other.most)
            self.counts = [own + new for own, new in zip(self.counts, other.counts, strict=True)]

    def cumulative(self) -> list[tuple[float, int]]:
        """How many took no longer than each bound."""
        return list(zip(BOUNDS_S, accumulate(self.counts), strict=True))
