"""Metrics for operators: to CloudWatch, to a Prometheus text file, to OpenTelemetry, or nowhere.

with publishing(settings) as meter:          # a thread publishes now and then, and at the end
    meter.sampled(probe.sample)              # called before each publication: no work per page
    meter.count(RETRIES, 1, source="looker.example.com")

Start reading at `catalogue`, which defines every name and unit. `meter` adds up what happens in
this process, `requests` feeds it from the client of an API, `publisher` makes the sink of a setting
(`prometheus`, `cloudwatch`, `otlp`) and publishes to it, `alarms` holds the default thresholds.

Nothing here can break a run or hold it up: a sink that fails is logged once, what it did not take
is offered again, and the end of a run waits for it some seconds and no longer.
"""

from headrace.metrics.catalogue import CATALOGUE, Kind, Metric
from headrace.metrics.exceptions import MetricsSettingError, SinkError
from headrace.metrics.meter import Distribution, Meter, Point
from headrace.metrics.publisher import Publisher, Sink, open_sink, parse_sink, publishing

__all__ = [
    "CATALOGUE",
    "Distribution",
    "Kind",
    "Meter",
    "Metric",
    "MetricsSettingError",
    "Point",
    "Publisher",
    "Sink",
    "SinkError",
    "open_sink",
    "parse_sink",
    "publishing",
]
