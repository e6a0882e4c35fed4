"""Tables of what a run did or would do."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from headrace.cli.watching import COLOURS
from headrace.pull.receipts import ProductReceipt, Summary
from headrace.pull.wording import duration, ending, spent


def summary_table(summary: Summary) -> Table:
    """What became of each product."""
    table = Table(title=ending(summary), title_justify="left", title_style="bold")
    table.add_column("product", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for name in ("new", "stored", "requests", "watermark", "newest"):
        table.add_column(name, justify="right", no_wrap=True)
    for receipt in summary.products:
        table.add_row(*_summary_row(receipt), style=COLOURS[receipt.status.value])
    return table


def plan_table(summary: Summary) -> Table:
    """What each product would cost."""
    table = Table(title="plan (nothing was fetched)", title_justify="left", title_style="bold")
    table.add_column("product")
    for name in ("from", "to", "pages", "requests", "chunks", "at the quota", "on disk"):
        table.add_column(name, justify="right")
    table.add_column("problem")
    for plan in summary.plan:
        seconds = plan.pages / summary.quota.per_s if summary.quota.per_s else None
        lo, hi = plan.range or ("", "")
        table.add_row(
            plan.product,
            str(lo),
            str(hi),
            f"{plan.pages:,}",
            f"{plan.pages:,}",
            f"{plan.chunks:,}",
            duration(seconds) if seconds is not None else "no limit",
            f"{plan.size_bytes / 1e6:,.1f} MB",
            Text(plan.error),  # the exchange's words are no markup
        )
    return table


def totals_line(summary: Summary) -> str:
    """Requests, quota use and pool use in one line."""
    rows = sum(receipt.new_rows for receipt in summary.products)
    parts = [f"{rows:,} new trades", *spent(summary)]
    if summary.pool_use is not None and not summary.plan:
        parts.append(f"pools {summary.pool_use:.0%} busy")
    return ", ".join(parts)


def _summary_row(receipt: ProductReceipt) -> tuple[str, ...]:
    return (
        receipt.product,
        receipt.status.value.replace("_", " "),
        f"{receipt.new_rows:,}",
        f"{receipt.rows:,}",
        f"{receipt.requests:,}",
        f"{receipt.watermark:,}",
        f"{receipt.newest:,}",
    )
