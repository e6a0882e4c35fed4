"""Verify and replay a log: the units of work of two flows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from blocks.resolve import sot_store_of
from headrace.errors import ConfigurationError
from headrace.sot.recovery import RecoverOptions, RecoverReport, recover
from headrace.sot.recovery.floors import below_floors
from headrace.sot.reports import SotReport, report_of_recover, report_of_verify
from headrace.sot.requests import RecoverRequest, VerifyRequest, WriteRequest
from headrace.sot.sources.reading import Format
from headrace.sot.verifying.planning import Mode
from headrace.sot.verifying.verify import verify_store
from tasks.prefect_defaults import task
from tasks.sot_runs import SotRun, sot_run_of


@task(
    name="verify-log",
    description="Recompute hashes, links and digests from content.",
)
def verify_log(run: str) -> SotReport:
    """Verify as the run's request says; what is wrong is in the report."""
    under_way = sot_run_of(run)
    request = under_way.request
    assert isinstance(request, VerifyRequest)
    return _verified(under_way, request)


@task(
    name="replay-log",
    description="Write every verified record in the order of the replay.",
)
def replay_log(run: str) -> RecoverReport:
    """Replay as the run's request says; what could not be replayed is in the report."""
    under_way = sot_run_of(run)
    request = under_way.request
    assert isinstance(request, RecoverRequest)
    return recover(
        under_way.store,
        request.out,
        RecoverOptions(Format(request.format), request.symbols, request.past_damage),
        floors=under_way.floors,
        on_records=under_way.progress.add,
        stop=under_way.stop,
    )


def verified_report(run: SotRun[VerifyRequest]) -> SotReport:
    """Verify, as one task run."""
    return verify_log(run.id)


def replayed_report(run: SotRun[RecoverRequest]) -> SotReport:
    """Replay, as one task run."""
    return report_of_recover(run.id, run.store.location, replay_log(run.id))


def verified_since(run: SotRun[WriteRequest]) -> SotReport:
    """After a write: what is new since the last time is recomputed, too.

    The store is opened anew, so that what is checked is what lies there.
    """
    request = VerifyRequest(store=run.request.store, mode="since", heads=False)
    store = sot_store_of(request.store).open(create=False)
    try:
        return _verified(replace(run, store=store), request)
    finally:
        store.close()


def _verified(run: SotRun[Any], request: VerifyRequest) -> SotReport:
    known = set(run.store.symbols())
    floors = run.floors if request.heads else {}
    if absent := sorted(set(request.symbols) - known - set(floors)):
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
    wanted = {s: at for s, at in floors.items() if not request.symbols or s in request.symbols}
    beyond = below_floors(run.store, wanted)
    return report_of_verify(run.id, run.store.location, found, [str(each) for each in beyond])
