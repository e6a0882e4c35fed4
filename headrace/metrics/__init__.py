"""Metrics for operators: to CloudWatch, to a Prometheus text file, or nowhere.

with publishing(settings) as meter:          # a thread publishes now and then, and at the end
    meter.sampled(probe.sample)              # called before each publication: no work per page
    meter.count(RETRIES, 1, source="looker.example.com")

Start reading at `catalogue`, which defines every name and unit. `meter` adds up what happens in
this process, `publisher` hands it to a sink (`prometheus`, `cloudwatch`), `opening` makes the sink
from the text in a setting, `alarms` holds the thresholds that ship as defaults.

Nothing here can break a run or hold it up: a sink that fails is told once in the log, what it did
not take is offered again, and at the end it is waited for some seconds and no longer.
"""

from headrace.metrics.catalogue import CATALOGUE, Kind, Metric
from headrace.metrics.distribution import Distribution
from headrace.metrics.exceptions import MetricsSettingError, SinkError
from headrace.metrics.meter import Meter, Point
from headrace.metrics.opening import open_sink, parse_sink, publishing
from headrace.metrics.publisher import Publisher, Sink

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
