"""What a transform says at its end: one row per product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from headrace.amounts import counted, duration
from headrace.coverage import EMPTY, IntervalSet
from headrace.run.report import Report, Row, Sheet, Status, ended, error_lines

_ENDINGS = {
    Status.DONE: "the unified table is up to date",
    Status.PARTIAL: "part of the unified table is not up to date",
    Status.FAILED: "the transform failed",
    Status.RUNNING_ELSEWHERE: "already running elsewhere",
}
_COUNTS = ("new_rows", "quarantined", "replaced_files", "merged_files")


@dataclass(frozen=True, slots=True)
class ProductTransform:
    """What became of one product.

    Attributes:
        product: its id.
        status: done, or failed with an error.
        new_rows: trades that were taken, those that had changed among them.
        quarantined: how many of them do not fit the columns.
        replaced_files: files of which rows were replaced, since the raw layer had changed.
        merged_files: files that a compaction made fewer of.
        files, rows: of the product in the table afterwards.
        taken: ids that the table answers for.
        error: what went wrong.
    """

    product: str
    status: Status = Status.DONE
    new_rows: int = 0
    quarantined: int = 0
    replaced_files: int = 0
    merged_files: int = 0
    files: int = 0
    rows: int = 0
    taken: IntervalSet = EMPTY
    error: str = ""

    def as_json(self) -> Row:
        """The form of the summary; ranges are inclusive."""
        return {
            "product": self.product,
            "status": self.status.value,
            **{name: getattr(self, name) for name in _COUNTS},
            "files": self.files,
            "rows": self.rows,
            "taken": self.taken.as_lists(),
            "error": self.error or None,
        }

    def plus_counts(self, other: ProductTransform) -> ProductTransform:
        """This with what was done since, and its end."""
        return replace(
            self,
            status=other.status,
            error=other.error,
            new_rows=self.new_rows + other.new_rows,
            quarantined=self.quarantined + other.quarantined,
            replaced_files=self.replaced_files + other.replaced_files,
        )

    def as_row(self) -> Row:
        """One row for people."""
        return {
            "product": self.product,
            "status": self.status.value,
            "new": self.new_rows,
            "quarantined": self.quarantined,
            "rows": self.rows,
            "files": self.files,
            "taken up to": self.taken.last or 0,
        }


@dataclass(frozen=True, slots=True)
class TransformReport(Report):
    """What one transform did.

    Attributes:
        location: where the table is.
        version: of the table afterwards; None if it cannot be read.
        vacuumed: files removed that no version needs any more.
    """

    key: ClassVar[str] = "unified"
    own_counts: ClassVar[tuple[str, ...]] = ("elapsed_s", "vacuumed")
    part: ClassVar[str] = "product"
    part_counts: ClassVar[tuple[str, ...]] = _COUNTS

    run: str
    status: Status
    ui_url: str | None
    elapsed_s: float
    location: str
    version: int | None
    products: tuple[ProductTransform, ...]
    vacuumed: int = 0
    stopped: bool = False

    def as_json(self) -> Row:
        """The `--json` summary."""
        return {
            "run": self.run,
            "status": self.status.value,
            "ui_url": self.ui_url,
            "elapsed_s": round(self.elapsed_s, 3),
            "table": self.location,
            "version": self.version,
            "vacuumed": self.vacuumed,
            "products": [product.as_json() for product in self.products],
        }

    def title(self) -> str:
        """How it ended."""
        if self.stopped:
            return "stopped on request; what was committed is kept"
        return ended(self.status, [(each.product, each.status) for each in self.products], _ENDINGS)

    def totals(self) -> str:
        """What it did, in one line."""
        new, aside = (
            sum(getattr(each, name) for each in self.products)
            for name in ("new_rows", "quarantined")
        )
        parts = [f"{counted(new, 'trade')} of {counted(len(self.products), 'product')} taken"]
        if aside:
            parts.append(f"{aside:,} of them in the quarantine")
        if merged := sum(each.merged_files for each in self.products):
            parts.append(f"{counted(merged, 'file')} compacted")
        if self.vacuumed:
            parts.append(f"{counted(self.vacuumed, 'old file')} removed")
        parts.append(duration(self.elapsed_s))
        return ", ".join(parts)

    def table(self) -> list[Row]:
        """A row per product."""
        return [each.as_row() for each in self.products]

    def sheets(self) -> list[Sheet]:
        """The table of the UI."""
        rows = [{**each.as_row(), "error": each.error} for each in self.products]
        return [Sheet("", "The unified table by product", rows)] if rows else []

    def remarks(self) -> list[str]:
        """What went wrong, and where trades are that do not fit."""
        lines = error_lines((each.product, each.error) for each in self.products)
        aside = [each.product for each in self.products if each.quarantined]
        if aside:
            lines.append(f"{', '.join(aside)}: trades that do not fit are in unified/quarantine")
        return lines
