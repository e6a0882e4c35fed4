"""The figures of one pull, read from the counters that are there anyway.

Nothing here is called per page or per trade: the publisher's thread samples totals before each
publication, and what cannot be sampled (a commit, the breaker, the end) happens rarely.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from headrace.errors import HeadraceError
from headrace.exchange.client import ClientStats
from headrace.lake import NewestTrade
from headrace.metrics import catalogue as names
from headrace.metrics.meter import Meter
from headrace.pull.receipts import Summary
from headrace.quota import BreakerChange, Phase

log = logging.getLogger(__name__)


class Newest(Protocol):
    """What the figures ask of the lake."""

    def newest(self, product: str) -> NewestTrade | None:
        """The newest trade stored."""


class PullFigures:
    """Feeds a meter from one run.

    Args:
        meter: takes the figures.
        source: host of the exchange.
        flow: `backfill` or `ingest`.
        stats: of the run's client.
        lake: asked for the newest trade of a product after its commits, at most once a publication.
        new_rows: trades that the run has stored so far, by product.
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
        lake: Newest,
        new_rows: Callable[[], Mapping[str, int]],
        per_s: float | None,
        clock: Callable[[], float],
    ) -> None:
        self._meter = meter
        self._source = source
        self._flow = flow
        self._stats = stats
        self._lake = lake
        self._new_rows = new_rows
        self._per_s = per_s
        self._clock = clock
        self._committed: set[str] = set()
        self._lock = threading.Lock()
        self._over = False
        self._sampled_at = clock()
        self._requests_before = stats.requests
        meter.count(names.BREAKER_OPENS, 0, source=source)
        meter.sampled(self.sample)

    def sample(self) -> None:
        """Bring every figure up to date; in the publisher's thread."""
        meter, stats, source = self._meter, self._stats, self._source
        for product, requests in stats.by_product().items():
            about = product or names.NO_PRODUCT
            meter.count_to(names.REQUESTS, requests, source=source, product=about)
        meter.count_to(names.ERRORS, stats.failures, source=source)
        meter.count_to(names.THROTTLED, stats.throttled, source=source)
        meter.count_to(names.RETRIES, stats.retries, source=source)
        meter.observe(names.RESPONSE, stats.latencies.take(), source=source)
        for product, rows in self._new_rows().items():
            meter.count_to(names.ROWS, rows, source=source, product=product)
        self._sample_quota()
        self._sample_newest()

    def told(self, name: str, facts: Mapping[str, object]) -> None:
        """Listen to a job: after a commit, the lake's newest trade may be another one."""
        if name == "committed":
            with self._lock:
                self._committed.add(str(facts["product"]))

    def breaker_changed(self, change: BreakerChange) -> None:
        """Listen to the breaker."""
        if change.after is Phase.OPEN:
            self._meter.count(names.BREAKER_OPENS, 1, source=self._source)

    def ended(self, summary: Summary) -> None:
        """Take what only the end knows."""
        self._over = True
        status = "stopped" if summary.stopped else summary.status.value
        self._meter.count(names.RUNS, 1, flow=self._flow, status=status)
        for receipt in summary.products:
            if receipt.range is not None:
                self._meter.set(
                    names.MISSING,
                    receipt.missing.count,
                    source=self._source,
                    product=receipt.product,
                )

    def _sample_quota(self) -> None:
        if self._per_s is None:
            return
        now, requests = self._clock(), self._stats.requests
        elapsed_s, sent = now - self._sampled_at, requests - self._requests_before
        self._sampled_at, self._requests_before = now, requests
        # A run that is over uses nothing, and the last value would stand until the next one.
        used = 0.0 if self._over or elapsed_s <= 0 else sent / (elapsed_s * self._per_s)
        self._meter.set(names.QUOTA_USED, used, source=self._source, flow=self._flow)

    def _sample_newest(self) -> None:
        with self._lock:
            products, self._committed = self._committed, set()
        for product in sorted(products):
            try:
                newest = self._lake.newest(product)
            except HeadraceError as error:
                log.info("%s: the age of its data is not known: %s", product, error)
                continue
            if newest is not None:
                moment = newest.time.timestamp()
                self._meter.set(names.NEWEST, moment, source=self._source, product=product)
