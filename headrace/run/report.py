"""What a run did, whatever its pipeline: one report, shown on a terminal, in Prefect and as JSON.

A pipeline's report is a frozen dataclass derived from `Report`. The run's state, its exit code, the
artifacts, the closing table of the terminal and the `--json` summary are all made from it.
"""

from __future__ import annotations

import logging
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Self

from headrace.amounts import counted, duration

log = logging.getLogger(__name__)

Row = dict[str, Any]


class Status(StrEnum):
    """How a run, or a part of it, ended."""

    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    RUNNING_ELSEWHERE = "running_elsewhere"

    @property
    def quiet(self) -> bool:
        """Whether it asks nothing of an operator."""
        return self in (Status.DONE, Status.RUNNING_ELSEWHERE)


def combined(statuses: Iterable[Status]) -> Status:
    """The status of a whole: done only if all parts are, failed only if all failed.

    Parts that another run works on are no failure; if nothing else is amiss the whole says so.
    """
    found = set(statuses)
    if found <= {Status.DONE}:
        return Status.DONE
    if found <= {Status.DONE, Status.RUNNING_ELSEWHERE}:
        return Status.RUNNING_ELSEWHERE
    return Status.FAILED if found == {Status.FAILED} else Status.PARTIAL


def error_lines(errors: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each error, with the parts of the run (products) that it met.

    Args:
        errors: part and error; an empty error is none.
    """
    met: dict[str, list[str]] = {}
    for part, error in errors:
        if error:
            met.setdefault(error.removeprefix(f"{part}: "), []).append(part)
    return [f"{', '.join(parts)}: {error}" for error, parts in met.items()]


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """How much of the quota a run used; without a limit, the last two are None.

    `per_s` is the mean rate that the quota sustains, in requests a second.
    """

    name: str
    rates: str
    used_share: float | None = None
    per_s: float | None = None

    def as_json(self) -> Row:
        """The form of the summary."""
        return {"name": self.name, "rates": self.rates, "used_share": self.used_share}


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of the Prefect UI: the artifact's key, what it shows, and its rows."""

    key: str
    description: str
    rows: Sequence[Row]


class Report:
    """What one run did.

    Attributes:
        key: prefix of the run's artifacts.
        run: id of the flow run; empty for a run that was refused before it was anything to Prefect.
        status: how it ended; `stopped` if it was asked to end before.
        ui_url: where Prefect shows the run, if it does.
        elapsed_s: seconds from start to end.
        own_counts: fields that add up over the attempts of a run.
        part: what a part of the run is called (a product, a content type): the field of its name in
            a receipt, and with an s the field of all receipts; empty if there are none.
        part_counts: fields of a receipt that add up, too.
    """

    __slots__ = ()

    key: ClassVar[str] = "headrace"
    own_counts: ClassVar[tuple[str, ...]] = ("elapsed_s",)
    part: ClassVar[str] = ""
    part_counts: ClassVar[tuple[str, ...]] = ()
    run: str
    status: Status
    ui_url: str | None
    elapsed_s: float
    stopped: bool

    @abstractmethod
    def as_json(self) -> Row:
        """The `--json` summary: plain values."""

    @abstractmethod
    def title(self) -> str:
        """How the run ended, and which parts came to no good end."""

    @abstractmethod
    def totals(self) -> str:
        """What it did and what that cost, in one line."""

    @abstractmethod
    def table(self) -> list[Row]:
        """A row for each part, narrow enough for a terminal of 80 columns."""

    @abstractmethod
    def sheets(self) -> list[Sheet]:
        """The tables of the UI."""

    def remarks(self) -> list[str]:
        """A line for each thing that went wrong or is missing, with what to do about it."""
        return []

    def headline(self) -> str:
        """The outcome in one line: the message of the run's state."""
        return f"{self.title()}: {self.totals()}"

    def log_line(self) -> str:
        """The outcome in the log; without what the lines of its parts say there."""
        return self.headline()

    def counts(self) -> dict[str, float]:
        """What adds up over the attempts of a run that was retried in the UI."""
        counts = self._own_counts()
        for receipt in self._receipts:
            counts |= {
                self._key(receipt, name): getattr(receipt, name) for name in self.part_counts
            }
        return counts

    def plus(self, earlier: Mapping[str, float]) -> Self:
        """This report with the `counts` of earlier attempts of the same run added."""
        receipts = []
        for receipt in self._receipts:
            counts = {name: getattr(receipt, name) for name in self.part_counts}
            before = {name: earlier.get(self._key(receipt, name), 0) for name in counts}
            receipts.append(replace(receipt, **_added(counts, before)))
        changed = self._own_plus(earlier)
        if self.part:
            changed[f"{self.part}s"] = tuple(receipts)
        return replace(self, **changed)  # type: ignore[type-var]

    def _own_counts(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in self.own_counts}

    def _own_plus(self, earlier: Mapping[str, float]) -> Row:
        return _added(self._own_counts(), earlier)

    @property
    def _receipts(self) -> Sequence[Any]:
        return getattr(self, f"{self.part}s") if self.part else ()

    def _key(self, receipt: Any, name: str) -> str:
        return f"{getattr(receipt, self.part)}.{name}"

    def log_facts(self) -> Row:
        """What the line of the run's end says as facts, beside its text."""
        return {
            "run": self.run,
            "status": "stopped" if self.stopped else self.status.value,
            "elapsed_s": round(self.elapsed_s, 3),
        }

    def facts(self) -> list[str]:
        """What the summary lists above its table; Markdown."""
        return []

    def markdown(self) -> str:
        """The summary artifact."""
        lines = [f"## {plain(self.headline())}", "", *(f"- {fact}" for fact in self.facts()), ""]
        lines += markdown_table(self.table())
        return "\n".join([*lines, "", *(f"- {plain(remark)}" for remark in self.remarks())])


@dataclass(frozen=True, slots=True)
class Costs:
    """What the requests of a run cost.

    Args:
        logins: among the requests; None for a source that knows none.
    """

    requests: int
    throttled: int
    retries: int
    elapsed_s: float
    quota: QuotaUse
    logins: int | None = None

    def as_json(self) -> Row:
        """The part of the summary."""
        logins = {} if self.logins is None else {"logins": self.logins}
        return {
            "elapsed_s": round(self.elapsed_s, 3),
            "requests": self.requests,
            "throttled": self.throttled,
            "retries": self.retries,
            **logins,
            "quota": self.quota.as_json(),
        }

    def counts(self) -> dict[str, float]:
        """What adds up over attempts."""
        logins = {} if self.logins is None else {"logins": self.logins}
        return {
            "requests": self.requests,
            "throttled": self.throttled,
            "retries": self.retries,
            "elapsed_s": self.elapsed_s,
            **logins,
        }

    def words(self) -> list[str]:
        """Requests, time and quota, a few words each."""
        parts = [
            f"{counted(self.requests, 'request')} in {duration(self.elapsed_s)}",
            f"{self.throttled:,} throttled",
            f"{self.retries:,} repeated",
            f"quota {self.quota.rates}",
        ]
        if self.quota.used_share is not None:
            parts.append(f"{self.quota.used_share:.1%} of it used")
        return parts

    def facts(self) -> list[str]:
        """The same as lines of a summary."""
        share = self.quota.used_share
        used = f"{share:.1%} of it used" if share is not None else "no limit"
        lines = [
            f"requests: {self.requests:,}, throttled {self.throttled:,}, repeated {self.retries:,}",
            f"quota `{self.quota.name}` {self.quota.rates}: {used}",
        ]
        return lines if self.logins is None else [*lines, f"logins: {self.logins:,}"]


class RequestReport(Report):
    """The report of a run that sends requests; `costs` is what they cost."""

    __slots__ = ()

    costs: Costs

    @property
    def elapsed_s(self) -> float:  # type: ignore[override]
        """Seconds from start to end."""
        return self.costs.elapsed_s

    @property
    def requests(self) -> int:
        """Requests that were sent."""
        return self.costs.requests

    def log_facts(self) -> Row:
        """Requests too."""
        costs = self.costs.as_json()
        names = ("requests", "throttled", "retries")
        return {**Report.log_facts(self), **{name: costs[name] for name in names}}

    def facts(self) -> list[str]:
        """Requests and quota."""
        return self.costs.facts()

    def _own_counts(self) -> dict[str, float]:
        return self.costs.counts()

    def _own_plus(self, earlier: Mapping[str, float]) -> Row:
        return {"costs": replace(self.costs, **_added(self.costs.counts(), earlier))}


def _added(counts: Mapping[str, float], earlier: Mapping[str, float]) -> dict[str, Any]:
    return {name: count + type(count)(earlier.get(name, 0)) for name, count in counts.items()}


def log_end(report: Report) -> None:
    """The line of a run that ended."""
    level = logging.INFO if report.status.quiet else logging.WARNING
    extra = {"event": "run-ended", "facts": report.log_facts()}
    log.log(level, "%s", report.log_line(), extra=extra)


#: Rows of one table in a summary; the table artifacts and `--json` have the rest.
_MOST_ROWS = 500


def markdown_table(rows: Sequence[Row]) -> list[str]:
    """The rows as lines of a Markdown table; none for none."""
    if not rows:
        return []
    lines = [f"| {' | '.join(rows[0])} |", f"|{'---|' * len(rows[0])}"]
    lines += [f"| {' | '.join(map(_cell, row.values()))} |" for row in rows[:_MOST_ROWS]]
    return lines


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int | float) else plain(str(value))


_ENDINGS = {
    Status.DONE: "complete",
    Status.PARTIAL: "partial: something failed or is missing",
    Status.FAILED: "failed",
    Status.RUNNING_ELSEWHERE: "already running elsewhere",
}


def ended(
    status: Status, parts: Iterable[tuple[str, Status]], endings: dict[Status, str] = _ENDINGS
) -> str:
    """How a run ended, and which parts of it (products, content types) came to no good end."""
    troubled = [name for name, of_part in parts if of_part is not Status.DONE]
    return endings[status] + (f" ({', '.join(troubled)})" if troubled else "")


def plain(text: str) -> str:
    """Text from outside as text: no markup, one line."""
    escaped = re.sub(r"([\\`*_{}\[\]<>()#+|!-])", r"\\\1", text)
    return " ".join(escaped.split())
