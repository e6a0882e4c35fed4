"""A run on the terminal, whatever it pulls: a bar for each part, the quota, what it waits for.

What is drawn is read from the run's own counters, four times a second; the run knows nothing of it.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.pull.wording import duration

log = logging.getLogger(__name__)

_REFRESH_PER_S = 4
_PLAIN_INTERVAL_S = 10.0

COLOURS = {"done": "green", "partial": "yellow", "failed": "red", "running_elsewhere": "cyan"}


class RunDisplay(ABC):
    """Watches one run. On a terminal it draws bars, elsewhere it writes a line now and then.

    Subclasses say what is drawn: `_bars`, `_so_far`, `_eta_s`, and `_closing` at the end.

    Args:
        quiet: show nothing (for `--json`).
        as_lines: standard error belongs to machines: what is said are log lines, no bars.
        console: where to draw; standard error, so that standard output stays for results.
    """

    #: What is kept when the run is asked to end.
    _kept = "what is complete"

    def __init__(
        self, *, quiet: bool = False, as_lines: bool = False, console: Console | None = None
    ) -> None:
        self.summary: Any = None
        self._quiet = quiet
        self._as_lines = as_lines
        self._console = console or Console(stderr=True)
        self._live: Live | None = None
        self._plain: _PlainLines | None = None

    @abstractmethod
    def _bars(self, run: Any) -> Iterable[tuple[RenderableType, ...]]:
        """A row for each part of the run."""

    @abstractmethod
    def _so_far(self, run: Any) -> str:
        """How far the whole of it is, in words."""

    @abstractmethod
    def _eta_s(self, run: Any) -> float | None:
        """Seconds left; None if nothing is known."""

    @abstractmethod
    def _closing(self, summary: Any) -> tuple[Table, Iterable[str]]:
        """The table of what became of it, and the lines below."""

    def say(self, line: str) -> None:
        """One line for people."""
        if self._as_lines:
            log.info("%s", line)
        elif not self._quiet:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def started(self, run: Any) -> None:
        """Begin to draw."""
        if self._quiet and not self._as_lines:
            return
        if self._console.is_terminal and not self._as_lines:
            self._live = Live(
                get_renderable=lambda: self._drawn(run),
                console=self._console,
                refresh_per_second=_REFRESH_PER_S,
            )
            self._live.start()
        else:
            self._plain = _PlainLines(
                lambda: self.say(f"{self._so_far(run)}, {self._status_line(run)}")
            )
            self._plain.start()

    def ended(self, summary: Any) -> None:
        """Stop drawing and keep the summary."""
        self.summary = summary
        self.close()

    def close(self) -> None:
        """Stop drawing, however the run ended."""
        if self._live is not None:
            self._live.stop()
        if self._plain is not None:
            self._plain.stop()

    def show(self, summary: Any) -> None:
        """The closing table, on standard output."""
        console = Console()
        table, lines = self._closing(summary)
        console.print(table)
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _drawn(self, run: Any) -> Group:
        table = Table.grid(padding=(0, 1))
        for row in self._bars(run):
            table.add_row(*row)
        return Group(table, Text(self._status_line(run), style="dim"))

    def _status_line(self, run: Any) -> str:
        """Requests a second against the quota, time left, and what the run waits for."""
        progress = run.progress
        elapsed_s = max(progress.clock() - progress.started, 0.001)
        parts = [f"{run.client.stats.requests / elapsed_s:.1f} requests/s of {run.rates}"]
        eta_s = self._eta_s(run)
        if eta_s is not None:
            parts.append(f"{duration(eta_s)} left")
        if waits := run.gate.waiting_for():
            parts.append(f"waiting for the {waits}")
        if run.stop.is_set():
            parts.append(f"stopping: keeping {self._kept}")
        return ", ".join(parts)


def state_text(state: str) -> Text:
    """The state of a part, in its colour."""
    return Text(state.replace("_", " "), style=COLOURS.get(state, ""))


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
