"""What the terminal shows of a pull: a bar per product, and at the end a table or a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.cli.tables import plan_table, summary_table, totals_line
from headrace.cli.watching import RunDisplay, state_text
from headrace.pull.progress import ProductProgress
from headrace.pull.receipts import Summary
from headrace.pull.wording import remarks

if TYPE_CHECKING:
    from tasks.runs import Run


class Display(RunDisplay):
    """Watches one pull; see `RunDisplay`."""

    summary: Summary | None

    def _bars(self, run: Run) -> Iterator[tuple[RenderableType, ...]]:
        return map(_bar, list(run.progress.products.values()))

    def _so_far(self, run: Run) -> str:
        done, total, rows = run.progress.totals()
        return f"{done:,}/{total:,} pages, {rows:,} trades"

    def _eta_s(self, run: Run) -> float | None:
        return run.progress.eta_s(run.pages_per_s)

    def _closing(self, summary: Summary) -> tuple[Table, Iterable[str]]:
        table = plan_table(summary) if summary.plan else summary_table(summary)
        return table, (*remarks(summary), totals_line(summary))


def _bar(entry: ProductProgress) -> tuple[RenderableType, ...]:
    total = max(entry.pages_total, 1)
    done = entry.pages_total == 0 and entry.state == "done"
    return (
        Text(entry.product, style="bold"),
        ProgressBar(total=total, completed=total if done else entry.pages_done, width=30),
        Text(f"{entry.pages_done:,}/{entry.pages_total:,} pages", justify="right"),
        Text(f"{entry.rows:,} trades", justify="right"),
        state_text(entry.state),
    )
