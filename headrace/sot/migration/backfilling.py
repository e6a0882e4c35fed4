"""Bring the new log up to where the old one is; again and again, from wherever it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.sot.exceptions import DamagedLog, TakenOver
from headrace.sot.migration.old import Cursor, OldLog
from headrace.sot.migration.relinking import relinked, symbol_in
from headrace.sot.position import DEFAULT_FIRST_SEQ, Position
from headrace.sot.store import Answer, Batch, Head, SotStore
from headrace.stopping import STOP, StopEvent


@dataclass
class _Chain:
    """One symbol of the new log while it is filled."""

    head: Head
    next_seq: int
    position: Position
    before: Position
    frames: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def batch(self) -> Batch:
        """What waits to be stored."""
        run = b"".join(self.frames)
        return Batch(self.head.symbol_id, self.head.epoch, self.before, self.position, run)


class Backfill:
    """A backfill under way.

    Args:
        old, new: from where, to where.
        batch: records of a symbol per commit, at most.
        on_records: told how many old records are durable in the new log by now.
        stop: looked at between batches.
    """

    def __init__(
        self,
        old: OldLog,
        new: SotStore,
        *,
        batch: int = 500,
        on_records: Callable[[int], None] = lambda _: None,
        stop: StopEvent = STOP,
    ) -> None:
        self._old = old
        self._new = new
        self._batch = min(batch, new.limits.records)
        self._on_records = on_records
        self._stop = stop
        self._chains: dict[int, _Chain] = {}
        self._next_seqs: dict[int, int] = {}

    def run(self) -> int:
        """Go on from where the last one stopped, up to the old log's end as it is now.

        Returns:
            How many records were added to the new log.

        Raises:
            DamagedLog: the old log is damaged, or the new one is shorter than was known.
            TakenOver: somebody else writes the new log.
            StoreUnavailable: one of them does not answer; run it again.
        """
        try:
            return self._run()
        except BaseException:
            # What was under way is unknown now; the next run asks the new log where it stands.
            self._chains.clear()
            raise

    def _run(self) -> int:
        cursor = self._old.cursor()
        end = self._old.head().next_seq
        self._next_seqs = dict(cursor.next_seqs)
        added = since = 0
        at = cursor.old_next
        for body in self._old.bodies(cursor.old_next, end):
            added += self._take(body)
            at += 1
            since += 1
            if since >= 8 * self._batch:
                self._settle(at)
                self._on_records(since)
                since = 0
                if self._stop.is_set():
                    return added
        self._settle(at)
        self._on_records(since)
        return added

    def _take(self, body: bytes) -> int:
        """Take in one old record; 1 if the new log did not have it."""
        symbol_id = symbol_in(body)
        chain = self._chains.get(symbol_id) or self._claimed(symbol_id)
        seq = chain.next_seq
        chain.next_seq = self._next_seqs[symbol_id] = seq + 1
        if seq < chain.head.position.next_seq:
            return 0  # a backfill that was killed had stored it already
        framed, chain.position = relinked(body, chain.position)
        chain.frames.append(framed)
        chain.size_bytes += len(framed)
        full = chain.size_bytes >= self._new.limits.size_bytes // 2
        if full or len(chain.frames) >= self._batch:
            self._commit([chain])
        return 1

    def _claimed(self, symbol_id: int) -> _Chain:
        next_seq = self._next_seqs.get(symbol_id, DEFAULT_FIRST_SEQ)
        head = self._new.claim(symbol_id, first_seq=DEFAULT_FIRST_SEQ)
        if head.first_seq != DEFAULT_FIRST_SEQ or head.position.next_seq < next_seq:
            raise DamagedLog(
                self._new.location,
                f"the new log goes to seq {head.position.next_seq - 1} from {head.first_seq}, "
                f"and had everything up to {next_seq - 1}",
                symbol_id=symbol_id,
                hint="Delete the row named cursor in the old log's table migration, and use an "
                "empty new log",
            )
        chain = _Chain(head, next_seq, head.position, head.position)
        self._chains[symbol_id] = chain
        return chain

    def _settle(self, old_next: int) -> None:
        """Make everything taken in durable, then remember how far that is."""
        waiting = [chain for chain in self._chains.values() if chain.frames]
        if waiting:
            self._commit(waiting)
        self._old.note_cursor(Cursor(old_next, dict(self._next_seqs)))

    def _commit(self, chains: list[_Chain]) -> None:
        outcomes = self._new.commit([chain.batch() for chain in chains])
        for chain, outcome in zip(chains, outcomes, strict=True):
            # A batch whose answer was lost may meet itself: then the head is its end.
            if outcome.answer is not Answer.COMMITTED and outcome.head.position != chain.position:
                raise TakenOver(chain.head.symbol_id, chain.head.epoch, outcome.head.epoch)
            chain.before = chain.position
            chain.frames, chain.size_bytes = [], 0
