"""An extraction: content types on the outer pool, pieces of each on an inner one; its summary."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from prefect.client.schemas import State
from prefect.states import Completed, Failed

from headrace.looker.content_types import in_stages
from headrace.looker.exceptions import CheckpointUnusable
from headrace.looker.extract.context import Piece, ending_of
from headrace.looker.extract.job import TypeJob
from headrace.looker.extract.report import ExtractSummary, RangeReceipt, TypeCheckpoint, TypeReceipt
from headrace.pull.exceptions import CheckpointNotSaved
from headrace.run.report import Status, combined
from headrace.stopping import Stopped
from tasks import kernel
from tasks.bounded_map import map_in_waves, thread_pool
from tasks.events import emit_if_incomplete
from tasks.kernel import ProgressArtifact, find_run
from tasks.looker_run import Extraction
from tasks.prefect_defaults import task

log = logging.getLogger(__name__)

#: Types at once: the large ones are begun first, and the small ones fill the gaps.
_TYPES_AT_ONCE = 4
_LARGE_FIRST = ("dashboard", "look", "explore", "user")
#: How often a checkpoint is saved while a type is under way.
_COMMIT_S = 10.0


@task(
    name="content",
    task_run_name="{type}",
    description="Extract one content type: its listings, its bodies, the proof of what is gone.",
)
def extract_type(run: str, type: str) -> State[TypeReceipt]:  # noqa: A002 - the form's word
    """Extract one type. Never raises for what can go wrong with it: the receipt says it."""
    extraction = find_run(Extraction, run)
    job = extraction.new_job(type)
    hold_against_checkpoint(extraction, type)
    receipt = job.run(lambda kind, pieces: _mapped(extraction, job, kind, pieces))
    save_checkpoint(extraction, receipt)
    if receipt.status is Status.DONE:
        return Completed(message=f"{receipt.items} items, {receipt.new} new", data=receipt)
    why = _why(extraction, receipt)
    return Failed(name=receipt.status.value.title(), message=why, data=receipt)


@task(
    name="range",
    task_run_name="{type} {label}",
    description="Read some pages of a listing, or fetch some items, into the vault.",
)
def do_piece(
    run: str, type: str, kind: str, key: str, values: tuple[str, ...], label: str  # noqa: A002, ARG001
) -> RangeReceipt | State[RangeReceipt]:  # fmt: skip
    """Do one piece of a type's work; a failure is in the receipt, never raised."""
    receipt = find_run(Extraction, run).jobs[type].do(kind, key, tuple(values))
    if receipt.error:
        return Failed(message=receipt.error, data=receipt)
    return receipt


def extract_types(run: Extraction) -> list[TypeReceipt]:
    """One receipt per content type, in the order of the request."""
    chosen = run.request.chosen
    receipts: dict[str, TypeReceipt] = {}
    order = sorted(chosen, key=lambda type_: type_ not in _LARGE_FIRST)
    order.sort(key=lambda type_: _LARGE_FIRST.index(type_) if type_ in _LARGE_FIRST else 99)
    width = min(_TYPES_AT_ONCE, run.request.workers, len(order))
    with ProgressArtifact(run.progress) as shown, thread_pool(width) as pool:
        for stage in in_stages(order):
            for ended in map_in_waves(
                pool,
                extract_type,
                iter(stage),
                as_parameters=lambda type_: {"type": type_},
                fixed={"run": run.id},
                width=width,
                stop=run.context.stop,
            ):
                shown.tick()
                if ended is not None and ended.outcome is not None:
                    receipts[ended.call] = _receipt(ended.call, ended.outcome)
    why = str(run.context.ending.cause or Stopped())
    not_begun = [TypeReceipt(type_, Status.FAILED, error=why) for type_ in chosen]
    return [receipts.get(receipt.type, receipt) for receipt in not_begun]


