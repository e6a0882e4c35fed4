"""The thresholds of alarms that ship as defaults, and the alarms that they make.

As CloudWatch alarms (`put_alarms`) and as a rules file for Prometheus (`prometheus_rules`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from headrace.metrics.catalogue import (
    BREAKER_OPENS,
    ERRORS,
    NEWEST,
    REQUESTS,
    RESPONSE,
    THROTTLED,
    Metric,
)
from headrace.metrics.exceptions import AlarmsRefused

_MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What is too much.

    Args:
        response_s: mean seconds of an answer.
        error_rate: percent of requests that the server failed.
        throttles_per_minute: answers 429 in a minute.
        breaker_opens: times that the breaker opened in a minute.
        data_age_s: seconds since the newest row stored; 0 for no such alarm, since it is right
            only where something is pulled on a schedule.
    """

    response_s: float = 3.0
    error_rate: float = 10.0
    throttles_per_minute: int = 10
    breaker_opens: int = 0
    data_age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm, in the words of both systems.

    Args:
        name: in CloudWatch, behind the source; in Prometheus, in camel case.
        says: what is the matter, and what to do.
        above: the threshold.
        expr: PromQL; {w} is the window.
        metric: what CloudWatch looks at, with its statistic; None for the error rate, which is
            computed of two.
        minutes: how many minutes in a row it has to be so.
        silence: what CloudWatch takes missing data for.
    """

    name: str
    says: str
    above: float
    expr: str
    metric: Metric | None = None
    statistic: str = "Sum"
    minutes: int = 1
    silence: str = "notBreaching"


def alarms(limits: Thresholds) -> list[Alarm]:
    """The alarms that these thresholds mean."""
    response = RESPONSE.prometheus_name
    found = [
        Alarm(
            "ResponseTime",
            f"Answers take more than {limits.response_s:g} s: a slow exchange, or a slow network.",
            limits.response_s,
            f"sum by (source) (rate({response}_sum[{{w}}]))"
            f" / sum by (source) (rate({response}_count[{{w}}]))",
            RESPONSE,
            "Average",
            minutes=3,
        ),
        Alarm(
            "ErrorRate",
            f"More than {limits.error_rate:g} % of the requests fail at the server.",
            limits.error_rate,
            f"100 * sum by (source) (rate({ERRORS.prometheus_name}[{{w}}]))"
            f" / sum by (source) (rate({REQUESTS.prometheus_name}[{{w}}]))",
            minutes=3,
        ),
        Alarm(
            "Throttles",
            f"More than {limits.throttles_per_minute} answers 429 a minute. Something else uses "
            "the same quota, or HEADRACE_RATE is above what the exchange allows.",
            limits.throttles_per_minute,
            f"60 * sum by (source) (rate({THROTTLED.prometheus_name}[{{w}}]))",
            THROTTLED,
        ),
        Alarm(
            "BreakerOpens",
            "The circuit breaker opened: the exchange failed 5 times in a row. "
            "`headrace breaker status` says when it is asked again.",
            limits.breaker_opens,
            f"sum by (source) (increase({BREAKER_OPENS.prometheus_name}[5m]))",
            BREAKER_OPENS,
        ),
    ]
    if limits.data_age_s:
        found.append(
            Alarm(
                "DataAge",
                f"The newest data is older than {limits.data_age_s:g} s. "
                "Does the ingest still run? `headrace doctor` looks for what keeps it.",
                limits.data_age_s,
                f"time() - min by (source) ({NEWEST.prometheus_name})",
                NEWEST,
                "Maximum",
                minutes=5,
                silence="breaching",
            )
        )
    return found


def prometheus_rules(limits: Thresholds, *, window: str = "2m") -> str:
    """A rules file (YAML; every value is quoted as JSON, which YAML reads).

    Args:
        limits: what is too much.
        window: of rates; at least two scrapes long.
    """
    lines = ["groups:", "  - name: headrace", "    rules:"]
    for alarm in alarms(limits):
        expr = f"{alarm.expr.replace('{w}', window)} > {alarm.above:g}"
        lines += [
            f"      - alert: Headrace{alarm.name}",
            f"        expr: {json.dumps(expr)}",
            f"        for: {alarm.minutes if alarm.minutes > 1 else 0}m",
            "        labels:",
            "          severity: warning",
            "        annotations:",
            f"          summary: {json.dumps('{{ $labels.source }}: ' + alarm.says)}",
        ]
    return "\n".join(lines) + "\n"


def put_alarms(
    client: Any, namespace: str, source: str, limits: Thresholds, *, actions: list[str]
) -> list[str]:
    """Make or replace the CloudWatch alarms about one source; their names.

    Args:
        client: boto3's CloudWatch client.
        namespace: where the metrics go.
        source: host of the exchange, as in the metrics' dimension.
        limits: what is too much.
        actions: ARNs to notify, of SNS topics for example; also when the alarm is over.

    Raises:
        AlarmsRefused: CloudWatch did not take one; those before it are in force.
    """
    names = []
    for alarm in alarms(limits):
        name = f"headrace {source} {alarm.name}"
        try:
            client.put_metric_alarm(
                AlarmName=name,
                AlarmDescription=alarm.says,
                ComparisonOperator="GreaterThanThreshold",
                Threshold=float(alarm.above),
                EvaluationPeriods=alarm.minutes,
                DatapointsToAlarm=alarm.minutes,
                TreatMissingData=alarm.silence,
                ActionsEnabled=bool(actions),
                AlarmActions=actions,
                OKActions=actions,
                **_looked_at(alarm, namespace, source),
            )
        except (BotoCoreError, ClientError) as error:
            raise AlarmsRefused(name, str(error)) from error
        names.append(name)
    return names


def _looked_at(alarm: Alarm, namespace: str, source: str) -> dict[str, Any]:
    dimensions = [{"Name": "Source", "Value": source}]
    if alarm.metric is not None:
        return {
            "Namespace": namespace,
            "MetricName": alarm.metric.cloud_name,
            "Dimensions": dimensions,
            "Statistic": alarm.statistic,
            "Period": _MINUTE_S,
            "Unit": alarm.metric.unit,
        }
    parts = [
        {
            "Id": metric.name,
            "MetricStat": {
                "Metric": {
                    "Namespace": namespace,
                    "MetricName": metric.cloud_name,
                    "Dimensions": dimensions,
                },
                "Period": _MINUTE_S,
                "Stat": "Sum",
            },
            "ReturnData": False,
        }
        for metric in (ERRORS, REQUESTS)
    ]
    rate = "IF(requests > 0, 100 * errors / requests, 0)"
    return {
        "Metrics": [
            {
                "Id": "rate",
                "Expression": rate,
                "Label": "error rate in percent",
                "ReturnData": True,
            },
            *parts,
        ]
    }
