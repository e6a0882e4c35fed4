"""Write to both logs, the old one first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.sot.exceptions import ChainError, MalformedRecord, StoreUnavailable
from headrace.sot.frames import bodies as bodies_of
from headrace.sot.frames import identity
from headrace.sot.migration.backfilling import Backfill
from headrace.sot.migration.old import OldLog
from headrace.sot.migration.phases import Phase
from headrace.sot.sources.chunk import Chunk
from headrace.sot.store import SotStore
from headrace.stopping import STOP, StopEvent


@dataclass(slots=True)
class DualReport:
    """What a dual write did.

    Attributes:
        read: records of the source.
        written: new in the old log.
        behind: the new log could not be written, or has history to catch up with; a backfill
            brings it up. Never so once reads are switched.
        refused: why the source was not read on: a record that does not continue the old chain.
    """

    read: int = 0
    written: int = 0
    behind: bool = False
    refused: ChainError | MalformedRecord | None = None


def write_both(
    chunks: Iterable[Chunk],
    old: OldLog,
    new: SotStore,
    *,
    batch: int = 500,
    on_records: Callable[[int], None] = lambda _: None,
    stop: StopEvent = STOP,
) -> DualReport:
    """Append a stream of the engine's globally chained outputs.

    In phase `dual` the old log is the truth: what is durable there counts, and a new log in trouble
    is left behind. In phase `new` a record counts when both have it. A record that does not
    continue the old chain ends the write; what came before it is in both.

    Raises:
        StoreUnavailable: the old log, or in phase `new` either of them.
        WrongPhase: the migration has ended.
        MalformedInput: out of `chunks`, after what came before was written.
    """
    report = DualReport()
    filling = Backfill(old, new, batch=batch)
    for bodies in _in_order(chunks, batch):
        level = old.cursor().old_next == old.head().next_seq
        report.read += len(bodies)
        before = old.head().next_seq
        try:
            old.append(bodies)
        except (ChainError, MalformedRecord) as error:
            report.refused = error
        report.written += old.head().next_seq - before
        phase = old.phase()
        if phase is Phase.NEW or (phase is Phase.DUAL and level and not report.behind):
            try:
                filling.run()
            except StoreUnavailable:
                if phase is Phase.NEW:
                    raise
                report.behind = True
        elif phase is Phase.DUAL:
            report.behind = True
        on_records(len(bodies))
        if report.refused is not None or stop.is_set():
            break
    return report


def _in_order(chunks: Iterable[Chunk], batch: int) -> Iterator[Sequence[bytes]]:
    """Readers gather by symbol; the old chain's own sequence brings the order back."""
    for chunk in chunks:
        bodies = [
            body for pieces in chunk.runs.values() for run in pieces for body in bodies_of(run)
        ]
        bodies.sort(key=lambda body: identity(body)[1])
        for at in range(0, len(bodies), batch):
            yield bodies[at : at + batch]
