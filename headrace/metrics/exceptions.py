"""What can go wrong with metrics; none of it may end a run."""

from __future__ import annotations

from headrace.errors import ConfigurationError, PlaceError


class MetricsSettingError(ConfigurationError):
    """The setting that says where metrics go cannot be used."""

    def __init__(self, value: str, problem: str) -> None:
        super().__init__(
            f"HEADRACE_METRICS={value!r}: {problem}",
            hint="Write none, prometheus:FILE.prom, cloudwatch:NAMESPACE or otlp:http://HOST:4318",
        )
        self.value = value


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
