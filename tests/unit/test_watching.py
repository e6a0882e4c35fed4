"""What the terminal says below the bars of a run."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from headrace.cli.display import Display
from headrace.cli.looker.extract_display import ExtractDisplay
from headrace.cli.watching import RunDisplay
from headrace.looker.extract.progress import ExtractProgress
from headrace.pull.progress import RunProgress
from headrace.stopping import StopEvent


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def run_of(progress: Any, waits: str | None = None, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(
        progress=progress,
        client=SimpleNamespace(stats=SimpleNamespace(requests=30)),
        gate=SimpleNamespace(waiting_for=lambda: waits),
        rates="15/s",
        stop=StopEvent(),
        **more,
    )


def drawn(display: RunDisplay, run: SimpleNamespace) -> str:
    console = Console(width=150, file=io.StringIO())
    console.print(display._drawn(run))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


@pytest.fixture
def pull() -> SimpleNamespace:
    clock = Clock()
    progress = RunProgress(in_flight=1, clock=clock)
    clock.now += 10
    entry = progress.product("BTC-USD")
    entry.state, entry.pages_done, entry.pages_total = "running_elsewhere", 3, 12
    return run_of(progress, "breaker", pages_per_s=1.0)


def test_a_pull_says_how_fast_it_is_how_long_it_takes_and_what_it_waits_for(
    pull: SimpleNamespace,
) -> None:
    said = drawn(Display(), pull)
    assert "BTC-USD" in said
    assert "3/12 pages" in said
    assert "running elsewhere" in said
    assert "3.0 requests/s of 15/s" in said
    assert "left" in said
    assert "waiting for the breaker" in said
    assert "stopping" not in said


def test_and_that_it_was_asked_to_end(pull: SimpleNamespace) -> None:
    pull.stop.set()
    assert "stopping: keeping what is complete" in drawn(Display(), pull)


def test_an_extraction_has_a_bar_per_type_and_keeps_what_came() -> None:
    clock = Clock()
    progress = ExtractProgress(clock=clock)
    progress.begin("dashboard", "reading", expected=500)
    clock.now += 10
    progress.add("dashboard", items=200)
    run = run_of(progress)
    run.stop.set()
    said = drawn(ExtractDisplay(), run)
    assert "200 items" in said
    assert "20/s" in said
    assert "15.0 s left" in said
    assert "stopping: keeping what came" in said
    assert "waiting" not in said


def test_a_display_that_says_not_what_it_draws_cannot_be_made() -> None:
    class Half(RunDisplay):
        def _closing(self, summary: Any) -> tuple[Table, list[str]]:
            return Table(), []

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]
