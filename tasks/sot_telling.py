"""How a run of the log is shown in the Prefect UI, and how it ends."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed, State

from blocks.api import API_ERRORS, require_api
from headrace.pull.receipts import Status
from headrace.sot.reports import SotReport
from tasks.events import emit
from tasks.progress_artifact import ProgressArtifact
from tasks.sot_runs import Progress, SotRun

log = logging.getLogger(__name__)

_MOST_ROWS = 500
_MOST_EVENTS = 20


def log_progress(progress: Progress) -> ProgressArtifact:
    """How much a run has done so far; a stream has no known end."""
    return ProgressArtifact("headrace-sot-progress", lambda: (0.0, progress.text), ends_full=True)


def conclude_sot(run: SotRun[Any], report: SotReport) -> State[SotReport]:
    """Publish, and choose the state: Completed, Partial, Failed, Cancelled."""
    report = replace(report, ui_url=flow_run.ui_url or None)
    _publish(report)
    if run.figures is not None:
        status = "stopped" if report.stopped else report.status.value
        run.figures.ended(status, len(report.problems))
    for problem in report.problems[:_MOST_EVENTS]:
        emit("sot.problem", {"store": report.store, "problem": problem})
    if report.stopped:
        return Cancelled(message=report.message, data=report)
    if report.status is Status.DONE:
        return Completed(message=report.message, data=report)
    return Failed(name=report.status.value.title(), message=report.message, data=report)


def _publish(report: SotReport) -> None:
    """The tables of the UI; an absent API is no failure of the run."""
    try:
        require_api()
        create_table_artifact(
            table=[_plain(row) for row in report.rows[:_MOST_ROWS]],
            key=f"headrace-sot-{report.action}",
            description=report.message,
        )
        create_markdown_artifact(
            markdown=_markdown(report),
            key="headrace-sot-summary",
            description=f"What sot {report.action} did",
        )
    except API_ERRORS as error:
        log.warning("the report is not shown in the UI: %s", error)


def _markdown(report: SotReport) -> str:
    lines = [f"**{report.status.value}**: {_safe(report.message)}", ""]
    lines += [f"- {_safe(problem)}" for problem in report.problems[:_MOST_ROWS]]
    return "\n".join(lines)


def _safe(text: str) -> str:
    """A name from outside is no markup."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>#|!" else char for char in text)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _safe(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
