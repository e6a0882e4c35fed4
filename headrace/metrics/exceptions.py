"""What can go wrong with metrics; none of it may end a run."""

from __future__ import annotations

from headrace.errors import ConfigurationError, PlaceError


class MetricsSettingError(PlaceError, ConfigurationError):
    """The setting that says where metrics go cannot be used."""

    said = "HEADRACE_METRICS={where!r}: {reason}"
    way_out = "Write none, prometheus:FILE.prom, cloudwatch:NAMESPACE or otlp:http://HOST:4318"


class SinkError(PlaceError):
    """A sink did not take what was published.

    Attributes:
        where: file or namespace.
    """

    said = "metrics did not reach {where}: {reason}"


class AlarmsRefused(PlaceError):
    """CloudWatch did not take the alarms, or not all of them.

    Attributes:
        where: the alarm that was refused.
    """

    said = "CloudWatch did not take the alarm {where}: {reason}"
    way_out = "Allow cloudwatch:PutMetricAlarm to these credentials, and give a region"
