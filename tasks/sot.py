"""The log: verify, replay and migrate it, and how each of its runs ends."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from prefect.client.schemas import State

from blocks.resolve import sot_store_of
from headrace.errors import ConfigurationError
from headrace.run.report import Status
from headrace.sot.migration import Migration
from headrace.sot.recover import RecoverOptions, recover
from headrace.sot.reports import (
    SotReport,
    report_of_anchor,
    report_of_recover,
    report_of_verify,
    report_of_write,
)
from headrace.sot.requests import AnchorRequest, VerifyRequest, WriteRequest
from headrace.sot.sources.reading import Format
from headrace.sot.verified_chain import find_below_saved_heads
from headrace.sot.verify import verify_store
from headrace.sot.verify_plan import Mode
from headrace.sot.writing.write import WriteReport
from tasks import kernel
from tasks.events import emit_log_problems
from tasks.prefect_defaults import task
from tasks.sot_run import SotRun, sot_run_of


@task(name="verify-log", description="Recompute hashes, links and digests from content.")
def verify_log(run: str) -> SotReport:
    """Verify as the run's request says; what is wrong is in the report."""
    under_way = sot_run_of(run)
    return _verified(under_way, under_way.request)


@task(name="replay-log", description="Write every verified record in the order of the replay.")
def replay_log(run: str) -> SotReport:
    """Replay as the run's request says; what could not be replayed is in the report."""
    under_way = sot_run_of(run)
    request, store = under_way.request, under_way.store
    replay = recover(
        store,
        request.out,
        RecoverOptions(Format(request.format), request.symbols, request.past_damage),
        saved_heads=under_way.saved_heads,
        on_records=under_way.progress.add,
        stop=under_way.stop,
    )
    return report_of_recover(run, store.location, replay, past_damage=request.past_damage)


@task(name="anchor-log", description="Sign where the log ends, and keep that in its anchors.")
def anchor_log(run: str) -> SotReport:
    """Anchor as the run's request says; what could not be kept is in the report."""
    under_way: SotRun[AnchorRequest] = sot_run_of(run)
    if under_way.anchoring is None:
        raise LookupError(f"run {run} has nothing to anchor with")
    started_s = time.monotonic()
    head, stamp, kept = under_way.anchoring.anchor(under_way.store, under_way.stop)
    elapsed_s = time.monotonic() - started_s
    return report_of_anchor(run, under_way.store.location, head, stamp, kept, elapsed_s)


def verified_since(run: SotRun[WriteRequest]) -> SotReport:
    """After a write: what is new since the last time is recomputed, too.

    The store is opened again, so that what is checked is what lies there.
    """
    request = VerifyRequest(store=run.request.store, mode="since", heads=False)
    store = sot_store_of(request.store).open(create=False)
    try:
        return _verified(replace(run, store=store), request)
    finally:
        store.close()


def _verified(run: SotRun[Any], request: VerifyRequest) -> SotReport:
    known = set(run.store.symbols())
    saved_heads = run.saved_heads if request.heads else {}
    if absent := sorted(set(request.symbols) - known - set(saved_heads)):
        raise ConfigurationError(
            f"the log in {run.store.location} has no symbol {absent[0]}",
            hint="headrace sot head lists those that it has",
        )
    found = verify_store(
        run.store,
        Mode(request.mode),
        symbols=request.symbols or None,
        processes=None if request.processes < 0 else request.processes,
        blocks=request.blocks,
        on_verdict=lambda verdict: run.progress.add(verdict.records),
    )
    wanted = {s: at for s, at in saved_heads.items() if not request.symbols or s in request.symbols}
    beyond = find_below_saved_heads(run.store, wanted)
    anchors = run.witnesses.asked_about(run.store) if run.witnesses else []
    lost = [str(each) for each in beyond]
    return report_of_verify(run.id, run.store.location, found, lost, anchors)


@task(
    name="migration-step",
    task_run_name="{action}",
    description="One step from the unsharded log towards the sharded one, or back.",
)
def take_step(run: str, action: str) -> SotReport:
    """Take the step of the run's request, whose action names the task run."""
    under_way = sot_run_of(run)
    if under_way.request.action != action:
        raise LookupError(f"run {run} is about {under_way.request.action}, not {action}")
    step = Migration(under_way.request, under_way.store, under_way.stop, under_way.progress.add)
    return step.execute(under_way.id)


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
