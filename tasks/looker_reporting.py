"""An extraction from its start to its end: its summary, and the state that Prefect shows."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed, State

from headrace.leases import LeaseHeld
from headrace.looker.extract.receipts import ExtractSummary, Status, TypeReceipt
from headrace.looker.extract.request import ExtractRequest
from headrace.looker.extract.session import ending_of
from headrace.looker.extract.wording import one_line
from headrace.looker.turns import refused
from headrace.pull.receipts import QuotaUse, combined
from tasks.looker import extract_types
from tasks.looker_artifacts import publish_extraction
from tasks.looker_runs import Extraction, open_extraction
from tasks.observers import tell_ended, tell_started

log = logging.getLogger(__name__)


def extracted(run_id: str, request: ExtractRequest) -> State[ExtractSummary]:
    """Run an extraction; who finds another at the vault ends at once, as already running.

    Raises:
        ConfigurationError, StateError, ConnectionFailed: it could not begin.
    """
    try:
        with open_extraction(run_id, request) as run:
            tell_started(run)
            return _concluded(run, extract_types(run))
    except LeaseHeld as held:
        return _elsewhere(run_id, request, held)


def _concluded(run: Extraction, receipts: Sequence[TypeReceipt]) -> State[ExtractSummary]:
    """Sum up, end the vault's session, publish, and choose the state."""
    if run.lease.lost:
        receipts = [_lost(receipt) for receipt in receipts]
    status = combined(receipt.status for receipt in receipts)
    broken = run.context.writer.failure
    if run.stale and status is Status.DONE:
        status = Status.PARTIAL
    summary = _summary(run, receipts, status)
    if broken is None and not run.lease.lost:
        ending = ending_of(status.value, stopped=summary.stopped)
        run.vault.sessions.end(run.context.session, ending, summary=summary.as_json())
        run.vault.make_durable()
    publish_extraction(summary)
    tell_ended(summary)
    level = logging.INFO if status is Status.DONE else logging.WARNING
    log.log(level, "%s", one_line(summary), extra={"event": "run-ended"})
    return _state(summary)


def _lost(receipt: TypeReceipt) -> TypeReceipt:
    """A type that was cut off because the vault is somebody else's to write now."""
    if receipt.status is Status.DONE:
        return receipt
    said = "the lease on the vault was lost; nothing was written since. Start the run again"
    return replace(receipt, status=Status.FAILED, error=said)


def _summary(run: Extraction, receipts: Sequence[TypeReceipt], status: Status) -> ExtractSummary:
    stats, elapsed_s = run.client.stats, time.monotonic() - run.progress.started
    per_s = run.context.per_s
    used = round(stats.requests / (elapsed_s * per_s), 4) if per_s else None
    return ExtractSummary(
        run=run.id,
        status=status,
        session=run.context.session,
        ui_url=flow_run.ui_url or None,
        vault=str(run.vault.path),
        source=run.client.source,
        elapsed_s=elapsed_s,
        requests=stats.requests,
        throttled=stats.throttled,
        retries=stats.retries,
        logins=run.client.logins,
        quota=QuotaUse(run.gate.config.name, run.rates, used, per_s),
        types=tuple(receipts),
        stopped=run.stop.is_set() and not run.lease.lost,
        resumed=run.context.resumed,
        stale=run.stale,
    )


def _elsewhere(run_id: str, request: ExtractRequest, held: LeaseHeld) -> State[ExtractSummary]:
    summary = refused(request, held, run_id=run_id, ui_url=flow_run.ui_url or None)
    tell_ended(summary)
    return _state(summary)


def _state(summary: ExtractSummary) -> State[ExtractSummary]:
    message = one_line(summary)
    if summary.stopped:
        return Cancelled(message=message, data=summary)
    if summary.status is Status.DONE:
        return Completed(message=message, data=summary)
    if summary.status is Status.RUNNING_ELSEWHERE:
        return Completed(name="AlreadyRunning", message=message, data=summary)
    return Failed(name=summary.status.value.title(), message=message, data=summary)
