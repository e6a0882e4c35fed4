"""A shard: its symbols, what they have pending, and at most one commit under way; how they open."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.sot.exceptions import DamagedLog, StoreUnavailable
from headrace.sot.store import Batch, Head, SotStore
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.stats import Histogram, Problems, ShardStats
from headrace.sot.writing.symbol_writer import SymbolWriter


@dataclass(slots=True, eq=False)
class SymbolQueue:
    """Runs of one symbol that wait to be linked; `delay` is kept while symbols are few.

    Attributes:
        pending_records, pending_bytes, held_bytes: the writer's, as the shard has counted them.
    """

    writer: SymbolWriter
    shard: Shard
    runs: deque[tuple[float, bytes]] = field(default_factory=deque)
    ready: bool = False
    delay: Histogram | None = None
    pending_records: int = 0
    pending_bytes: int = 0
    held_bytes: int = 0


@dataclass(slots=True, eq=False)
class Shard:
    """A shard's state.

    Attributes:
        pending: symbols with linked records, in the order in which they got them.
        pending_records: linked, not committed, over all symbols.
        held_bytes: in memory for a missing predecessor, over all symbols.
        since_s: when the first record was linked that the last commit did not take; None if none.
        in_flight: batches that the store has not answered.
        sent_s: when it got them.
        stalled: symbols that wait for a commit before more of them is linked.
        alone: commit one symbol at a time, to find the one that the store refuses.
        retry_at_s: no commit before that.
    """

    stats: ShardStats
    pending: dict[int, SymbolQueue] = field(default_factory=dict)
    pending_records: int = 0
    held_bytes: int = 0
    since_s: float | None = None
    in_flight: list[Batch] = field(default_factory=list)
    sent_s: float = 0.0
    stalled: list[SymbolQueue] = field(default_factory=list)
    waiting_bytes: int = 0
    alone: bool = False
    retry_at_s: float = 0.0
    started_s: float | None = None

    def note_offered(self, size_bytes: int) -> None:
        """Count bytes that came in."""
        self.waiting_bytes += size_bytes
        self.stats.queue_bytes = max(self.stats.queue_bytes, self.waiting_bytes)

    def recount(self, queue: SymbolQueue, processed_bytes: int, now_s: float) -> int:
        """Count again after a symbol's writer has linked, committed, resumed or given up.

        Args:
            queue: the symbol.
            processed_bytes: what it has taken off its queue since it was counted last.
            now_s: the time.

        Returns:
            How many bytes wait no longer: committed, known already, held or refused.
        """
        writer = queue.writer
        self.pending_records += writer.pending.records - queue.pending_records
        done = processed_bytes - (writer.pending.size_bytes - queue.pending_bytes)
        queue.pending_records = writer.pending.records
        queue.pending_bytes = writer.pending.size_bytes
        self.waiting_bytes -= done
        self.held_bytes += writer.held_bytes - queue.held_bytes
        queue.held_bytes = writer.held_bytes
        if not writer.pending.waiting:
            self.pending.pop(writer.symbol_id, None)
        else:
            self.pending[writer.symbol_id] = queue
            if self.since_s is None:
                self.since_s = now_s
        return done

    def batches(self, now_s: float) -> list[Batch]:
        """What to commit now: of each symbol that has any, as much as one commit takes."""
        chosen: list[Batch] = []
        for symbol_id, queue in list(self.pending.items()):
            batches = queue.writer.next_batches()
            if not queue.writer.pending.waiting:
                del self.pending[symbol_id]
            chosen += batches
            if batches and self.alone:
                break
        self.since_s = now_s if self.pending else None
        return chosen


class Claims:
    """Opens symbols; from any thread.

    Args:
        store: where they are claimed.
        options: of the write.
        problems: for the writers.
    """

    def __init__(self, store: SotStore, options: WriteOptions, problems: Problems) -> None:
        self._store = store
        self._options = options
        self._problems = problems

    def open(self, symbol_ids: Sequence[int]) -> list[SymbolWriter | DamagedLog]:
        """Claim all of these, with as few waits for the disk as the store can.

        Returns:
            For each its writer, or why it cannot be written.

        Raises:
            StoreUnavailable: the store does not answer, attempt after attempt.
        """
        for attempt in range(self._options.attempts):
            try:
                heads = self._store.claim_all(symbol_ids, first_seq=self._options.first_seq)
                return [self._writer(head) for head in heads]
            except DamagedLog as error:
                if len(symbol_ids) == 1:
                    return [error]
                # Not all of them need be concerned.
                return [self.open([symbol_id])[0] for symbol_id in symbol_ids]
            except StoreUnavailable:
                if attempt + 1 == self._options.attempts:
                    raise
                time.sleep(self._options.retry_pause_s * 2**attempt)
        raise RuntimeError("unreachable: at least one attempt is made")

    def blocked(self, symbol_id: int, error: DamagedLog) -> SymbolWriter:
        """A writer that refuses everything, for a symbol that cannot be written."""
        writer = SymbolWriter.refusing(symbol_id, self._store, self._options, self._problems)
        writer.block("damage", str(error))
        return writer

    def _writer(self, head: Head) -> SymbolWriter | DamagedLog:
        try:
            return SymbolWriter(head, self._store, self._options, self._problems)
        except DamagedLog as error:
            return error
