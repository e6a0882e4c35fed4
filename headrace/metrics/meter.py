"""What happened in this process since the last publication, by series."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock

from headrace.metrics.catalogue import OTHER, PRODUCT, Kind, Metric

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

    def plus(self, other: Distribution) -> Distribution:
        """A new one with what both hold."""
        both = Distribution()
        both.add(self)
        both.add(other)
        return both

    def cumulative(self) -> list[tuple[float, int]]:
        """How many took no longer than each bound."""
        return list(zip(BOUNDS_S, accumulate(self.counts), strict=True))


Labels = tuple[tuple[str, str], ...]
Value = float | Distribution

_FOLDS: dict[str, Callable[[float, float], float]] = {
    "sum": lambda one, other: one + other,
    "max": max,
    "min": min,
}


@dataclass(frozen=True, slots=True)
class Point:
    """One series at one publication: what came on top for counters and times, else the value."""

    metric: Metric
    labels: Labels
    value: Value


class ProductCap:
    """Admits so many values of the product label; all others are one series, `_other`.

    Every series costs money at CloudWatch and memory at Prometheus, and products are many.
    """

    def __init__(self, most: int, admitted: Iterable[str] = ()) -> None:
        self.most = most
        self._admitted = {name for name in admitted if name != OTHER}

    def folded(self, labels: Labels) -> Labels:
        """The labels, with a product beyond the cap replaced."""
        return tuple(
            (name, self._product(value) if name == PRODUCT else value) for name, value in labels
        )

    def _product(self, product: str) -> str:
        if product not in self._admitted:
            if len(self._admitted) >= self.most:
                return OTHER
            self._admitted.add(product)
        return product


class Meter:
    """Adds up metrics. Safe between threads.

    Args:
        most_products: series with a product label of their own, per metric.
    """

    def __init__(self, *, most_products: int = 20) -> None:
        self._cap = ProductCap(most_products)
        self._values: dict[tuple[Metric, Labels], Value] = {}
        self._totals: dict[tuple[Metric, Labels], float] = {}
        self._samplers: list[Callable[[], None]] = []
        self._lock = Lock()

    def count(self, metric: Metric, amount: float = 1, **labels: str) -> None:
        """So many more. Zero makes the series known, so that its first rise is seen as one."""
        key = self._key(metric, labels)
        with self._lock:
            self._values[key] = self._number(key) + amount

    def count_to(self, metric: Metric, total: float, **labels: str) -> None:
        """As `count`, for sources that know a running total: it is this much by now."""
        key = self._key(metric, labels)
        with self._lock:
            more = total - self._totals.get(key, 0.0)
            self._totals[key] = total
            self._values[key] = self._number(key) + more

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """The value is this now."""
        key = self._key(metric, labels)
        with self._lock:
            self._values[key] = value

    def observe(self, metric: Metric, took: Distribution, **labels: str) -> None:
        """These took so long: what a `Distribution.take()` gave."""
        key = self._key(metric, labels)
        with self._lock:
            known = self._values.setdefault(key, Distribution())
            assert isinstance(known, Distribution), f"{metric.name} is no metric of times"
            known.add(took)

    def sampled(self, sampler: Callable[[], None]) -> None:
        """Have `sampler` called before each publication, in the publisher's thread."""
        self._samplers.append(sampler)

    def sample(self) -> None:
        """Let every sampler bring its metrics up to date."""
        for sampler in self._samplers:
            sampler()

    def take(self) -> list[Point]:
        """Every series, with the products beyond the cap in one; counters and times restart."""
        with self._lock:
            found = dict(self._values)
            for metric, labels in found:
                if metric.kind is Kind.COUNTER:
                    self._values[metric, labels] = 0.0
                elif metric.kind is Kind.TIMES:
                    self._values[metric, labels] = Distribution()
        return folded(
            [Point(metric, labels, value) for (metric, labels), value in found.items()], self._cap
        )

    def _key(self, metric: Metric, labels: dict[str, str]) -> tuple[Metric, Labels]:
        if set(labels) != set(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.labels}, not {tuple(labels)}")
        return metric, tuple((name, labels[name]) for name in metric.labels)

    def _number(self, key: tuple[Metric, Labels]) -> float:
        value = self._values.get(key, 0.0)
        assert not isinstance(value, Distribution), f"{key[0].name} is a metric of times"
        return value


def folded(points: Iterable[Point], cap: ProductCap) -> list[Point]:
    """The points with at most so many products."""
    return _merged((point.metric, cap.folded(point.labels), point.value) for point in points)


def without_product(points: Iterable[Point]) -> list[Point]:
    """What the points of each metric come to over all products; none for metrics without them."""
    return _merged(
        (point.metric, tuple(label for label in point.labels if label[0] != PRODUCT), point.value)
        for point in points
        if PRODUCT in point.metric.labels
    )


def _merged(series: Iterable[tuple[Metric, Labels, Value]]) -> list[Point]:
    merged: dict[tuple[Metric, Labels], Value] = {}
    for metric, labels, value in series:
        known = merged.get((metric, labels))
        merged[metric, labels] = value if known is None else _both(metric, known, value)
    return [Point(metric, labels, value) for (metric, labels), value in merged.items()]


def _both(metric: Metric, one: Value, other: Value) -> Value:
    if isinstance(one, Distribution) or isinstance(other, Distribution):
        assert isinstance(one, Distribution)
        assert isinstance(other, Distribution)
        return one.plus(other)
    return _FOLDS[metric.worst](one, other)
