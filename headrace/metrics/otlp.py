"""Metrics to a collector over OTLP/HTTP, by the exporter of OpenTelemetry's SDK.

Counters and histograms are running totals of this process, which is a `service.instance.id`: that
is what Prometheus and most stores take. Where the collector adds up differences, the standard
variable OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=delta asks for these. The exporter reads
others of the standard, too: headers (OTEL_EXPORTER_OTLP_HEADERS, for a token), compression,
certificates.

A collector for Prometheus makes of the names here those of the text file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from urllib.parse import urlsplit
from uuid import uuid4

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from headrace import __version__
from headrace.metrics.catalogue import Kind
from headrace.metrics.catalogue import Metric as Known
from headrace.metrics.exceptions import SinkError
from headrace.metrics.meter import BOUNDS_S, Distribution, Labels, Point

#: Of one request; what it did not take is offered again.
_TIMEOUT_S = 4.0
_PATH = "/v1/metrics"
_NS = 10**9
#: In the words of OpenTelemetry (UCUM).
_UNITS = {"Seconds": "s", "Bytes": "By", "Percent": "1", "None": "1", "Count": "{count}"}
_SCOPE = InstrumentationScope("headrace", __version__)
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}

Key = tuple[Known, Labels]


class OtlpSink:
    """`Sink` that sends to a collector.

    Args:
        url: of the collector, such as http://127.0.0.1:4318; `/v1/metrics` is added.
        wall: Unix seconds.
    """

    interval_s = 15.0

    def __init__(self, url: str, *, wall: Callable[[], float] = time.time) -> None:
        self.url = url if url.endswith(_PATH) else url.rstrip("/") + _PATH
        self._wall = wall
        self._began = wall()
        self._totals: dict[Key, float | Distribution] = {}
        preference = os.environ.get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "")
        self._delta = preference.lower() == "delta"
        self._resource = Resource.create(
            {
                "service.name": "headrace",
                "service.version": __version__,
                "service.instance.id": str(uuid4()),
            }
        )
        session = requests.Session()
        # A proxy of the environment is not asked for this machine.
        session.trust_env = urlsplit(self.url).hostname not in _LOOPBACK
        self._exporter = OTLPMetricExporter(endpoint=self.url, timeout=_TIMEOUT_S, session=session)

    def publish(self, points: Sequence[Point], at: float) -> None:
        """See `Sink.publish`."""
        totals = dict(self._totals)
        for point in points:
            _add(totals, point)
        until = min(self._wall(), at + self.interval_s)
        begin = at if self._delta else self._began
        span = round(begin * _NS), round(max(until, begin) * _NS)
        shown = points if self._delta else [
            Point(point.metric, point.labels, totals.get((point.metric, point.labels), point.value))
            for point in points
        ]  # fmt: skip
        metrics = list(self._metrics(shown, span))
        if metrics and self._exporter.export(self._data(metrics)) is not MetricExportResult.SUCCESS:
            raise SinkError(
                self.url,
                "the collector did not take them",
                hint="Look whether it listens there with OTLP over HTTP; if it wants a token, "
                "OTEL_EXPORTER_OTLP_HEADERS holds it",
            )
        self._totals = totals

    def _data(self, metrics: Sequence[Metric]) -> MetricsData:
        scope = ScopeMetrics(_SCOPE, metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _metrics(self, points: Sequence[Point], span: tuple[int, int]) -> Iterator[Metric]:
        temporality = (
            AggregationTemporality.DELTA if self._delta else AggregationTemporality.CUMULATIVE
        )
        ordered = sorted(points, key=lambda point: point.metric.name)
        for known, group in groupby(ordered, key=lambda point: point.metric):
            series = list(group)
            data: Sum | Gauge | Histogram
            if known.kind is Kind.TIMES:
                data = Histogram([_histogram(each, span) for each in series], temporality)
            else:
                numbers = [_number(each, span) for each in series]
                counts = known.kind is Kind.COUNTER
                data = Sum(numbers, temporality, is_monotonic=True) if counts else Gauge(numbers)
            name, unit = f"headrace_{known.name}", _UNITS[known.unit]
            yield Metric(name, known.help, "s" if known.kind is Kind.MOMENT else unit, data)


def _add(totals: dict[Key, float | Distribution], point: Point) -> None:
    key = point.metric, point.labels
    before = totals.get(key)
    if isinstance(point.value, Distribution):
        totals[key] = point.value.plus(
            before if isinstance(before, Distribution) else Distribution()
        )
    elif point.metric.kind is Kind.COUNTER:
        totals[key] = point.value + (before if isinstance(before, float) else 0.0)


def _number(point: Point, span: tuple[int, int]) -> NumberDataPoint:
    assert not isinstance(point.value, Distribution)
    return NumberDataPoint(dict(point.labels), *span, float(point.value))


def _histogram(point: Point, span: tuple[int, int]) -> HistogramDataPoint:
    took = point.value
    assert isinstance(took, Distribution)
    least = took.least if took.count else 0.0
    return HistogramDataPoint(
        dict(point.labels), *span, took.count, took.total, tuple(took.counts), BOUNDS_S[:-1],
        least, took.most,
    )  # fmt: skip
