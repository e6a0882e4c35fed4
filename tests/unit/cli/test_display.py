"""What the terminal says below the bars of a run."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from headrace.cli.display import drawn as drawing
from headrace.pull.job import pull_progress
from headrace.run.parameters import Parameters
from headrace.run.progress import RunProgress
from headrace.settings import load_settings
from headrace.stopping import StopEvent
from tasks.kernel import QuotaRun
from tasks.sot_run import RecordProgress


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def run_of(
    progress: Any, waits: str | None = None, per_s: float | None = None, kept: str = "all"
) -> QuotaRun[Any]:
    class Run(QuotaRun[Any]):
        pass

    run = Run(
        id="run",
        request=Parameters(),
        settings=load_settings(),
        stop=StopEvent(),
        progress=progress,
        client=cast("Any", SimpleNamespace(stats=SimpleNamespace(requests=30))),
        gate=cast("Any", SimpleNamespace(waiting_for=lambda: waits)),
        rates="15/s",
        per_s=per_s,
    )
    Run.kept = kept
    return run


def drawn(run: QuotaRun[Any]) -> str:
    console = Console(width=150, file=io.StringIO())
    console.print(drawing(run))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


@pytest.fixture
def pull() -> QuotaRun[Any]:
    clock = Clock()
    progress = pull_progress(clock=clock)
    clock.now += 10
    entry = progress.part("BTC-USD")
    entry.state, entry.done, entry.total = "running_elsewhere", 3, 12
    return run_of(progress, "breaker", per_s=1.0, kept="what is complete")


def test_a_pull_says_how_fast_it_is_how_long_it_takes_and_what_it_waits_for(
    pull: QuotaRun[Any],
) -> None:
    said = drawn(pull)
    assert "BTC-USD" in said
    assert "3/12 pages" in said
    assert "running elsewhere" in said
    assert "3.0 requests/s of 15/s" in said
    assert "left" not in said  # what an outage takes is not to be guessed
    assert "waiting for the breaker" in said
    assert "stopping" not in said
    pull.gate = cast("Any", SimpleNamespace(waiting_for=lambda: "quota"))
    assert "left, waiting for the quota" in drawn(pull)


def test_and_that_it_was_asked_to_end(pull: QuotaRun[Any]) -> None:
    pull.stop.set()
    assert "stopping: keeping what is complete" in drawn(pull)


def test_an_extraction_has_a_bar_per_type_and_keeps_what_came() -> None:
    clock = Clock()
    progress = RunProgress("items", clock=clock)
    progress.begin("dashboard", "reading", total=500)
    clock.now += 10
    progress.add("dashboard", done=200)
    run = run_of(progress, kept="what came")
    run.stop.set()
    said = drawn(run)
    assert "200/500 items" in said
    assert "20.0/s" in said
    assert "15.0 s left" in said
    assert "stopping: keeping what came" in said
    assert "waiting" not in said
    assert progress.described() == "dashboard: 200/500 items, 20.0/s, 15.0 s left, reading"
    progress.waiting_for = lambda: "breaker"
    assert "left" not in drawn(run)
    assert (
        progress.described() == "waiting for the breaker; dashboard: 200/500 items, 20.0/s, reading"
    )


def test_work_without_a_known_end_has_no_bar() -> None:
    progress = RecordProgress()
    progress.add(7)
    assert "7 records" in drawn(run_of(progress))
