"""The totals that a client of an API keeps of its requests."""

from __future__ import annotations

from collections import Counter
from threading import Lock

from headrace.metrics.distribution import Distribution


class ClientStats:
    """What a client did so far: totals since it was made. Safe between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.requests = 0
        self.throttled = 0
        self.retries = 0
        self.failures = 0
        self.latency_sum_s = 0.0
        self.answers = 0
        self.latencies = Distribution()
        self._by_product: Counter[str] = Counter()

    def sent(self, product: str) -> None:
        """One more request left, about a product or "" for none."""
        with self._lock:
            self.requests += 1
            self._by_product[product] += 1

    def requests_for(self, product: str) -> int:
        """Requests sent about one product."""
        with self._lock:
            return self._by_product[product]

    def by_product(self) -> dict[str, int]:
        """Requests sent, by the product they were about ("" for none)."""
        with self._lock:
            return dict(self._by_product)

    def answered(self, status: int, elapsed_s: float) -> None:
        """A status line arrived."""
        with self._lock:
            self.answers += 1
            self.latency_sum_s += elapsed_s
            self.throttled += status == 429
            self.failures += status >= 500
        self.latencies.observe(elapsed_s)

    def failed(self) -> None:
        """A request ended without an answer."""
        with self._lock:
            self.failures += 1

    def retried(self) -> None:
        """A request will be sent once more."""
        with self._lock:
            self.retries += 1

    @property
    def mean_latency_s(self) -> float | None:
        """Mean seconds from sending to the last byte, or None before the first answer."""
        with self._lock:
            return self.latency_sum_s / self.answers if self.answers else None
