"""The log of what arrived, and what can be said of it: counts, and the worst window."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

_KEPT = 200_000


class About(Protocol):
    """What a request is about, as far as the log counts it."""

    @property
    def product(self) -> str | None:
        """What requests are counted by: a product, a content type."""


@dataclass(slots=True)
class Arrival:
    """One request.

    Attributes:
        number: from 1, in order of arrival.
        arrived_s: when its first line had been read, on the server's clock.
        counted_s: when the rate limit judged it (later by the inbound share of the latency);
            `None` while it is on its way.
        target: path and query as sent.
        subject: endpoint, product, cursor; or what another simulation counts by.
        status: what it was answered; `None` until then.
        fault: the number of the fault that it met.
    """

    number: int
    arrived_s: float
    target: str
    subject: About
    counted_s: float | None = None
    status: int | None = None
    fault: int | None = None


class ArrivalLog:
    """Every arrival since the last reset; of more than 200,000 only the newest.

    Written by the server's thread, read by any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbered = 0
        self.reset()

    def reset(self) -> None:
        """Forget everything but the numbering."""
        with self._lock:
            self._arrivals: deque[Arrival] = deque(maxlen=_KEPT)
            self._statuses: Counter[int] = Counter()
            self._products: Counter[str] = Counter()
            self._in_flight = self._most_in_flight = self._total = 0

    def opened(self, arrived_s: float, target: str, subject: About) -> Arrival:
        """Note an arrival."""
        with self._lock:
            self._numbered += 1
            arrival = Arrival(self._numbered, arrived_s, target, subject)
            self._arrivals.append(arrival)
            self._total += 1
            self._in_flight += 1
            self._most_in_flight = max(self._most_in_flight, self._in_flight)
            if subject.product:
                self._products[subject.product] += 1
        return arrival

    def closed(self, arrival: Arrival, status: int | None) -> None:
        """Note how it was answered; `None`: the client went away before."""
        with self._lock:
            arrival.status = status
            self._in_flight = max(0, self._in_flight - 1)
            if status is not None:
                self._statuses[status] += 1

    def arrivals(self) -> list[Arrival]:
        """The log, oldest first."""
        with self._lock:
            return list(self._arrivals)

    def stats(self, windows_s: Sequence[float] = (1.0,)) -> dict[str, Any]:
        """Counts, and per window length the most requests that were counted in any such window."""
        counted = sorted(a.counted_s for a in self.arrivals() if a.counted_s is not None)
        most = {str(window_s): most_in_window(counted, window_s) for window_s in windows_s}
        with self._lock:
            return {
                "requests": self._total,
                "by_status": {str(status): n for status, n in sorted(self._statuses.items())},
                "by_product": dict(self._products),
                "throttled": self._statuses[429],
                "in_flight": self._in_flight,
                "most_in_flight": self._most_in_flight,
                "most_in_window": most,
            }


def most_in_window(moments_s: Sequence[float], window_s: float) -> int:
    """The most of these ascending moments that fall into any half-open window of this length."""
    most = start = 0
    for end, moment in enumerate(moments_s):
        while moments_s[start] <= moment - window_s:
            start += 1
        most = max(most, end - start + 1)
    return most
