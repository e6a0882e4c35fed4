"""What can go wrong with metrics; none of it may end a run."""

from __future__ import annotations

from headrace.errors import ConfigurationError, HeadraceError


class MetricsSettingError(ConfigurationError):
    """The setting that says where metrics go cannot be used."""

    def __init__(self, value: str, problem: str) -> None:
        super().__init__(
            f"HEADRACE_METRICS={value!r}: {problem}",
            hint="Write none, prometheus:FILE.prom, cloudwatch:NAMESPACE or otlp:http://HOST:4318",
        )
        self.value = value


class SinkError(HeadraceError):
    """A sink did not take what was published.

    Attributes:
        where: file or namespace.
    """

    def __init__(self, where: str, problem: str, *, hint: str = "") -> None:
        super().__init__(f"metrics did not reach {where}: {problem}", hint=hint)
        self.where = where


class AlarmsRefused(HeadraceError):
    """CloudWatch did not take the alarms, or not all of them.

    Attributes:
        name: the alarm that was refused.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"CloudWatch did not take the alarm {name}: {problem}",
            hint="Allow cloudwatch:PutMetricAlarm to these credentials, and give a region",
        )
        self.name = name
