"""The metrics of one pull beside those of its requests: what was stored, how old, what is missing.

Nothing here is called per page or per trade; see `headrace.metrics.requests`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from headrace.errors import HeadraceError
from headrace.lake import NewestTrade
from headrace.metrics import catalogue as names
from headrace.metrics.meter import Meter
from headrace.metrics.requests import RequestMetrics
from headrace.pull.report import Summary

log = logging.getLogger(__name__)


class Newest(Protocol):
    """What the metrics ask of the lake."""

    def newest(self, product: str) -> NewestTrade | None:
        """The newest trade stored."""


class PullMetrics:
    """Feeds a meter from one run.

    Args:
        meter: takes the metrics.
        source: host of the exchange.
        requests: the metrics of the run's client.
        lake: asked for the newest trade of a product after its commits, at most once a publication.
        new_rows: trades that the run has stored so far, by product.
    """

    def __init__(
        self,
        meter: Meter,
        *,
        source: str,
        requests: RequestMetrics,
        lake: Newest,
        new_rows: Callable[[], Mapping[str, int]],
    ) -> None:
        self._meter = meter
        self._source = source
        self._requests = requests
        self._lake = lake
        self._new_rows = new_rows
        self._committed: set[str] = set()
        self._lock = threading.Lock()
        meter.sampled(self._sample)

    def on_event(self, name: str, facts: Mapping[str, object]) -> None:
        """Listen to a job: after a commit, the lake's newest trade may be another one."""
        product = str(facts["product"])
        if name == "committed":
            with self._lock:
                self._committed.add(product)
        elif name == "unchanged" and isinstance(moment := facts["newest_at"], datetime):
            self._set_newest(product, moment)

    def ended(self, summary: Summary) -> None:
        """Take what only the end knows."""
        self._requests.ended("stopped" if summary.stopped else summary.status.value)
        for receipt in summary.products:
            if receipt.range is not None:
                self._meter.set(
                    names.MISSING,
                    receipt.missing.count,
                    source=self._source,
                    product=receipt.product,
                )

    def _sample(self) -> None:
        for product, rows in self._new_rows().items():
            self._meter.count_to(names.ROWS, rows, source=self._source, product=product)
        self._sample_newest()

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
                self._set_newest(product, newest.time)

    def _set_newest(self, product: str, moment: datetime) -> None:
        self._meter.set(names.NEWEST, moment.timestamp(), source=self._source, product=product)
