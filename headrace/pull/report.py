"""The report of a pull: one row per product, and what a dry run would cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headrace.pull.receipts import PlanReceipt, ProductReceipt
from headrace.run.report import (
    Costs,
    QuotaUse,
    Report,
    Row,
    Sheet,
    Status,
    combined,
    counted,
    duration,
    ended,
    error_lines,
    with_counts,
)

#: What adds up over attempts: of the run, and of each product.
_COSTS = ("requests", "throttled", "retries", "elapsed_s")
_DONE = ("new_rows", "pages", "requests")


@dataclass(frozen=True, slots=True)
class Summary(Report):
    """What one pull did, as printed, stored as an artifact and given to `--json`."""

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

    def as_json(self) -> Row:
        """The JSON summary."""
        summary: Row = {
            "run": self.run or None,
            "status": self.status.value,
            "ui_url": self.ui_url,
            "elapsed_s": round(self.elapsed_s, 3),
            "requests": self.requests,
            "throttled": self.throttled,
            "retries": self.retries,
            "quota": self.quota.as_json(),
            "products": [receipt.as_json() for receipt in self.products],
        }
        if self.plan:
            summary["plan"] = [plan.as_json(self.quota.per_s) for plan in self.plan]
        return summary

    @property
    def new_rows(self) -> int:
        """Trades that this run added."""
        return sum(receipt.new_rows for receipt in self.products)

    @property
    def costs(self) -> Costs:
        """Requests, time and quota."""
        return Costs(self.requests, self.throttled, self.retries, self.elapsed_s, self.quota)

    def title(self) -> str:
        """How the run ended, and which products did not come to a good end."""
        if self.plan:
            return "plan (nothing was fetched)"
        if self.stopped:
            return "stopped on request, what is complete is kept"
        return ended(self.status, ((each.product, each.status) for each in self.products))

    def headline(self) -> str:
        """The outcome in one line."""
        return (
            f"{self.title()}: {self.new_rows:,} new trades with {self.requests:,} requests "
            f"in {duration(self.elapsed_s)}"
        )

    def totals(self) -> str:
        """New trades, requests, use of the quota and of the pools."""
        parts = [f"{self.new_rows:,} new trades", *self.costs.words()]
        if self.pool_use is not None and not self.plan:
            parts.append(f"pools {self.pool_use:.0%} busy")
        return ", ".join(parts)

    def table(self) -> list[Row]:
        """A row per product; of a dry run, what it would cost."""
        if self.plan:
            return [plan.as_row(self.quota.per_s) for plan in self.plan]
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
            )
        ]

    def remarks(self) -> list[str]:
        """A line per error, with the products that it met, and one per product that lacks some."""
        lines = error_lines((each.product, each.error) for each in self.products)
        return lines + [
            f"{each.product}: missing {each.missing.words()}"
            for each in self.products
            if each.missing
        ]

    def counts(self) -> dict[str, float]:
        """Requests, and of each product what this run did."""
        counts = {name: getattr(self, name) for name in _COSTS}
        for each in self.products:
            counts |= counted(each.product, _DONE, each)
        return counts

    def plus(self, earlier: Mapping[str, float]) -> Summary:
        """With what earlier attempts of the same run did."""
        return replace(
            self,
            **{name: getattr(self, name) + earlier.get(name, 0) for name in _COSTS},
            products=tuple(with_counts(r.product, _DONE, r, earlier) for r in self.products),
        )

    def log_facts(self) -> Row:
        """Requests and trades too."""
        return {
            **Report.log_facts(self),
            "requests": self.requests,
            "throttled": self.throttled,
            "retries": self.retries,
            "rows": self.new_rows,
        }

    def facts(self) -> list[str]:
        """Requests and quota."""
        return self.costs.facts()


def overall(receipts: Iterable[ProductReceipt]) -> Status:
    """The status of a run, from those of its products; see `combined`."""
    return combined(receipt.status for receipt in receipts)
