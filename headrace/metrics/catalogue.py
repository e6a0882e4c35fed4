"""Every metric there is: its name in both worlds, its kind, its unit, what tells its series apart.

Prometheus: `headrace_NAME`, with `_total` behind counters, units in the name (its own naming rules,
https://prometheus.io/docs/practices/naming/). CloudWatch: the name in camel case, in the unit that
`Unit` says. `docs/metrics.md` lists the same, and a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: The label that stands for what is pulled; the only one that can take many values.
PRODUCT = "product"

#: The label that tells the shards of a log apart; there are few.
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
        labels: what tells its series apart.
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


REQUESTS = Metric(
    "requests",
    "Requests",
    Kind.COUNTER,
    "Count",
    "Requests that left, retries included.",
    ("source", PRODUCT),
)
ERRORS = Metric(
    "errors",
    "Errors",
    Kind.COUNTER,
    "Count",
    "Requests that the server failed: 5xx, no connection, no answer in time.",
)
THROTTLED = Metric(
    "throttled", "Throttled", Kind.COUNTER, "Count", "Answers 429: the server found us too fast."
)
RETRIES = Metric("retries", "Retries", Kind.COUNTER, "Count", "Requests sent once more.")
RESPONSE = Metric(
    "response_seconds",
    "ResponseTime",
    Kind.TIMES,
    "Seconds",
    "From sending a request to the last byte of its answer.",
)
BREAKER_OPENS = Metric(
    "breaker_opens",
    "BreakerOpens",
    Kind.COUNTER,
    "Count",
    "Times that the circuit breaker opened (after 5 failures of the server in a row).",
)
ROWS = Metric(
    "rows",
    "Rows",
    Kind.COUNTER,
    "Count",
    "New rows stored: trades, items.",
    ("source", PRODUCT),
)
NEWEST = Metric(
    "newest_timestamp_seconds",
    "DataAge",
    Kind.MOMENT,
    "Seconds",
    "Time of the newest row stored; its age is the age of the data.",
    ("source", PRODUCT),
    worst="min",
)
MISSING = Metric(
    "missing_ids",
    "MissingIds",
    Kind.GAUGE,
    "Count",
    "Ids of the range asked for, or items, that the last run left missing.",
    ("source", PRODUCT),
)
QUOTA_USED = Metric(
    "quota_used_ratio",
    "QuotaUse",
    Kind.GAUGE,
    "Percent",
    "Share of the quota that this kind of run used in the last interval.",
    ("source", "flow"),
)
RUNS = Metric(
    "runs",
    "Runs",
    Kind.COUNTER,
    "Count",
    "Runs that ended, by outcome: done, partial, failed, running_elsewhere, stopped.",
    ("flow", "status"),
)

LOG_RECORDS = Metric(
    "log_records",
    "LogRecords",
    Kind.COUNTER,
    "Count",
    "Records of the source-of-truth log that became durable.",
    ("source", SHARD),
)
LOG_COMMIT = Metric(
    "log_commit_seconds",
    "LogCommitTime",
    Kind.TIMES,
    "Seconds",
    "From handing batches of the log to the store to its answer.",
    ("source", SHARD),
)
LOG_DELAY = Metric(
    "log_delay_seconds",
    "LogDelay",
    Kind.TIMES,
    "Seconds",
    "From reading a record to its acknowledgement.",
    ("source", SHARD),
)
LOG_QUEUE = Metric(
    "log_queue_bytes",
    "LogQueue",
    Kind.GAUGE,
    "Bytes",
    "The most that waited at once in the last write: read, but not durable.",
    ("source", SHARD),
)
LOG_SKEW = Metric(
    "log_skew_ratio",
    "LogSkew",
    Kind.GAUGE,
    "None",
    "Records of the busiest shard over the mean of all shards, in the last write.",
)
LOG_PROBLEMS = Metric(
    "log_problems",
    "LogProblems",
    Kind.COUNTER,
    "Count",
    "What runs of the log found wrong: forks, gaps, malformed records, damage.",
)

CATALOGUE = (
    REQUESTS,
    ERRORS,
    THROTTLED,
    RETRIES,
    RESPONSE,
    BREAKER_OPENS,
    ROWS,
    NEWEST,
    MISSING,
    QUOTA_USED,
    RUNS,
    LOG_RECORDS,
    LOG_COMMIT,
    LOG_DELAY,
    LOG_QUEUE,
    LOG_SKEW,
    LOG_PROBLEMS,
)
