"""A run on the terminal, whatever its pipeline: a bar for each part, the quota, what it waits for.

What is drawn is read from the run's own counters, four times a second; the run knows nothing of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.cli.common import COLOURS, result_console, table_of
from headrace.run.progress import Bar
from headrace.run.report import Report

if TYPE_CHECKING:
    from tasks.kernel import PipelineRun

log = logging.getLogger(__name__)

_REFRESH_PER_S = 4
_PLAIN_INTERVAL_S = 10.0
#: Rows and remarks that a terminal shows; `--json` has the rest.
_MOST_ROWS = 40
_MOST_REMARKS = 200


class Display:
    """Watches one run. On a terminal it draws bars, elsewhere it writes a line now and then.

    Args:
        quiet: show nothing (for `--json`).
        as_lines: standard error belongs to machines: what is said are log lines, no bars.
        on_stderr: standard output belongs to the data; the closing table goes to standard error.
        console: where to draw; standard error, so that standard output stays for results.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        as_lines: bool = False,
        on_stderr: bool = False,
        console: Console | None = None,
    ) -> None:
        self.report: Report | None = None
        self._quiet = quiet
        self._as_lines = as_lines
        self._on_stderr = on_stderr
        self._console = console or Console(stderr=True)
        self._live: Live | None = None
        self._plain: _PlainLines | None = None

    def say(self, line: str) -> None:
        """One line for people."""
        if self._as_lines:
            log.info("%s", line)
        elif not self._quiet:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def started(self, run: PipelineRun[Any]) -> None:
        """Begin to draw."""
        self.close()
        if run.greeting:
            self.say(run.greeting)
        if not self._as_lines:
            # What a run says meanwhile is in the log as well.
            run.say = self.say
        if self._quiet and not self._as_lines:
            return
        if self._console.is_terminal and not self._as_lines:
            self._live = Live(
                get_renderable=lambda: drawn(run),
                console=self._console,
                refresh_per_second=_REFRESH_PER_S,
            )
            self._live.start()
        else:
            self._plain = _PlainLines(
                lambda: self.say(", ".join([run.progress.so_far(), *status_of(run)]))
            )
            self._plain.start()

    def ended(self, report: Report) -> None:
        """Stop drawing and keep the report."""
        self.report = report
        self.close()

    def close(self) -> None:
        """Stop drawing, however the run ended."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._plain is not None:
            self._plain.stop()
            self._plain = None

    def show(self, report: Report) -> None:
        """The closing table and lines, on standard output."""
        show(report, result_console(stderr=self._on_stderr))


def drawn(run: PipelineRun[Any]) -> Group:
    """The bars of a run, and its status below."""
    table = Table.grid(padding=(0, 1))
    for bar in run.progress.bars():
        table.add_row(*_row(bar))
    return Group(table, Text(", ".join(status_of(run)), style="dim"))


def status_of(run: PipelineRun[Any]) -> list[str]:
    """Speed, what the run waits for, the time left, and whether it stops."""
    parts = run.status_words()
    if run.stop.is_set():
        parts.append(f"stopping: keeping {run.kept}")
    return parts


def show(report: Report, console: Console) -> None:
    """The table of what a run did, then what went wrong, then the totals."""
    rows = report.table()
    if rows:
        whole = ("product", "type", "status")
        console.print(table_of(rows[:_MOST_ROWS], report.title(), whole=whole))
    remarks = report.remarks()
    lines = remarks[:_MOST_REMARKS]
    for left, what in ((len(rows) - _MOST_ROWS, "rows"), (len(remarks) - _MOST_REMARKS, "lines")):
        if left > 0:
            lines.append(f"and {left:,} more {what} (--json has them)")
    for line in (*lines, report.totals()):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _row(bar: Bar) -> tuple[Any, ...]:
    drawn_bar = "" if bar.share is None else ProgressBar(total=1.0, completed=bar.share, width=30)
    return (
        Text(bar.name, style="bold"),
        drawn_bar,
        *(Text(text, justify="right") for text in bar.texts),
        Text(bar.state.replace("_", " "), style=COLOURS.get(bar.state, "")),
    )


class _PlainLines(threading.Thread):
    """For pipes and log files: a line every ten seconds."""

    def __init__(self, say: Callable[[], None]) -> None:
        super().__init__(name="headrace-display", daemon=True)
        self._say = say
        self._over = threading.Event()

    def run(self) -> None:
        """Write until stopped."""
        while not self._over.wait(_PLAIN_INTERVAL_S):
            self._say()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self.join(timeout=1)
