"""Write a stream: one task run per shard, fed by one reader."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from prefect.client.schemas import State
from prefect.states import Completed, Failed

from headrace.amounts import counted
from headrace.errors import HeadraceError
from headrace.lake.s3_settings import s3_from_environment
from headrace.pull.exceptions import CheckpointNotSaved
from headrace.sot.acknowledged_heads import HeadsUnreadable
from headrace.sot.chain import Position
from headrace.sot.requests import WriteRequest
from headrace.sot.sources.places import find_places
from headrace.sot.sources.reading import Format, read_places
from headrace.sot.writing.messages import Ack
from headrace.sot.writing.options import WriteOptions, shard_of
from headrace.sot.writing.write import WriteReport, write_stream
from tasks.bounded_map import map_in_waves, thread_pool
from tasks.kernel import ProgressArtifact
from tasks.prefect_defaults import task
from tasks.sot_run import SotRun

log = logging.getLogger(__name__)

#: Heads are saved so often while a stream is written; a stale one costs nothing but its news.
SAVE_HEADS_S = 10.0


class Writing:
    """A stream being written by a thread of its own; the shards' tasks wait for their part."""

    def __init__(self, run: SotRun[WriteRequest]) -> None:
        self.report: WriteReport | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()
        self._run = run
        self._heads: dict[int, Position] = {}
        self._mutex = threading.Lock()
        request = run.request
        self._options = WriteOptions(
            shards=request.shards,
            processes=None if request.processes < 0 else request.processes,
            batch_records=request.batch or None,
            chain=request.chain,
            first_seq=request.first_seq,
        )
        self._thread = threading.Thread(target=self._write, name="sot-write", daemon=True)

    def start(self) -> None:
        """Find the source, then begin.

        Raises:
            SourceUnusable, LakeUnusable, StoreError: there is nothing to read.
        """
        source, s3 = self._run.request.source, s3_from_environment()
        self._places = find_places(source, s3=s3, stop=self._run.stop)
        self._thread.start()

    def heads_since(self) -> dict[int, Position]:
        """Heads that have moved since the last call."""
        with self._mutex:
            moved, self._heads = self._heads, {}
        return moved

    def finish(self) -> WriteReport:
        """Wait for the end.

        Raises:
            StoreUnavailable, ConfigurationError: what ended it early.
        """
        self._thread.join()
        if self.error is not None:
            raise self.error
        if self.report is None:
            raise RuntimeError("a write ended without a report")
        return self.report

    def _write(self) -> None:
        request = self._run.request
        try:
            chunks = read_places(
                self._places, format_=Format(request.format), chained=not request.chain
            )
            self.report = write_stream(
                chunks, self._run.store, self._options, on_acks=self._acked, stop=self._run.stop
            )
        except Exception as error:  # noqa: BLE001 - raised again by `finish`
            self.error = error
        finally:
            self.done.set()

    def _acked(self, acks: list[Ack]) -> None:
        with self._mutex:
            for ack in acks:
                self._heads[ack.symbol_id] = ack.after.position
        self._run.progress.add(sum(ack.end - ack.first_seq for ack in acks))
        if metrics := self._run.metrics:
            shards = self._options.shards
            for ack in acks:
                metrics.stored(shard_of(ack.symbol_id, shards), ack.end - ack.first_seq)


_WRITING: dict[str, Writing] = {}


@dataclass(frozen=True, slots=True)
class ShardReceipt:
    """What one shard stored."""

    shard: int
    records: int
    records_per_s: float
    problems: int


@task(
    name="write-shard",
    task_run_name="shard {shard}",
    description="Link, batch and commit the records of one shard's symbols.",
)
def write_shard(run: str, shard: int) -> State[ShardReceipt]:
    """Wait until all of one shard is durable; never raises for what went wrong."""
    writing = _WRITING[run]
    writing.done.wait()
    report = writing.report
    if report is None:
        return Failed(message=str(writing.error), data=ShardReceipt(shard, 0, 0.0, 0))
    mine = next((each for each in report.shards if each.shard == shard), None)
    wrong = [
        problem
        for problem in report.problems
        if problem.symbol_id is not None
        and shard_of(problem.symbol_id, len(report.shards)) == shard
    ]
    receipt = ShardReceipt(
        shard, mine.records if mine else 0, mine.records_per_s if mine else 0.0, len(wrong)
    )
    if wrong:
        return Failed(name="Partial", message=str(wrong[0]), data=receipt)
    return Completed(
        message=f"{counted(receipt.records, 'record')}, {receipt.records_per_s:,.0f}/s",
        data=receipt,
    )


def write_shards(run: SotRun[WriteRequest]) -> WriteReport:
    """Map the shards, save heads on the way, and return what the write did.

    Raises:
        StoreUnavailable, ConfigurationError: the write could not begin, or broke off.
    """
    writing = Writing(run)
    writing.start()
    _WRITING[run.id] = writing
    try:
        shards = run.request.shards
        bar_shown = ProgressArtifact(run.progress, "headrace-sot-progress", ends_full=True)
        with thread_pool(shards) as pool, bar_shown as bar:
            save_at = time.monotonic() + SAVE_HEADS_S
            # Not the run's stop: a shard ends when what was read is durable, and not before.
            for _ in map_in_waves(
                pool,
                write_shard,
                iter(range(shards)),
                as_parameters=lambda shard: {"shard": shard},
                fixed={"run": run.id},
                width=shards,
                stop=type(run.stop)(),
            ):
                bar.tick()
                if time.monotonic() >= save_at:
                    save_heads(run, writing.heads_since())
                    save_at = time.monotonic() + SAVE_HEADS_S
        report = writing.finish()
        if run.metrics:
            run.metrics.written(report.shards)
    finally:
        writing.done.wait()
        save_heads(run, writing.heads_since())
        del _WRITING[run.id]
    return report


def save_heads(run: SotRun[WriteRequest], heads: dict[int, Position]) -> None:
    """Remember heads outside the store; the store is the truth, so a failure is a warning."""
    if not heads:
        return
    try:
        run.heads.note(heads, run_id=run.id)
    except (CheckpointNotSaved, HeadsUnreadable, HeadraceError) as error:
        log.warning("%s", error)
