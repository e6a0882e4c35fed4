"""What a run of the flow `keyed_requests` says at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.amounts import counted
from headrace.delivery.benchmark import BenchmarkLine
from headrace.delivery.request import SendRequest
from headrace.leases import LeaseHeld
from headrace.run.report import Costs, QuotaUse, RequestReport, Row, Sheet, Status


@dataclass(frozen=True, slots=True)
class Sent:
    """The books of one run.

    Attributes:
        accepted: that the producer handed over.
        resumed: that earlier runs had left.
        success, expired, graveyard: how many of both have ended so.
        unknown: buried at the start, since the process that sent them had been killed.
        kept: of both, how many wait for the next run, or were under way when this one was stopped.
    """

    accepted: int = 0
    resumed: int = 0
    success: int = 0
    expired: int = 0
    graveyard: int = 0
    unknown: int = 0
    failures: int = 0

    @property
    def kept(self) -> int:
        """What has not ended."""
        return self.accepted + self.resumed - self.success - self.expired - self.graveyard

    def as_json(self) -> Row:
        """The part of the summary."""
        return {
            "accepted": self.accepted,
            "resumed": self.resumed,
            "success": self.success,
            "expired": self.expired,
            "graveyard": self.graveyard,
            "kept": self.kept,
            "unknown_outcome": self.unknown,
            "failed_attempts": self.failures,
        }


@dataclass(frozen=True, slots=True)
class SendReport(RequestReport):
    """What one run did.

    Attributes:
        queue: its name.
        sent: the books.
        latency, age: milliseconds from departure, and from being accepted, to the answer.
        keys: a row per key, by its number.
        lines: of the benchmark.
        error: what ended it early.
    """

    key: ClassVar[str] = "keyed-requests"

    run: str
    status: Status
    ui_url: str | None
    costs: Costs
    queue: str
    sent: Sent
    latency: Row
    age: Row
    keys: tuple[Row, ...] = ()
    lines: tuple[BenchmarkLine, ...] = ()
    error: str = ""
    stopped: bool = False

    def as_json(self) -> Row:
        """The `--json` summary."""
        return {
            "run": self.run,
            "status": self.status.value,
            "ui_url": self.ui_url,
            "queue": self.queue,
            **self.costs.as_json(),
            **self.sent.as_json(),
            "per_s": self._per_s,
            "latency_ms": self.latency,
            "age_ms": self.age,
            "keys": list(self.keys),
            "error": self.error or None,
        }

    @property
    def _per_s(self) -> float:
        return round(self.sent.success / self.elapsed_s, 2) if self.elapsed_s else 0.0

    def title(self) -> str:
        """How it ended."""
        if self.status is Status.RUNNING_ELSEWHERE:
            return f"already running elsewhere (queue {self.queue})"
        if self.stopped:
            return f"queue {self.queue}: stopped on request"
        words = {
            Status.DONE: "every request was answered, or expired as allowed",
            Status.PARTIAL: "partial: requests are in the graveyard, expired or not sent",
            Status.FAILED: "failed",
        }
        return f"queue {self.queue}: {words[self.status]}"

    def totals(self) -> str:
        """The books, in one line."""
        sent = self.sent
        counts = (
            f"{counted(sent.accepted, 'request')} accepted",
            f"{sent.resumed:,} of earlier runs" if sent.resumed else "",
            f"{counted(sent.success, 'success')} ({self._per_s:g}/s)",
            f"{sent.expired:,} expired",
            f"{sent.graveyard:,} to the graveyard",
            f"{sent.kept:,} kept" if sent.kept else "",
        )
        return ", ".join([*filter(None, counts), *self.costs.words()])

    def table(self) -> list[Row]:
        """A row per key."""
        return list(self.keys)

    def sheets(self) -> list[Sheet]:
        """The keys, and the benchmark over time."""
        lines = [line.as_row() for line in self.lines]
        found = [Sheet("keys", "Requests by key", self.keys)] if self.keys else []
        return [*found, Sheet("benchmark", "Every five seconds", lines)]

    def remarks(self) -> list[str]:
        """What went wrong, and how to go on."""
        sent, queue = self.sent, f"--queue {self.queue}"
        lines = [self.error] if self.error else []
        if sent.unknown:
            lines.append(
                f"{counted(sent.unknown, 'request was', 'requests were')} under way "
                "when an earlier run was killed and may "
                "not be repeated: their outcome is unknown, they are in the graveyard"
            )
        if sent.graveyard or sent.unknown:
            lines.append(f"headrace requests graveyard list {queue} shows what failed and why")
        if sent.kept:
            lines.append(
                f"{counted(sent.kept, 'request is', 'requests are')} kept in queue "
                f"{self.queue}: the next "
                f"headrace requests send {queue} goes on with {'it' if sent.kept == 1 else 'them'}"
            )
        return lines


def status_of(sent: Sent, *, allow_expired: float, error: str) -> Status:
    """The status of a run.

    Args:
        allow_expired: so many percent may expire.
        error: what ended it early.
    """
    if error:
        return Status.PARTIAL if sent.success else Status.FAILED
    of_all = sent.accepted + sent.resumed
    whole = not sent.graveyard and not sent.unknown and not sent.kept
    return Status.DONE if whole and 100 * sent.expired <= allow_expired * of_all else Status.PARTIAL


def refused(
    request: SendRequest, held: LeaseHeld, *, run_id: str = "", ui_url: str | None = None
) -> SendReport:
    """The report of a run that did not begin, because another delivers the same queue."""
    return SendReport(
        run=run_id,
        status=Status.RUNNING_ELSEWHERE,
        ui_url=ui_url,
        costs=Costs(0, 0, 0, 0.0, QuotaUse("", request.rate)),
        queue=request.queue,
        sent=Sent(),
        latency={},
        age={},
        error=str(held),
    )