def hold_against_checkpoint(run: Extraction, type_: str) -> None:
    """Say so if the last checkpoint knows of more than the vault holds: the vault was exchanged."""
    try:
        before = run.checkpoints.load(type_)
    except (CheckpointNotSaved, CheckpointUnusable) as error:
        log.warning("%s; the vault is what counts", error)
        return
    held = sum(run.vault.contents.counts().get(type_, (0, 0)))
    if before is not None and before.items + before.deleted > held:
        facts: dict[str, object] = {"type": type_, "known": before.items, "held": held}
        run.context.listener("vault-behind", facts)
        log.warning(
            "%s: the last checkpoint knows of %d items, the vault holds %d; all are fetched again",
            type_, before.items + before.deleted, held,
        )  # fmt: skip


def save_checkpoint(run: Extraction, receipt: TypeReceipt) -> None:
    """Say in a block how far a type is; the vault was written first."""
    _held, deleted = run.vault.contents.counts().get(receipt.type, (0, 0))
    try:
        run.vault.make_durable()
        run.checkpoints.save(
            TypeCheckpoint(
                vault=run.checkpoints.vault,
                source=run.client.source,
                type=receipt.type,
                session=run.context.session,
                complete=receipt.complete,
                items=receipt.items,
                deleted=deleted,
                missing=receipt.missing,
                failed=len(receipt.failures),
                fencing_token=run.lease.token,
                run_id=run.id,
                updated_at=datetime.now(UTC),
            )
        )
    except CheckpointNotSaved as error:
        run.stale = True
        log.warning("%s", error)


def _mapped(
    run: Extraction, job: TypeJob, kind: str, pieces: Iterator[Piece]
) -> Iterable[RangeReceipt]:
    """Send the pieces out in waves, and save the checkpoint from time to time."""
    width, due_s = run.request.workers, time.monotonic() + _COMMIT_S
    with thread_pool(width) as pool:
        for ended in map_in_waves(
            pool,
            do_piece,
            pieces,
            as_parameters=lambda piece: {
                "key": piece[0],
                "values": piece[1],
                "label": _label(kind, piece),
            },
            fixed={"run": run.id, "type": job.content.type, "kind": kind},
            width=width,
            stop=run.context.stop,
        ):
            if ended is not None and ended.outcome is not None:
                yield _range(ended.outcome)
            if time.monotonic() >= due_s:
                save_checkpoint(run, job.receipt())
                due_s = time.monotonic() + _COMMIT_S


def _label(kind: str, piece: Piece) -> str:
    """What a piece is called in the UI."""
    key, values = piece
    first, last = values[0], values[-1]
    name = f"{kind} {key} {first}" if key else f"{kind} {first}"
    return name if first == last else f"{name}-{last}"


def _range(outcome: Any) -> RangeReceipt:
    """The piece's own receipt; a task run that crashed has none, which is a failure too."""
    if isinstance(outcome, RangeReceipt):
        return outcome
    return RangeReceipt(error=f"a task run crashed ({outcome})")


def _receipt(type_: str, outcome: Any) -> TypeReceipt:
    if isinstance(outcome, TypeReceipt):
        return outcome
    return TypeReceipt(type_, Status.FAILED, error=f"the task run crashed ({outcome!r})")


def _why(run: Extraction, receipt: TypeReceipt) -> str:
    if run.context.ending.cause:
        return "an outage ended the run"  # which the run says, once
    return receipt.error or ", ".join((*receipt.missing, *receipt.failures))[:300]


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
    emit_if_incomplete(summary)
    return kernel.conclude(run, summary)


def _lost(receipt: TypeReceipt) -> TypeReceipt:
    """A type that was cut off because the vault is another run's to write now."""
    if receipt.status is Status.DONE:
        return receipt
    said = "the lease on the vault was lost; nothing was written since. Start the run again"
    return replace(receipt, status=Status.FAILED, error=said)


def _summary(run: Extraction, receipts: Sequence[TypeReceipt], status: Status) -> ExtractSummary:
    return ExtractSummary(
        run=run.id,
        status=status,
        session=run.context.session,
        ui_url=kernel.ui_url(),
        vault=str(run.vault.path),
        source=run.client.source,
        costs=run.costs(logins=run.client.logins),
        types=tuple(receipts),
        stopped=run.stop.is_set() and not run.lease.lost,
        resumed=run.context.resumed,
        stale=run.stale,
        outage=str(run.context.ending.cause or ""),
    )
