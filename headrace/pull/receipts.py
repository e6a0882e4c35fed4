"""What tasks return and what a run says at its end: small, typed, ready for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headrace.coverage import EMPTY, IntervalSet, Range

#: Size of a stored page of 1,000 trades, measured over realistic ones (docs/lake.md).
BYTES_PER_PAGE = 8_200


class Status(StrEnum):
    """How a product, or a run, ended."""

    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    RUNNING_ELSEWHERE = "running_elsewhere"


@dataclass(frozen=True, slots=True)
class ChunkReceipt:
    """What became of one chunk.

    `answered` is the range that is durable in the lake now: the chunk's own, a shorter one if the
    run was stopped on the way, None if nothing of it is. `rows` are the trades in it that the lake
    did not hold when the run began, `written` is False if somebody else stored them meanwhile.
    `error` says why, if it failed.
    """

    span: Range
    answered: Range | None
    rows: int = 0
    written: bool = True
    holes: tuple[Range, ...] = ()
    pages: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class ProductReceipt:
    """What became of one product. Ranges are inclusive; `range` is None if nothing was asked for.

    Args:
        new_rows: trades that this run added; `rows`: trades of the product in the lake.
        pages: pages that this run walked; `requests`: requests that it sent for the product.
        missing: what of the range is not in the lake.
        holes: ids proven absent, a page or more at once, as far as the lake covers the product.
    """

    product: str
    status: Status
    range: Range | None = None
    new_rows: int = 0
    rows: int = 0
    pages: int = 0
    requests: int = 0
    watermark: int = 0
    newest: int = 0
    missing: IntervalSet = EMPTY
    holes: IntervalSet = EMPTY
    failed_chunks: tuple[Range, ...] = ()
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """The form of the summary: plain lists and numbers."""
        return {
            "product": self.product,
            "status": self.status.value,
            "range": list(self.range) if self.range else None,
            "new_rows": self.new_rows,
            "rows": self.rows,
            "pages": self.pages,
            "requests": self.requests,
            "watermark": self.watermark,
            "newest": self.newest,
            "missing": self.missing.as_lists(),
            "holes": self.holes.as_lists(),
            "failed_chunks": [list(span) for span in self.failed_chunks],
            "error": self.error or None,
        }

    def as_row(self) -> dict[str, Any]:
        """One row of the coverage table: short values for people."""
        return {
            "product": self.product,
            "status": self.status.value,
            "from": self.range[0] if self.range else "",
            "to": self.range[1] if self.range else "",
            "new trades": self.new_rows,
            "trades stored": self.rows,
            "watermark": self.watermark,
            "newest": self.newest,
            "missing ids": self.missing.count,
            "holes": self.holes.count,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class PlanReceipt:
    """What a product would cost: the answer of a dry run."""

    product: str
    range: Range | None
    missing: IntervalSet = EMPTY
    chunks: int = 0
    pages: int = 0
    error: str = ""

    @property
    def size_bytes(self) -> int:
        """About what the pages will take on disk."""
        return self.pages * BYTES_PER_PAGE

    def as_json(self, pages_per_s: float | None) -> dict[str, Any]:
        """The plan in numbers: requests, seconds at the quota, bytes on disk."""
        return {
            "product": self.product,
            "range": list(self.range) if self.range else None,
            "missing": self.missing.as_lists(),
            "chunks": self.chunks,
            "pages": self.pages,
            "requests": self.pages,
            "seconds_at_quota": round(self.pages / pages_per_s, 1) if pages_per_s else None,
            "bytes": self.size_bytes,
            "error": self.error or None,
        }


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """How much of the quota a run used; without a limit, the last two are None.

    `per_s` is the mean rate that the quota sustains, in requests a second.
    """

    name: str
    rates: str
    used_share: float | None = None
    per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """What one run did, as printed, stored as an artifact and given to `--json`.

    `run` is empty for one that found others at work before it was anything to Prefect.
    """

    run: str
    status: Status
    ui_url: str | None
    elapsed_s: float
    requests: int
    throttled: int
    retries: int
    quota: QuotaUse
    products: tuple[ProductReceipt, ...]
    pool_use: float | None = None
    stopped: bool = False
    plan: tuple[PlanReceipt, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The JSON summary."""
        summary: dict[str, Any] = {
            "run": self.run or None,
            "status": self.status.value,
            "ui_url": self.ui_url,
            "elapsed_s": round(self.elapsed_s, 3),
            "requests": self.requests,
            "throttled": self.throttled,
            "retries": self.retries,
            "quota": {
                "name": self.quota.name,
                "rates": self.quota.rates,
                "used_share": self.quota.used_share,
            },
            "products": [receipt.as_json() for receipt in self.products],
        }
        if self.plan:
            summary["plan"] = [plan.as_json(self.quota.per_s) for plan in self.plan]
        return summary


def overall(receipts: Iterable[ProductReceipt]) -> Status:
    """The status of a run, from those of its products; see `combined`."""
    return combined(receipt.status for receipt in receipts)


def combined(statuses: Iterable[Status]) -> Status:
    """The status of a whole: done only if all are, failed only if none brought anything.

    Products that somebody else is at are no failure; if nothing else is amiss the whole says so.
    """
    found = set(statuses)
    if found <= {Status.DONE}:
        return Status.DONE
    if found <= {Status.DONE, Status.RUNNING_ELSEWHERE}:
        return Status.RUNNING_ELSEWHERE
    return Status.FAILED if found == {Status.FAILED} else Status.PARTIAL
