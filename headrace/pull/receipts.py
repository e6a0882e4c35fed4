"""What tasks return and what a run says at its end: small, typed, ready for JSON."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.coverage import EMPTY, IntervalSet, Range
from headrace.run.report import Row, Status, duration

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
