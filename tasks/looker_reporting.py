"""How an extraction ends: its summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prefect.states import State

from headrace.looker.extract.receipts import ExtractSummary, TypeReceipt
from headrace.looker.extract.session import ending_of
from headrace.run.report import Status, combined
from tasks import kernel
from tasks.looker_runs import Extraction


def conclude_extraction(run: Extraction, receipts: Sequence[TypeReceipt]) -> State[ExtractSummary]:
    """Sum up, and end the vault's session."""
    if run.lease.lost:
        receipts = [_lost(receipt) for receipt in receipts]
    status = combined(receipt.status for receipt in receipts)
    if run.stale and status is Status.DONE:
        status = Status.PARTIAL
    summary = _summary(run, receipts, status)
    if run.context.writer.failure is None and not run.lease.lost:
        ending = ending_of(status.value, cut_off=summary.stopped or bool(summary.outage))
        run.vault.sessions.end(run.context.session, ending, summary=summary.as_json())
        run.vault.make_durable()
    return kernel.conclude(run, summary)


def _lost(receipt: TypeReceipt) -> TypeReceipt:
    """A type that was cut off because the vault is another run's to write now."""
    if receipt.status is Status.DONE:
        return receipt
    said = "the lease on the vault was lost; nothing was written since. Start the run again"
    return replace(receipt, status=Status.FAILED, error=said)


def _summary(run: Extraction, receipts: Sequence[TypeReceipt], status: Status) -> ExtractSummary:
    stats = run.client.stats
    return ExtractSummary(
        run=run.id,
        status=status,
        session=run.context.session,
        ui_url=kernel.ui_url(),
        vault=str(run.vault.path),
        source=run.client.source,
        elapsed_s=run.elapsed_s,
        requests=stats.requests,
        throttled=stats.throttled,
        retries=stats.retries,
        logins=run.client.logins,
        quota=run.quota_use(),
        types=tuple(receipts),
        stopped=run.stop.is_set() and not run.lease.lost,
        resumed=run.context.resumed,
        stale=run.stale,
        outage=str(run.context.ending.outage or ""),
    )
