"""What a client of an API did: totals of its requests, and the metrics that are made of them.

Nothing is added to a meter per request: the publisher's thread samples the totals before each
publication; the breaker and the end of a run happen rarely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Lock

from headrace.metrics import catalogue as names
from headrace.metrics.meter import Distribution, Meter
from headrace.quota import BreakerChange, Phase


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
        self.least_latency_s: float | None = None
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
            self.least_latency_s = min(elapsed_s, self.least_latency_s or elapsed_s)
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


class RequestMetrics:
    """Feeds a meter from one run's client.

    Args:
        meter: takes the metrics.
        source: host of the API.
        flow: the kind of run.
        stats: of the run's client.
        per_s: what the quota sustains, in requests a second; None for no limit.
        clock: seconds that only rise.
    """

    def __init__(
        self,
        meter: Meter,
        *,
        source: str,
        flow: str,
        stats: ClientStats,
        per_s: float | None,
        clock: Callable[[], float],
    ) -> None:
        self._meter = meter
        self._source = source
        self._flow = flow
        self._stats = stats
        self._per_s = per_s
        self._clock = clock
        self._over = False
        self._sampled_at = clock()
        self._requests_before = stats.requests
        meter.count(names.BREAKER_OPENS, 0, source=source)
        meter.sampled(self._sample)

    def breaker_changed(self, change: BreakerChange) -> None:
        """Listen to the breaker."""
        if change.after is Phase.OPEN:
            self._meter.count(names.BREAKER_OPENS, 1, source=self._source)

    def ended(self, status: str) -> None:
        """The run ended so."""
        self._over = True
        self._meter.count(names.RUNS, 1, flow=self._flow, status=status)

    def _sample(self) -> None:
        meter, stats, source = self._meter, self._stats, self._source
        for product, requests in stats.by_product().items():
            about = product or names.NO_PRODUCT
            meter.count_to(names.REQUESTS, requests, source=source, product=about)
        meter.count_to(names.ERRORS, stats.failures, source=source)
        meter.count_to(names.THROTTLED, stats.throttled, source=source)
        meter.count_to(names.RETRIES, stats.retries, source=source)
        meter.observe(names.RESPONSE, stats.latencies.take(), source=source)
        if self._per_s is not None:
            self._sample_quota(self._per_s)

    def _sample_quota(self, per_s: float) -> None:
        now, requests = self._clock(), self._stats.requests
        elapsed_s, sent = now - self._sampled_at, requests - self._requests_before
        self._sampled_at, self._requests_before = now, requests
        # A run that is over uses nothing, and the last value would stand until the next one.
        used = 0.0 if self._over or elapsed_s <= 0 else sent / (elapsed_s * per_s)
        self._meter.set(names.QUOTA_USED, used, source=self._source, flow=self._flow)
