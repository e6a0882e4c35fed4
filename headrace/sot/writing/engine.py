"""Links and commits the records of some shards: one thread to link, one per shard to commit.

Linking is bound by the processor (and by Python's lock), committing waits for compression and for
the disk or the network, without that lock. So one loop links, each symbol in turn, as much of it
as a turn holds: a hot symbol's backlog cannot hold up a cold one by more than one turn. A shard has
its symbols, what they have pending, and at most one commit under way; what comes in meanwhile
shares the next.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final

from headrace.sot.chain import SentPosition
from headrace.sot.exceptions import DamagedLog, StoreUnavailable
from headrace.sot.store import Answer, Batch, Head, Outcome, SotStore
from headrace.sot.writing.messages import Ack, Finished, SymbolCount
from headrace.sot.writing.options import WriteOptions, shard_of
from headrace.sot.writing.shards import Claims, Shard, SymbolQueue
from headrace.sot.writing.stats import Histogram, Problems, ShardStats
from headrace.sot.writing.symbol_writer import SymbolWriter

#: A symbol waits for its commit when it is this many batches ahead, and this many commits.
_BATCHES_AHEAD: Final = 4
_COMMITS_AHEAD: Final = 2
#: A symbol's turn. By bytes, not by runs: a chunk has one run of each symbol, so a cold symbol that
#: got one run a turn could never catch up with a backlog as long as the hot one's.
_TURN_BYTES: Final = 256 * 1024
#: Room is given back in portions, to keep messages few.
_PORTION: Final = 256 * 1024
#: Delays are kept per symbol for so many symbols; beyond that per shard only.
_DELAYS_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class _Offered:
    arrived_s: float
    symbol_id: int
    run: bytes


@dataclass(frozen=True, slots=True)
class _Answered:
    shard: Shard
    batches: list[Batch]
    outcomes: list[Outcome] | None
    error: Exception | None


class _End:
    pass


class Engine:
    """The writers of some shards, in one process.

    Args:
        store: where to; used from this thread and from one per shard.
        shards: which shards.
        options: of the write.
        on_acks: called with what became durable, from the thread of `run`.
        on_done: called with how many bytes wait no longer (committed, known already, held or
            refused), from the thread of `run`.
    """

    def __init__(
        self,
        store: SotStore,
        shards: Sequence[int],
        options: WriteOptions,
        *,
        on_acks: Callable[[list[Ack]], None],
        on_done: Callable[[int], None],
    ) -> None:
        self._store = store
        self._options = options
        self._on_acks = on_acks
        self._on_done = on_done
        self._inbox: SimpleQueue[_Offered | _Answered | _End] = SimpleQueue()
        self._shards = {number: Shard(ShardStats(number)) for number in shards}
        self._queues: dict[int, SymbolQueue] = {}
        self._ready: deque[SymbolQueue] = deque()
        self._problems = Problems()
        self._claims = Claims(store, options, self._problems)
        self._ended = False
        self._done_bytes = 0
        limits = store.limits
        self._most_pending = limits.records * max(_BATCHES_AHEAD, _COMMITS_AHEAD * limits.together)
        self._full_batch = min(limits.records, options.batch_records or limits.records)

    def offer(self, arrived_s: float, symbol_id: int, run: bytes) -> None:
        """Hand in frames of one symbol, read at `arrived_s` (`time.monotonic`); from any thread."""
        self._inbox.put(_Offered(arrived_s, symbol_id, run))

    def end(self) -> None:
        """Nothing more is coming; from any thread."""
        self._inbox.put(_End())

    def run(self) -> Finished:
        """Work until everything that was offered before `end` is committed or parked.

        Raises:
            StoreUnavailable: the store does not answer, attempt after attempt.
        """
        with ThreadPoolExecutor(len(self._shards), "sot-commit") as pool:
            while True:
                self._receive(self._wait_s(), pool)
                self._process_next()
                for shard in self._shards.values():
                    self._commit_if_due(shard, pool)
                if self._ended and self._is_idle():
                    break
        return self._finished()

    def _is_idle(self) -> bool:
        return (
            self._inbox.empty()
            and not self._ready
            and not any(s.in_flight or s.pending or s.stalled for s in self._shards.values())
        )

    def _wait_s(self) -> float:
        """How long nothing has to be done unless something comes in."""
        if self._ready:
            return 0.0
        now_s = time.monotonic()
        waits = [
            max(0.0, shard.retry_at_s - now_s)
            for shard in self._shards.values()
            if shard.pending and not shard.in_flight
        ]
        if waits:
            return min(waits)
        return 0.0 if self._ended and self._is_idle() else 60.0

    def _receive(self, wait_s: float, pool: ThreadPoolExecutor) -> None:
        offers: list[_Offered] = []
        with suppress(Empty):
            message = self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait()
            while True:
                if isinstance(message, _Offered):
                    offers.append(message)
                elif isinstance(message, _Answered):
                    self._on_answer(message)
                else:
                    self._ended = True
                message = self._inbox.get_nowait()
        self._open_new({offered.symbol_id for offered in offers}, pool)
        for offered in offers:
            self._enqueue(offered)

    def _open_new(self, symbol_ids: set[int], pool: ThreadPoolExecutor) -> None:
        """Claim symbols met for the first time, shard by shard: a claim is a durable write."""
        by_shard: dict[int, list[int]] = {}
        for symbol_id in sorted(symbol_ids - self._queues.keys()):
            by_shard.setdefault(shard_of(symbol_id, self._options.shards), []).append(symbol_id)
        groups = pool.map(self._claims.open, by_shard.values())
        for (number, new), opened in zip(by_shard.items(), groups, strict=True):
            shard = self._shards[number]
            shard.stats.symbols += len(new)
            for symbol_id, writer in zip(new, opened, strict=True):
                if not isinstance(writer, SymbolWriter):
                    writer = self._claims.blocked(symbol_id, writer)
                delay = Histogram() if len(self._queues) < _DELAYS_KEPT else None
                self._queues[symbol_id] = SymbolQueue(writer, shard, delay=delay)

    def _enqueue(self, offered: _Offered) -> None:
        queue = self._queues[offered.symbol_id]
        shard = queue.shard
        if shard.started_s is None:
            shard.started_s = offered.arrived_s
        shard.note_offered(len(offered.run))
        queue.runs.append((offered.arrived_s, offered.run))
        if not queue.ready:
            queue.ready = True
            self._ready.append(queue)

    def _process_next(self) -> None:
        if not self._ready:
            return
        queue = self._ready.popleft()
        shard, writer = queue.shard, queue.writer
        if writer.pending.records >= self._most_pending:
            shard.stalled.append(queue)
            self._report_done()
            return
        processed_bytes = 0
        while queue.runs and processed_bytes < _TURN_BYTES:
            arrived_s, run = queue.runs.popleft()
            processed_bytes += len(run)
            try:
                writer.take(run, arrived_s)
            except DamagedLog as error:  # met while a record was compared with the stored one
                writer.block("damage", str(error))
        if queue.runs:
            self._ready.append(queue)
        else:
            queue.ready = False
        self._recount(queue, processed_bytes, time.monotonic())
        if shard.held_bytes > self._options.held_bytes:
            self._park_most(shard)

    def _park_most(self, shard: Shard) -> None:
        """Too much is held for missing predecessors: park it, those first that hold the most."""
        holding = [q for q in self._queues.values() if q.shard is shard and q.held_bytes]
        for queue in sorted(holding, key=lambda q: q.held_bytes, reverse=True):
            queue.writer.park_held()
            self._recount(queue, 0, time.monotonic())
            if shard.held_bytes <= self._options.held_bytes // 2:
                break

    def _recount(self, queue: SymbolQueue, processed_bytes: int, now_s: float) -> None:
        self._done_bytes += queue.shard.recount(queue, processed_bytes, now_s)
        self._report_done()

    def _report_done(self) -> None:
        """In portions, but nothing is kept back when nothing else is to be done.

        The reader may be waiting for just this room.
        """
        if self._done_bytes >= _PORTION or (self._done_bytes > 0 and not self._ready):
            self._on_done(self._done_bytes)
            self._done_bytes = 0

    def _commit_if_due(self, shard: Shard, pool: ThreadPoolExecutor) -> None:
        if shard.in_flight or not shard.pending:
            return
        now_s = time.monotonic()
        if now_s < shard.retry_at_s:
            return
        lingered = shard.since_s is not None and now_s - shard.since_s >= self._options.linger_s
        if self._ready and not lingered and shard.pending_records < self._full_batch:
            return
        batches = shard.batches(now_s)
        if batches:
            shard.in_flight, shard.sent_s = batches, now_s
            pool.submit(self._commit, shard, batches)

    def _commit(self, shard: Shard, batches: list[Batch]) -> None:
        """In the shard's thread: the store's answer, or its error, comes back as a message."""
        try:
            outcomes = self._store.commit(batches)
        except Exception as error:  # noqa: BLE001 - handed to the loop, which raises what it must
            self._inbox.put(_Answered(shard, batches, None, error))
        else:
            self._inbox.put(_Answered(shard, batches, outcomes, None))

    def _on_answer(self, answered: _Answered) -> None:
        shard = answered.shard
        shard.in_flight = []
        now_s = time.monotonic()
        shard.stats.busy_s += now_s - shard.sent_s
        if answered.outcomes is None:
            self._on_failure(shard, answered.batches, answered.error, now_s)
        else:
            shard.stats.commit.add(now_s - shard.sent_s)
            shard.retry_at_s = 0.0
            acks = []
            moved: set[int] = set()
            for batch, outcome in zip(answered.batches, answered.outcomes, strict=True):
                queue = self._queues[batch.symbol_id]
                if outcome.answer is Answer.COMMITTED:
                    acks.append(self._acknowledge(queue, batch, now_s))
                elif batch.symbol_id not in moved:
                    # With the first of a symbol's batches those behind it were refused as well.
                    moved.add(batch.symbol_id)
                    self._resume_at(queue, outcome.head, now_s)
            if acks:
                self._on_acks(acks)
        self._ready.extend(shard.stalled)
        shard.stalled.clear()

    def _acknowledge(self, queue: SymbolQueue, batch: Batch, now_s: float) -> Ack:
        shard, writer = queue.shard, queue.writer
        for piece in writer.committed(now_s):
            waited_s = now_s - piece.arrived_s
            shard.stats.delay.add(waited_s, piece.count)
            if queue.delay is not None:
                queue.delay.add(waited_s, piece.count)
        self._recount(queue, 0, now_s)
        stats = shard.stats
        stats.records += batch.count
        stats.size_bytes += len(batch.frames)
        stats.batches += 1
        stats.elapsed_s = now_s - (shard.started_s or now_s)
        return Ack(batch.symbol_id, batch.before.next_seq, SentPosition.of(batch.after))

    def _resume_at(self, queue: SymbolQueue, head: Head, now_s: float) -> None:
        """The store answered that the symbol's chain does not end where we thought."""
        writer = queue.writer
        if head.epoch != writer.epoch:
            writer.block(
                "taken-over",
                f"symbol {writer.symbol_id}: another writer has taken it over "
                f"(epoch {head.epoch}, ours {writer.epoch})",
            )
        else:
            writer.resume_at(head)
        self._recount(queue, 0, now_s)

    def _on_failure(
        self, shard: Shard, batches: list[Batch], error: Exception | None, now_s: float
    ) -> None:
        """It is not known what of these was stored: read each symbol's head, resume there."""
        if not isinstance(error, StoreUnavailable | DamagedLog):
            raise error or RuntimeError("a commit failed without saying why")
        symbol_ids = dict.fromkeys(batch.symbol_id for batch in batches)
        queues = [self._queues[symbol_id] for symbol_id in symbol_ids]
        attempts = max(queue.writer.attempts for queue in queues) + 1
        if attempts >= self._options.attempts and isinstance(error, StoreUnavailable):
            raise error
        if isinstance(error, StoreUnavailable):
            shard.retry_at_s = now_s + self._options.retry_pause_s * 2 ** (attempts - 1)
        damaged_alone = isinstance(error, DamagedLog) and len(queues) == 1
        shard.alone = shard.alone or isinstance(error, DamagedLog)
        for queue in queues:
            queue.writer.attempts = attempts
            if damaged_alone:
                queue.writer.block("damage", str(error))
                self._recount(queue, 0, now_s)
            else:
                self._ask_head(queue, now_s)

    def _ask_head(self, queue: SymbolQueue, now_s: float) -> None:
        writer = queue.writer
        try:
            head = self._store.head(writer.symbol_id)
        except StoreUnavailable:
            # Not even the head: take it that nothing was stored. The next commit says MOVED if so.
            head = Head(writer.symbol_id, writer.epoch, 0, writer.stored)
        except DamagedLog as error:
            writer.block("damage", str(error))
            self._recount(queue, 0, now_s)
            return
        if head is None:
            raise StoreUnavailable(
                self._store.location, "reading a head", f"symbol {writer.symbol_id} is gone"
            )
        self._resume_at(queue, head, now_s)

    def _finished(self) -> Finished:
        writers = [queue.writer for queue in self._queues.values()]
        for writer in writers:
            writer.finish()
        symbols = [
            SymbolCount(
                queue.writer.symbol_id,
                SentPosition.of(queue.writer.stored),
                queue.writer.parked,
                queue.delay,
            )
            for queue in self._queues.values()
        ]
        return Finished(
            shards=[shard.stats for shard in self._shards.values()],
            symbols=sorted(symbols, key=lambda symbol: symbol.symbol_id),
            duplicates=sum(writer.duplicates for writer in writers),
            refused=sum(writer.refused for writer in writers),
            problems=self._problems.named,
            counts=dict(self._problems.counts),
            repairs=self._store.repairs(),
        )
