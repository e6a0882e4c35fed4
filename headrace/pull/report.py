"""What the tasks of a pull return, what a run says at its end, and its lines in the log.

One row per product; of a dry run, what it would cost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.amounts import counted, duration
from headrace.coverage import EMPTY, IntervalSet, Range
from headrace.run.report import (
    Costs,
    Report,
    RequestReport,
    Row,
    Sheet,
    Status,
    combined,
    ended,
    error_lines,
    plain,
)

#: Size of a stored page of 1,000 trades, measured over realistic ones (docs/lake.md).
BYTES_PER_PAGE = 8_200


@dataclass(frozen=True, slots=True)
class ChunkReceipt:
    """What became of one chunk.

    `answered` are the ranges that are durable in the lake now: the chunk's own, shorter ones if the
    walk ended on its way or left pages out, none if nothing of it is. `rows` are the trades in them
    that the lake did not hold when the run began, `written` is False if another run stored them
    meanwhile. `error` says why, if it failed or a page was left out.
    """

    span: Range
    answered: tuple[Range, ...] = ()
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

    def as_json(self) -> Row:
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

    @classmethod
    def from_json(cls, row: Row) -> ProductReceipt:
        """A receipt from its form in a summary."""
        sets = ("missing", "holes")
        return cls(
            **{
                **row,
                "status": Status(row["status"]),
                "range": tuple(row["range"]) if row["range"] else None,
                **{name: IntervalSet.from_ranges(map(tuple, row[name])) for name in sets},
                "failed_chunks": tuple((lo, hi) for lo, hi in row["failed_chunks"]),
                "error": row["error"] or "",
            }
        )

    def as_row(self) -> Row:
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
class Part:
    """What one child run of a spread run does.

    Args:
        number: from 1 on.
        products: canonical ids.
        span: the inclusive range of ids of the one product; None for whole products.
    """

    number: int
    products: tuple[str, ...]
    span: Range | None = None

    def __str__(self) -> str:
        if self.span:
            return f"part {self.number} (ids {self.span[0]}-{self.span[1]})"
        more = len(self.products) - 3
        named = ", ".join(self.products[:3]) + (f" and {more} more" if more > 0 else "")
        return f"part {self.number} ({named})"


@dataclass(frozen=True, slots=True)
class PartEnd:
    """How a child run ended.

    Args:
        run: id of its last flow run; empty if there was none.
        starts: how often it was started.
        error: why it left no report.
        report: its own summary.
    """

    part: Part
    run: str
    starts: int
    error: str = ""
    report: Row = field(default_factory=dict)

    @property
    def receipts(self) -> tuple[ProductReceipt, ...]:
        """What became of its products."""
        return tuple(map(ProductReceipt.from_json, self.report.get("products", ())))

    def as_json(self) -> Row:
        """The form of the summary."""
        return {
            "number": self.part.number,
            "products": list(self.part.products),
            "range": list(self.part.span) if self.part.span else None,
            "run": self.run or None,
            "starts": self.starts,
            "status": self.report.get("status", Status.FAILED.value),
            "elapsed_s": self.report.get("elapsed_s"),
            "error": self.error or None,
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

    def as_json(self, pages_per_s: float | None) -> Row:
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

    def as_row(self, pages_per_s: float | None) -> Row:
        """The same for people."""
        lo, hi = self.range or ("", "")
        return {
            "product": self.product,
            "from": str(lo),
            "to": str(hi),
            "requests": self.pages,
            "chunks": self.chunks,
            "at the quota": duration(self.pages / pages_per_s) if pages_per_s else "no limit",
            "on disk": f"{self.size_bytes / 1e6:,.1f} MB",
            "problem": self.error,
        }


log = logging.getLogger(__name__)


def log_event(name: str, facts: Mapping[str, object]) -> None:
    """The line of an event that the library does not log itself."""
    extra = {"event": name, "facts": facts}
    if name == "committed":
        log.info("committed, complete up to trade %s", facts.get("watermark"), extra=extra)
    elif name == "hole-proven":
        log.info("no trade has an id from %(from_id)s to %(to_id)s", facts, extra=extra)
    elif name == "lease-lost":
        log.warning("the lease is lost: %s", facts.get("reason"), extra=extra)


def log_product(receipt: ProductReceipt) -> None:
    """The line of a product that ended; of hundreds of which nothing was fetched, for debugging."""
    facts = {"status": receipt.status.value, "rows": receipt.new_rows, "pages": receipt.pages}
    level = logging.INFO if receipt.status.quiet else logging.WARNING
    if receipt.status is Status.DONE and not receipt.pages:
        level = logging.DEBUG
    text = f"{receipt.status.value.replace('_', ' ')}: {counted(receipt.new_rows, 'new trade')}"
    if receipt.error:
        text += f" ({receipt.error.removeprefix(f'{receipt.product}: ')})"
    log.log(level, "%s", text, extra={"event": "product-ended", "facts": facts})


@dataclass(frozen=True, slots=True)
class Summary(RequestReport):
    """What one pull did, as printed, stored as an artifact and given to `--json`.

    `chosen` says how its products were named; empty where their ids were given. `transform` and
    `check` are what those afterwards did and found, if they were asked for. `parts` are the child
    runs of a spread run.
    """

    part: ClassVar[str] = "product"
    part_counts: ClassVar[tuple[str, ...]] = ("new_rows", "pages", "requests")

    run: str
    status: Status
    ui_url: str | None
    costs: Costs
    products: tuple[ProductReceipt, ...]
    pool_use: float | None = None
    stopped: bool = False
    plan: tuple[PlanReceipt, ...] = field(default=())
    chosen: str = ""
    transform: Report | None = None
    check: Report | None = None
    parts: tuple[PartEnd, ...] = field(default=())

    def as_json(self) -> Row:
        """The JSON summary."""
        summary: Row = {
            "run": self.run or None,
            "status": self.status.value,
            "ui_url": self.ui_url,
            **self.costs.as_json(),
            "products": [receipt.as_json() for receipt in self.products],
        }
        if self.chosen:
            summary["chosen"] = self.chosen
        if self.parts:
            summary["parts"] = [end.as_json() for end in self.parts]
        if self.transform is not None:
            summary["transform"] = self.transform.as_json()
        if self.check is not None:
            summary["check"] = self.check.as_json()
        if self.plan:
            summary["plan"] = [plan.as_json(self.costs.quota.per_s) for plan in self.plan]
        return summary

    @property
    def new_rows(self) -> int:
        """Trades that this run added."""
        return sum(receipt.new_rows for receipt in self.products)

    def title(self) -> str:
        """How the run ended, and which products did not come to a good end."""
        return self._titled((each.product, each.status) for each in self.products)

    def _titled(self, parts: Iterable[tuple[str, Status]]) -> str:
        if self.plan:
            return "plan (nothing was fetched)"
        if self.stopped:
            return "stopped on request, what is complete is kept"
        afterwards = [each for each in (self.transform, self.check) if each is not None]
        troubled = [each.title() for each in afterwards if each.status is not Status.DONE]
        if troubled and overall(self.products) is Status.DONE:
            return f"complete, but {' and '.join(troubled)}"
        return ended(self.status, parts)

    def headline(self) -> str:
        """The outcome in one line."""
        return f"{self.title()}: {self._in_short()}"

    def log_line(self) -> str:
        """The same without the products: each has said in a line of its own how it ended."""
        return f"{self._titled(())}: {self._in_short()}"

    def _in_short(self) -> str:
        return (
            f"{counted(self.new_rows, 'new trade')} with {counted(self.requests, 'request')} "
            f"in {duration(self.elapsed_s)}"
        )

    def totals(self) -> str:
        """New trades, requests, use of the quota and of the pools."""
        parts = [counted(self.new_rows, "new trade"), *self.costs.words()]
        if self.parts:
            return ", ".join([*parts, counted(len(self.parts), "part")])
        if self.pool_use is not None and not self.plan:
            parts.append(f"pools {self.pool_use:.0%} busy")
        return ", ".join(parts)

    def table(self) -> list[Row]:
        """A row per product; of a dry run, what it would cost."""
        if self.plan:
            return [plan.as_row(self.costs.quota.per_s) for plan in self.plan]
        return [
            {
                "product": each.product,
                "status": each.status.value,
                "new": each.new_rows,
                "stored": each.rows,
                "requests": each.requests,
                "watermark": each.watermark,
                "newest": each.newest,
            }
            for each in self.products
        ]

    def sheets(self) -> list[Sheet]:
        """The coverage table; a dry run has none."""
        if self.plan:
            return []
        return [
            Sheet(
                "coverage",
                "What of each product is in the lake, and what is missing",
                [receipt.as_row() for receipt in self.products],
            ),
            *(
                Sheet(f"check-{sheet.key}".rstrip("-"), sheet.description, sheet.rows)
                for sheet in (self.check.sheets() if self.check else ())
            ),
        ]

    def remarks(self) -> list[str]:
        """A line per error, with the products that it met, and one per product that lacks some."""
        lines = error_lines((each.product, each.error) for each in self.products)
        lines += [
            f"{each.product}: missing {each.missing.words()}"
            for each in self.products
            if each.missing
        ]
        lines += [
            f"{end.part} was started {end.starts} times" for end in self.parts if end.starts > 1
        ]
        return [
            *lines,
            *(f"unified table: {line}" for line in _lines(self.transform)),
            *(f"check: {line}" for line in _lines(self.check)),
        ]

    def log_facts(self) -> Row:
        """Requests and trades too."""
        return {**RequestReport.log_facts(self), "rows": self.new_rows}

    def facts(self) -> list[str]:
        """How the products were chosen, requests and quota."""
        chosen = [f"products by {plain(self.chosen)}"] if self.chosen else []
        return [*chosen, *self.costs.facts()]


def _lines(afterwards: Report | None) -> list[str]:
    return [afterwards.headline(), *afterwards.remarks()] if afterwards else []


def overall(receipts: Iterable[ProductReceipt]) -> Status:
    """The status of a run, from those of its products; see `combined`."""
    return combined(receipt.status for receipt in receipts)
