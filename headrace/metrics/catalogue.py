"""Every figure there is: its name in both worlds, its kind, its unit, what tells its series apart.

Prometheus: `headrace_NAME`, with `_total` behind counters, units in the name (its own naming rules,
https://prometheus.io/docs/practices/naming/). CloudWatch: the name in camel case, in the unit that
`Unit` says. `docs/metrics.md` lists the same, and a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: The label that stands for what is pulled; the only one that can take many values.
PRODUCT = "product"

#: The product of what is about none, such as a listing: CloudWatch takes no empty value.
NO_PRODUCT = "_none"

#: The series that takes in the products beyond the cap.
OTHER = "_other"


class Kind(StrEnum):
    """How values of a figure add up over time."""

    COUNTER = "counter"  #: only rises; what is published is what came on top
    GAUGE = "gauge"  #: a value as it is now
    MOMENT = "moment"  #: Unix seconds of an event; CloudWatch gets its age instead
    TIMES = "times"  #: how long things took: count, sum, least, most, and a histogram


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure.

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
    "New rows stored: trades, items, records.",
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
    "Ids of the range asked for that the last run left missing.",
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
)
