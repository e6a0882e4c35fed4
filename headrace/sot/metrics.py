"""The metrics of a run of the log."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter

from headrace.metrics import catalogue as names
from headrace.metrics.meter import BOUNDS_S, Distribution, Meter
from headrace.sot.reports import SotReport
from headrace.sot.writing.stats import Histogram, ShardStats, skew


class LogMetrics:
    """Feeds a meter from one run of the log. Safe between threads.

    Args:
        meter: takes the metrics.
        source: location of the store.
        flow: the kind of run.
    """

    def __init__(self, meter: Meter, *, source: str, flow: str) -> None:
        self._meter = meter
        self._source = source
        self._flow = flow
        self._stored: Counter[int] = Counter()
        self._mutex = threading.Lock()
        meter.count(names.LOG_PROBLEMS, 0, source=source)
        meter.sampled(self._sample)

    def stored(self, shard: int, records: int) -> None:
        """So many records of a shard are durable."""
        with self._mutex:
            self._stored[shard] += records

    def written(self, shards: list[ShardStats]) -> None:
        """What the shards measured about themselves, once all is durable."""
        for each in shards:
            about = {"source": self._source, "shard": str(each.shard)}
            self._meter.observe(names.LOG_COMMIT, distribution(each.commit), **about)
            self._meter.observe(names.LOG_DELAY, distribution(each.delay), **about)
            self._meter.set(names.LOG_QUEUE, each.queue_bytes, **about)
        if any(each.records for each in shards):
            self._meter.set(names.LOG_SKEW, skew(shards), source=self._source)

    def ended(self, report: SotReport) -> None:
        """Take what only the end knows."""
        status = "stopped" if report.stopped else report.status.value
        self._meter.count(names.LOG_PROBLEMS, len(report.problems), source=self._source)
        self._meter.count(names.RUNS, 1, flow=self._flow, status=status)

    def _sample(self) -> None:
        with self._mutex:
            stored = dict(self._stored)
        for shard, records in stored.items():
            self._meter.count_to(names.LOG_RECORDS, records, source=self._source, shard=str(shard))


def distribution(histogram: Histogram) -> Distribution:
    """A histogram in the metrics' buckets; each duration counts as its bucket's upper bound."""
    taken = Distribution()
    for bound_s, count in histogram.bounded():
        if count:
            taken.count += count
            taken.total += count * bound_s
            taken.least = min(taken.least, bound_s)
            taken.most = max(taken.most, bound_s)
            taken.counts[bisect_left(BOUNDS_S, bound_s)] += count
    return taken
