"""A text file for the textfile collector of Prometheus' node exporter.

The file is shared by all runs: each adds what it counted to what the file says, under a lock, and
puts the new file in the place of the old one. So counters go on over runs that live for seconds, a
backfill and an ingest at once do not overwrite each other, and a scrape never sees half a file.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text, 0.0.4).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from headrace.locks import LockTimeout, locked
from headrace.metrics.catalogue import CATALOGUE, PRODUCT, Kind, Metric
from headrace.metrics.exceptions import SinkError
from headrace.metrics.meter import BOUNDS_S, Distribution, Labels, Point, ProductCap, folded

log = logging.getLogger(__name__)

#: How long another run may hold the lock, which it needs for milliseconds.
_LOCK_WAIT_S = 2.0

Values = dict[tuple[Metric, Labels], float | Distribution]


class PrometheusFile:
    """`Sink` that keeps `path` up to date, readable by all users (the exporter is another user).

    Args:
        path: ends with `.prom`, or the exporter does not look at it.
        most_products: products with a series of their own in the file, of all runs.
    """

    interval_s = 15.0

    def __init__(self, path: Path, *, most_products: int = 20) -> None:
        self.path = path
        self._most_products = most_products

    def publish(self, points: Sequence[Point], at: float) -> None:  # noqa: ARG002 - the protocol's
        """See `Sink.publish`; the file has no times of its own."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                values = self._known()
                self._take_in(values, points)
                self._replace(generate_latest(_Families(values)))
        except LockTimeout as error:
            raise SinkError(str(self.path), error.message, hint=error.hint) from error
        except OSError as error:
            raise SinkError(
                str(self.path),
                error.strerror or str(error),
                hint="Give this user the right to write in that folder",
            ) from error

    def _take_in(self, values: Values, points: Sequence[Point]) -> None:
        known = (value for _, labels in values for name, value in labels if name == PRODUCT)
        cap = ProductCap(self._most_products, known)
        for point in folded(points, cap):
            key, before = (point.metric, point.labels), values.get((point.metric, point.labels))
            if isinstance(point.value, Distribution):
                values[key] = point.value.plus(
                    before if isinstance(before, Distribution) else Distribution()
                )
            elif point.metric.kind is Kind.COUNTER:
                values[key] = point.value + (before if isinstance(before, float) else 0.0)
            else:
                values[key] = float(point.value)

    def _known(self) -> Values:
        """What the file says; nothing, with a warning, if that cannot be read."""
        try:
            return _parsed(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, IndexError) as error:
            log.warning("%s is damaged (%s); its counters restart at zero", self.path, error)
            return {}

    def _replace(self, content: bytes) -> None:
        # Not `.prom`, or the exporter would read it half written. One name for all: the writer
        # holds the lock, and what a killed run left is written over.
        fresh = self.path.with_name(f".{self.path.name}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(fresh, flags, 0o644), "wb") as file:
            os.fchmod(file.fileno(), 0o644)  # whatever the umask says
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)

    def _alone(self) -> AbstractContextManager[None]:
        lock = self.path.with_name(f".{self.path.name}.lock")
        return locked(lock, limit_s=_LOCK_WAIT_S, mode=0o644)


class _Families(Collector):
    """What `generate_latest` asks for the families."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def collect(self) -> Iterable[Family]:
        """One family per metric of the catalogue that has a value."""
        for metric in CATALOGUE:
            series = [
                (labels, value) for (of, labels), value in self._values.items() if of is metric
            ]
            if series:
                yield _family(metric, sorted(series, key=lambda item: item[0]))


def _family(metric: Metric, series: Sequence[tuple[Labels, float | Distribution]]) -> Family:
    name, names = f"headrace_{metric.name}", metric.labels
    if metric.kind is Kind.TIMES:
        histogram = HistogramMetricFamily(name, metric.help, labels=names)
        for labels, value in series:
            assert isinstance(value, Distribution)
            buckets = [(_bound(bound), count) for bound, count in value.cumulative()]
            histogram.add_metric([text for _, text in labels], buckets, value.total)
        return histogram
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(name, metric.help, labels=names)
    for labels, value in series:
        assert not isinstance(value, Distribution)
        family.add_metric([text for _, text in labels], value)
    return family


def _bound(bound: float) -> str:
    return "+Inf" if bound == BOUNDS_S[-1] else repr(bound)


def _parsed(text: str) -> Values:
    """The values of the metrics in the catalogue; others, of another version, are dropped."""
    values: Values = {}
    by_name = {metric.prometheus_name: metric for metric in CATALOGUE}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            metric = by_name.get(sample.name)
            if metric is not None and set(sample.labels) == set(metric.labels):
                values[_key(metric, sample.labels)] = float(sample.value)
        metric = by_name.get(family.name)
        if metric is not None and metric.kind is Kind.TIMES:
            _parse_histogram(values, metric, family)
    return values


def _parse_histogram(values: Values, metric: Metric, family: Family) -> None:
    found: dict[tuple[Metric, Labels], dict[str, float]] = {}
    for sample in family.samples:
        what = sample.labels.get("le") or sample.name.removeprefix(family.name)
        found.setdefault(_key(metric, sample.labels), {})[what] = float(sample.value)
    for key, numbers in found.items():
        took = Distribution()
        below = 0
        for at, bound in enumerate(BOUNDS_S):
            cumulative = int(numbers[_bound(bound)])
            took.counts[at], below = cumulative - below, cumulative
        took.count, took.total = below, numbers["_sum"]
        values[key] = took


def _key(metric: Metric, labels: dict[str, str]) -> tuple[Metric, Labels]:
    return metric, tuple((name, labels[name]) for name in metric.labels)
