"""How a run of the log ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prefect.states import State

from headrace.run.report import Status
from headrace.sot.reports import SotReport, report_of_write
from headrace.sot.requests import WriteRequest
from headrace.sot.writing.write import WriteReport
from tasks import kernel
from tasks.events import emit_log_problems
from tasks.sot_reading import verified_since
from tasks.sot_runs import SotRun


def conclude_sot(run: SotRun[Any], report: SotReport) -> State[SotReport]:
    """Report, with an event for each problem."""
    emit_log_problems(report)
    return kernel.conclude(run, replace(report, ui_url=kernel.ui_url()))


def conclude_write(run: SotRun[WriteRequest], written: WriteReport) -> State[SotReport]:
    """Report a write, and what verifying it has shown, if that was asked for."""
    report = report_of_write(run.id, run.store.location, written)
    if run.request.verify and not report.stopped:
        verified = verified_since(run)
        status = report.status
        if verified.status is not Status.DONE and status is Status.DONE:
            status = Status.PARTIAL
        report = replace(
            report,
            status=status,
            message=f"{report.message}; {verified.message}",
            problems=(*report.problems, *verified.problems),
            damages=(*report.damages, *verified.damages),
            details={**report.details, "verified": verified.details["records"]},
        )
    return conclude_sot(run, report)
