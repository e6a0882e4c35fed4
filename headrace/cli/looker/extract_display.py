"""What the terminal shows of an extraction: a bar per content type, and at the end a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich import box
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.cli.watching import COLOURS, RunDisplay, state_text
from headrace.looker.extract.progress import TypeProgress
from headrace.looker.extract.receipts import ExtractSummary, Status
from headrace.looker.extract.wording import ending, remarks
from headrace.pull.wording import duration, spent

if TYPE_CHECKING:
    from tasks.looker_runs import Extraction


class ExtractDisplay(RunDisplay):
    """Watches one extraction; see `RunDisplay`."""

    summary: ExtractSummary | None
    _kept = "what came"

    def started(self, run: Extraction) -> None:
        """Say whether it goes on with an earlier one, then begin to draw."""
        if run.context.resumed:
            self.say(f"going on with session {run.context.session}")
        super().started(run)

    def _bars(self, run: Extraction) -> Iterator[tuple[RenderableType, ...]]:
        now_s = run.progress.clock()
        return (_bar(entry, now_s) for entry in list(run.progress.types.values()))

    def _so_far(self, run: Extraction) -> str:
        items, expected = run.progress.totals()
        return f"{items:,}/{expected:,} items"

    def _eta_s(self, run: Extraction) -> float | None:
        return run.progress.eta_s() or None

    def _closing(self, summary: ExtractSummary) -> tuple[Table, Iterable[str]]:
        return extract_table(summary), (*remarks(summary), _totals_line(summary))


def extract_table(summary: ExtractSummary) -> Table:
    """What became of each content type."""
    table = Table(
        title=ending(summary), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    table.add_column("type", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for name in ("items", "new", "changed", "same", "gone", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    for receipt in summary.types:
        failed = len(receipt.failures) + len(receipt.missing)
        numbers = (
            receipt.items, receipt.new, receipt.changed, receipt.unchanged, receipt.deleted,
            failed,
        )  # fmt: skip
        table.add_row(
            receipt.type,
            receipt.status.value.replace("_", " "),
            *(f"{number:,}" for number in numbers),
            style=COLOURS[receipt.status.value],
        )
    return table


def _totals_line(summary: ExtractSummary) -> str:
    if summary.status is Status.RUNNING_ELSEWHERE:
        return f"vault {summary.vault}"
    items = sum(receipt.new + receipt.changed for receipt in summary.types)
    where = f"vault {summary.vault}, session {summary.session}"
    return ", ".join([f"{items:,} new or changed", *spent(summary), where])


def _bar(entry: TypeProgress, now_s: float) -> tuple[RenderableType, ...]:
    total = max(entry.expected, entry.items, 1)
    eta_s = entry.eta_s(now_s)
    return (
        Text(entry.type, style="bold"),
        ProgressBar(total=total, completed=total if entry.ended_s else entry.items, width=30),
        Text(f"{entry.items:,} items", justify="right"),
        Text(f"{entry.per_s(now_s):,.0f}/s", justify="right"),
        Text(f"{duration(eta_s)} left" if eta_s is not None else ""),
        state_text(entry.state),
    )
