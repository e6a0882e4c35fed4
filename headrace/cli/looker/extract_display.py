"""What the terminal shows of an extraction: a bar per type, items a second, what it waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.looker.extract.progress import TypeProgress
from headrace.looker.extract.receipts import ExtractSummary, Status
from headrace.looker.extract.wording import ending, remarks
from headrace.pull.wording import duration

if TYPE_CHECKING:
    from tasks.looker_runs import Extraction

log = logging.getLogger(__name__)

_REFRESH_PER_S = 4
_PLAIN_INTERVAL_S = 10.0
_COLOURS = {"done": "green", "partial": "yellow", "failed": "red", "running_elsewhere": "cyan"}


class ExtractDisplay:
    """Watches one extraction. On a terminal it draws bars, elsewhere it writes a line now and then.

    Args:
        quiet: show nothing (for `--json`).
        as_lines: standard error belongs to machines: what is said are log lines, no bars.
        console: where to draw; standard error, so that standard output stays for results.
    """

    def __init__(
        self, *, quiet: bool = False, as_lines: bool = False, console: Console | None = None
    ) -> None:
        self.summary: Any = None
        self._quiet = quiet
        self._as_lines = as_lines
        self._console = console or Console(stderr=True)
        self._live: Live | None = None
        self._plain: _PlainLines | None = None

    def say(self, line: str) -> None:
        """One line for people."""
        if self._as_lines:
            log.info("%s", line)
        elif not self._quiet:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def started(self, run: Extraction) -> None:
        """Begin to draw."""
        if self._quiet and not self._as_lines:
            return
        if run.context.resumed:
            self.say(f"going on with session {run.context.session}")
        if self._console.is_terminal and not self._as_lines:
            self._live = Live(
                _Drawing(run), console=self._console, refresh_per_second=_REFRESH_PER_S
            )
            self._live.start()
        else:
            self._plain = _PlainLines(run, self.say)
            self._plain.start()

    def ended(self, summary: ExtractSummary) -> None:
        """Stop drawing and keep the summary."""
        self.summary = summary
        self.close()

    def close(self) -> None:
        """Stop drawing, however the run ended."""
        if self._live is not None:
            self._live.stop()
        if self._plain is not None:
            self._plain.stop()

    def show(self, summary: ExtractSummary) -> None:
        """The closing table, on standard output."""
        console = Console()
        console.print(extract_table(summary))
        for line in (*remarks(summary), _totals_line(summary)):
            console.print(line, highlight=False, markup=False, soft_wrap=True)


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
            style=_COLOURS[receipt.status.value],
        )
    return table


def _totals_line(summary: ExtractSummary) -> str:
    if summary.status is Status.RUNNING_ELSEWHERE:
        return f"vault {summary.vault}"
    items = sum(receipt.new + receipt.changed for receipt in summary.types)
    parts = [
        f"{items:,} new or changed",
        f"{summary.requests:,} requests in {duration(summary.elapsed_s)}",
        f"{summary.throttled:,} throttled",
        f"{summary.retries:,} repeated",
        f"quota {summary.quota.rates}",
    ]
    if summary.quota.used_share is not None:
        parts.append(f"{summary.quota.used_share:.1%} of it used")
    return ", ".join([*parts, f"vault {summary.vault}, session {summary.session}"])


class _Drawing:
    """Drawn anew at each refresh from the run's counters."""

    def __init__(self, run: Extraction) -> None:
        self._run = run

    def __rich__(self) -> Group:
        table = Table.grid(padding=(0, 1))
        now_s = self._run.progress.clock()
        for entry in list(self._run.progress.types.values()):
            table.add_row(*_row(entry, now_s))
        return Group(table, Text(status_line(self._run), style="dim"))


def _row(entry: TypeProgress, now_s: float) -> tuple[Text, ProgressBar, Text, Text, Text, Text]:
    total = max(entry.expected, entry.items, 1)
    eta_s = entry.eta_s(now_s)
    left = f"{duration(eta_s)} left" if eta_s is not None else ""
    return (
        Text(entry.type, style="bold"),
        ProgressBar(total=total, completed=total if entry.ended_s else entry.items, width=30),
        Text(f"{entry.items:,} items", justify="right"),
        Text(f"{entry.per_s(now_s):,.0f}/s", justify="right"),
        Text(left),
        Text(entry.state.replace("_", " "), style=_COLOURS.get(entry.state, "")),
    )


def status_line(run: Extraction) -> str:
    """Requests a second against the quota, time left, and what the run waits for."""
    progress = run.progress
    elapsed_s = max(progress.clock() - progress.started, 0.001)
    parts = [f"{run.client.stats.requests / elapsed_s:.1f} requests/s of {run.rates}"]
    eta_s = progress.eta_s()
    if eta_s:
        parts.append(f"{duration(eta_s)} left")
    waits = run.gate.waiting_for()
    if waits:
        parts.append(f"waiting for the {waits}")
    if run.stop.is_set():
        parts.append("stopping: keeping what came")
    return ", ".join(parts)


class _PlainLines(threading.Thread):
    """For pipes and log files: the status line every ten seconds."""

    def __init__(self, run: Extraction, say: Callable[[str], None]) -> None:
        super().__init__(name="headrace-display", daemon=True)
        self._run = run
        self._say = say
        self._over = threading.Event()

    def run(self) -> None:
        """Write until stopped."""
        while not self._over.wait(_PLAIN_INTERVAL_S):
            items, expected = self._run.progress.totals()
            self._say(f"{items:,}/{expected:,} items, {status_line(self._run)}")

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self.join(timeout=1)
