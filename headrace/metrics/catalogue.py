"""Every metric there is: its names in both systems, its kind, its unit, its labels.

Prometheus: `headrace_NAME`, with `_total` behind counters, units in the name (its own naming rules,
https://prometheus.io/docs/practices/naming/). CloudWatch: the name in camel case, in the unit that
`Unit` says. `docs/metrics.md` lists the same, and a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

#: The label that stands for what is pulled; the only one that can take many values.
PRODUCT = "product"

#: The label of the shards of a log; there are few.
SHARD = "shard"

#: The product of what is about none, such as a listing: CloudWatch takes no empty value.
NO_PRODUCT = "_none"

#: The series that takes in the products beyond the cap.
OTHER = "_other"


class Kind(StrEnum):
    """How values of a metric add up over time."""

    COUNTER = "counter"  #: only rises; what is published is what came on top
    GAUGE = "gauge"  #: a value as it is now
    MOMENT = "moment"  #: Unix seconds of an event; CloudWatch gets its age instead
    TIMES = "times"  #: how long things took: count, sum, least, most, and a histogram


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Args:
        name: in Prometheus, without prefix and `_total`.
        cloud_name: in CloudWatch.
        kind: how its values add up over time.
        unit: in CloudWatch's words; what Prometheus gets is in base units (seconds, 0 to 1).
        help: what it says, in one line.
        labels: of its series.
        worst: of several series, the one value that stands for all (`max`, `min` or `sum`): for the
            total over products, and for those beyond the cap.
    """

    name: str
    cloud_name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...] = ("source",)
    worst: str = "sum"

    @property
    def prometheus_name(self) -> str:
        """As it stands in the text file."""
        return f"headrace_{self.name}" + ("_total" if self.kind is Kind.COUNTER else "")


_ALL: list[Metric] = []


def _metric(
    kind: Kind,
    unit: str,
    name: str,
    cloud_name: str,
    help_: str,
    labels: tuple[str, ...] = ("source",),
    worst: str = "sum",
) -> Metric:
    _ALL.append(Metric(name, cloud_name, kind, unit, help_, labels, worst))
    return _ALL[-1]


_counter = partial(_metric, Kind.COUNTER, "Count")
_times = partial(_metric, Kind.TIMES, "Seconds")
_gauge = partial(_metric, Kind.GAUGE)
_BY_PRODUCT, _BY_SHARD = ("source", PRODUCT), ("source", SHARD)

REQUESTS = _counter("requests", "Requests", "Requests that left, retries included.", _BY_PRODUCT)
ERRORS = _counter(
    "errors", "Errors", "Requests that the server failed: 5xx, no connection, no answer in time."
)
THROTTLED = _counter("throttled", "Throttled", "Answers 429: the server found us too fast.")
RETRIES = _counter("retries", "Retries", "Requests sent once more.")
RESPONSE = _times(
    "response_seconds", "ResponseTime", "From sending a request to the last byte of its answer."
)
BREAKER_OPENS = _counter(
    "breaker_opens",
    "BreakerOpens",
    "Times that the circuit breaker opened (after 5 failures of the server in a row).",
)
ROWS = _counter("rows", "Rows", "New rows stored: trades, items.", _BY_PRODUCT)
NEWEST = _metric(
    Kind.MOMENT,
    "Seconds",
    "newest_timestamp_seconds",
    "DataAge",
    "Time of the newest row stored; its age is the age of the data.",
    _BY_PRODUCT,
    worst="min",
)
MISSING = _gauge(
    "Count",
    "missing_ids",
    "MissingIds",
    "Ids of the range asked for, or items, that the last run left missing.",
    _BY_PRODUCT,
)
QUOTA_USED = _gauge(
    "Percent",
    "quota_used_ratio",
    "QuotaUse",
    "Share of the quota that this kind of run used in the last interval.",
    ("source", "flow"),
)
RUNS = _counter(
    "runs",
    "Runs",
    "Runs that ended, by outcome: done, partial, failed, running_elsewhere, stopped.",
    ("flow", "status"),
)

LOG_RECORDS = _counter(
    "log_records",
    "LogRecords",
    "Records of the source-of-truth log that became durable.",
    _BY_SHARD,
)
LOG_COMMIT = _times(
    "log_commit_seconds",
    "LogCommitTime",
    "From handing batches of the log to the store to its answer.",
    _BY_SHARD,
)
LOG_DELAY = _times(
    "log_delay_seconds", "LogDelay", "From reading a record to its acknowledgement.", _BY_SHARD
)
LOG_QUEUE = _gauge(
    "Bytes",
    "log_queue_bytes",
    "LogQueue",
    "The most that waited at once in the last write: read, but not durable.",
    _BY_SHARD,
)
LOG_SKEW = _gauge(
    "None",
    "log_skew_ratio",
    "LogSkew",
    "Records of the busiest shard over the mean of all shards, in the last write.",
)
LOG_PROBLEMS = _counter(
    "log_problems",
    "LogProblems",
    "What runs of the log found wrong: forks, gaps, malformed records, damage.",
)

CATALOGUE = tuple(_ALL)
