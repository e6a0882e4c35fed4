"""Metrics over OTLP/HTTP, to a receiver on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from headrace.metrics import Distribution, Meter, MetricsSettingError, SinkError, open_sink
from headrace.metrics.catalogue import NEWEST, REQUESTS, RESPONSE
from headrace.metrics.otlp import OtlpSink
from tests.support.receivers import Hook, receiving

PRODUCT = {"source": "exchange.test", "product": "BTC-USD"}
TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"


@pytest.fixture
def hook() -> Iterator[Hook]:
    with receiving(Hook()) as server:
        yield server


@pytest.fixture
def meter() -> Meter:
    meter = Meter()
    meter.count(REQUESTS, 3, **PRODUCT)
    meter.set(NEWEST, 1_700_000_000.0, **PRODUCT)
    took = Distribution()
    for seconds in (0.04, 0.4, 99.0):
        took.observe(seconds)
    meter.observe(RESPONSE, took, source="exchange.test")
    return meter


def received(hook: Hook) -> dict[str, Any]:
    """The metrics of the last request, by name."""
    path, body = hook.bodies[-1]
    assert path == "/v1/metrics"
    request = ExportMetricsServiceRequest.FromString(body)
    [resource] = request.resource_metrics
    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert attributes["service.name"] == "headrace"
    assert attributes["service.instance.id"]
    return {metric.name: metric for metric in resource.scope_metrics[0].metrics}


def test_what_arrives(hook: Hook, meter: Meter) -> None:
    OtlpSink(hook.url, wall=lambda: 1_000.0).publish(meter.take(), 990.0)
    found = received(hook)
    [count] = found["headrace_requests"].sum.data_points
    assert (count.as_double, found["headrace_requests"].sum.is_monotonic) == (3, True)
    assert {each.key: each.value.string_value for each in count.attributes} == PRODUCT
    assert (count.start_time_unix_nano, count.time_unix_nano) == (10**12, 10**12)
    [newest] = found["headrace_newest_timestamp_seconds"].gauge.data_points
    assert newest.as_double == 1_700_000_000
    [times] = found["headrace_response_seconds"].histogram.data_points
    assert (times.count, times.sum, times.min, times.max) == (3, 99.44, 0.04, 99.0)
    assert len(times.bucket_counts) == len(times.explicit_bounds) + 1
    assert (times.bucket_counts[0], times.bucket_counts[-1], sum(times.bucket_counts)) == (1, 1, 3)


@pytest.mark.parametrize(("preference", "expected"), [("", (5, 2)), ("delta", (2, 1))])
def test_totals_of_the_process_or_differences(
    hook: Hook, meter: Meter, monkeypatch: pytest.MonkeyPatch, preference: str, expected: tuple
) -> None:
    monkeypatch.setenv(TEMPORALITY, preference)
    sink = OtlpSink(hook.url)
    sink.publish(meter.take(), 0.0)
    meter.count(REQUESTS, 2, **PRODUCT)
    sink.publish(meter.take(), 15.0)
    counts = received(hook)["headrace_requests"].sum
    assert (counts.data_points[0].as_double, counts.aggregation_temporality) == expected


def test_what_was_not_taken_is_offered_again_and_counts_once(
    meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.metrics.otlp._TIMEOUT_S", 0.3)
    points = meter.take()
    with receiving(Hook()) as hook:
        sink = OtlpSink(hook.url)
        hook.status = 500
        with pytest.raises(SinkError, match="v1/metrics"):
            sink.publish(points, 0.0)
        hook.status = 200
        sink.publish(points, 0.0)
    assert received(hook)["headrace_requests"].sum.data_points[0].as_double == 3


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    hook: Hook, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    OtlpSink(hook.url).publish(meter.take(), 0.0)
    assert received(hook)


def test_the_setting() -> None:
    sink = open_sink("otlp:http://127.0.0.1:4318", most_products=20)
    assert isinstance(sink, OtlpSink)
    assert sink.url == "http://127.0.0.1:4318/v1/metrics"
    for wrong in ("otlp:", "otlp:collector:4318", "otlp:http://"):
        with pytest.raises(MetricsSettingError, match="http"):
            open_sink(wrong, most_products=20)
