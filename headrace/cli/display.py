"""What the terminal shows of a run: a bar per product, the quota, and what it waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.cli.tables import plan_table, summary_table, totals_line
from headrace.pull.progress import ProductProgress
from headrace.pull.receipts import Summary
from headrace.pull.wording import duration, remarks

if TYPE_CHECKING:
    from tasks.runs import Run

log = logging.getLogger(__name__)

_REFRESH_PER_S = 4
_PLAIN_INTERVAL_S = 10.0

_COLOURS = {"done": "green", "partial": "yellow", "failed": "red", "running_elsewhere": "cyan"}


class Display:
    """Watches one run. On a terminal it draws bars, elsewhere it writes a line now and then.

    Args:
        quiet: show nothing (for `--json`).
        as_lines: standard error belongs to machines: what is said are log lines, no bars.
        console: where to draw; standard error, so that standard output stays for results.
    """

    def __init__(
        self, *, quiet: bool = False, as_lines: bool = False, console: Console | None = None
    ) -> None:
        self.summary: Summary | None = None
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

    def started(self, run: Run) -> None:
        """Begin to draw."""
        if self._quiet and not self._as_lines:
            return
        if self._console.is_terminal and not self._as_lines:
            drawing = _Drawing(run)
            self._live = Live(
                drawing, console=self._console, refresh_per_second=_REFRESH_PER_S, transient=False
            )
            self._live.start()
        else:
            self._plain = _PlainLines(run, self.say)
            self._plain.start()

    def ended(self, summary: Summary) -> None:
        """Stop drawing and keep the summary."""
        self.summary = summary
        self.close()

    def close(self) -> None:
        """Stop drawing, however the run ended."""
        if self._live is not None:
            self._live.stop()
        if self._plain is not None:
            self._plain.stop()

    def show(self, summary: Summary) -> None:
        """The closing table, or the plan of a dry run, on standard output."""
        console = Console()
        console.print(plan_table(summary) if summary.plan else summary_table(summary))
        for line in (*remarks(summary), totals_line(summary)):
            console.print(line, highlight=False, markup=False, soft_wrap=True)


class _Drawing:
    """Drawn anew at each refresh from the run's counters."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __rich__(self) -> Group:
        table = Table.grid(padding=(0, 1))
        for entry in list(self._run.progress.products.values()):
            table.add_row(*_row(entry))
        return Group(table, Text(status_line(self._run), style="dim"))


def _row(entry: ProductProgress) -> tuple[Text, ProgressBar, Text, Text, Text]:
    style = _COLOURS.get(entry.state, "")
    total = max(entry.pages_total, 1)
    done = entry.pages_total == 0 and entry.state == "done"
    return (
        Text(entry.product, style="bold"),
        ProgressBar(total=total, completed=total if done else entry.pages_done, width=30),
        Text(f"{entry.pages_done:,}/{entry.pages_total:,} pages", justify="right"),
        Text(f"{entry.rows:,} trades", justify="right"),
        Text(entry.state.replace("_", " "), style=style),
    )


def status_line(run: Run) -> str:
    """Requests a second against the quota, time left, and what the run waits for."""
    progress = run.progress
    elapsed_s = max(progress.clock() - progress.started, 0.001)
    seen = run.client.stats.requests / elapsed_s
    parts = [f"{seen:.1f} requests/s of {run.rates}"]
    eta_s = progress.eta_s(run.pages_per_s)
    if eta_s is not None:
        parts.append(f"{duration(eta_s)} left")
    waits = run.gate.waiting_for()
    if waits:
        parts.append(f"waiting for the {waits}")
    if run.stop.is_set():
        parts.append("stopping: keeping what is complete")
    return ", ".join(parts)


class _PlainLines(threading.Thread):
    """For pipes and log files: the status line every ten seconds."""

    def __init__(self, run: Run, say: Callable[[str], None]) -> None:
        super().__init__(name="headrace-display", daemon=True)
        self._run = run
        self._say = say
        self._over = threading.Event()

    def run(self) -> None:
        """Write until stopped."""
        while not self._over.wait(_PLAIN_INTERVAL_S):
            done, total, rows = self._run.progress.totals()
            self._say(f"{done:,}/{total:,} pages, {rows:,} trades, {status_line(self._run)}")

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self.join(timeout=1)
