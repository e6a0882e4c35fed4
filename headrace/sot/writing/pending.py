"""A symbol's records that are not in its chain yet: waiting, in flight, or parked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from headrace.sot.chain import Position
from headrace.sot.encoding import HASH_BYTES, PREV_HASH
from headrace.sot.frames import RunIndex
from headrace.sot.store import Batch, BatchLimits, Parked, SotStore


@dataclass(slots=True)
class Piece:
    """Records that are linked and wait for their commit; `digests` are behind each of them."""

    run: bytes
    digests: bytes
    before: Position
    after: Position
    arrived_s: float
    index: RunIndex | None = None

    @property
    def count(self) -> int:
        """How many records."""
        return self.after.next_seq - self.before.next_seq


@dataclass(frozen=True, slots=True)
class InFlight:
    """A batch that the store has not answered yet, and the pieces it was made of."""

    batch: Batch
    pieces: list[Piece]


class Pending:
    """Linked records of one symbol, in order.

    A commit takes as many batches as the store takes together. It mostly waits for the disk, and a
    symbol that gets most of the records would be bound by one wait per batch.

    Args:
        symbol_id: whose they are.
        limits: of a batch, and of the batches of one commit.

    Attributes:
        waiting: pieces that no commit has taken.
        in_flight: batches of the commit under way, the next to be answered first.
        records, size_bytes: of both.
    """

    def __init__(self, symbol_id: int, limits: BatchLimits) -> None:
        self._symbol_id = symbol_id
        self._limits = limits
        self.waiting: deque[Piece] = deque()
        self.in_flight: deque[InFlight] = deque()
        self.records = 0
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self.waiting or self.in_flight)

    def add(self, piece: Piece) -> None:
        """Take in records that follow the last ones."""
        self.waiting.append(piece)
        self.records += piece.count
        self.size_bytes += len(piece.run)

    def send(self, epoch: int) -> list[Batch]:
        """What to commit next, within the store's limits; nothing while a commit is under way."""
        if self.in_flight:
            return []
        while self.waiting and len(self.in_flight) < self._limits.together:
            self.in_flight.append(self._next(epoch))
        return [flight.batch for flight in self.in_flight]

    def committed(self) -> InFlight:
        """The first batch in flight is stored: it is pending no longer."""
        if not self.in_flight:
            raise RuntimeError(f"symbol {self._symbol_id}: nothing was in flight")
        flight = self.in_flight.popleft()
        self.records -= flight.batch.count
        self.size_bytes -= len(flight.batch.frames)
        return flight

    def withdraw(self) -> list[Piece]:
        """All that is not stored, in order; nothing is pending afterwards."""
        pieces = [piece for flight in self.in_flight for piece in flight.pieces]
        pieces += self.waiting
        self.in_flight.clear()
        self.waiting.clear()
        self.records = self.size_bytes = 0
        return pieces

    def find(self, seq: int) -> RunIndex:
        """The run that holds a record which is pending."""
        flying = (piece for flight in self.in_flight for piece in flight.pieces)
        for piece in (*self.waiting, *flying):
            if piece.before.next_seq <= seq < piece.after.next_seq:
                if piece.index is None:
                    piece.index = RunIndex(piece.before.next_seq, piece.run)
                return piece.index
        raise RuntimeError(f"symbol {self._symbol_id}, seq {seq}: neither stored nor pending")

    def _next(self, epoch: int) -> InFlight:
        chosen = [self.waiting.popleft()]
        records, size = chosen[0].count, len(chosen[0].run)
        while self.waiting:
            piece = self.waiting[0]
            records, size = records + piece.count, size + len(piece.run)
            if records > self._limits.records or size > self._limits.size_bytes:
                break
            chosen.append(self.waiting.popleft())
        run = chosen[0].run if len(chosen) == 1 else b"".join(piece.run for piece in chosen)
        return InFlight(
            Batch(self._symbol_id, epoch, chosen[0].before, chosen[-1].after, run), chosen
        )


#: Parking is a durable write each time; so many records share one.
_TOGETHER: Final = 500
_TOGETHER_BYTES: Final = 1024 * 1024


class SymbolParking:
    """The parked records of one symbol.

    Args:
        store: where they lie.
        symbol_id: whose they are.
        limit: how many may lie there.

    Attributes:
        lowest_seq: the lowest sequence parked that may still come next; None if there is none.
        duplicates: records that were parked already, as far as they were counted.
        linked: back in the chain, and removed from the store once that is durable.
    """

    def __init__(self, store: SotStore, symbol_id: int, limit: int) -> None:
        self._store = store
        self._symbol_id = symbol_id
        self._limit = limit
        self._new: list[Parked] = []
        self._new_bytes = 0
        self._there: set[tuple[int, int]] | None = None
        self.linked: list[Parked] = []
        self.lowest_seq: int | None = None
        self.count = 0
        self.duplicates = 0

    @classmethod
    def loaded(cls, store: SotStore, symbol_id: int, limit: int) -> SymbolParking:
        """With what earlier runs have parked counted in."""
        parking = cls(store, symbol_id, limit)
        for parked in store.parked(symbol_id):
            parking.count += 1
            if parking.lowest_seq is None:
                parking.lowest_seq = parked.seq
        return parking

    def park(self, seq: int, body: bytes, reason: str) -> bool:
        """Park a record with the next flush; False if it is a new one and the limit is reached."""
        if self.count >= self._limit and self._there is None:
            self._recount()
        if self._there is not None:
            if (key := (seq, hash(body))) in self._there:
                self.duplicates += 1
                return True
            if self.count >= self._limit:
                return False
            self._there.add(key)
        self.count += 1
        if reason == "gap" and (self.lowest_seq is None or seq < self.lowest_seq):
            self.lowest_seq = seq
        self._add(Parked(self._symbol_id, seq, body, reason))
        return True

    def _add(self, record: Parked) -> None:
        self._new.append(record)
        self._new_bytes += len(record.body)
        if len(self._new) >= _TOGETHER or self._new_bytes >= _TOGETHER_BYTES:
            self.flush()

    def _recount(self) -> None:
        """Look before saying that it is full: what came twice lies there once."""
        self.flush()
        self._there = {
            (parked.seq, hash(parked.body)) for parked in self._store.parked(self._symbol_id)
        }
        self.set_count(len(self._there))

    def set_count(self, records: int) -> None:
        """Take the count of the store; what was parked beyond it was parked more than once."""
        self.duplicates += self.count - records
        self.count = records

    def flush(self) -> None:
        """Make what was parked durable."""
        if self._new:
            self._store.park(self._new)
            self._new.clear()
            self._new_bytes = 0

    def reclassify(self, records: list[Parked], reason: str) -> None:
        """Keep these for another reason than before: as evidence, no longer as candidates.

        They stay parked all the time: the store changes the reason in place.
        """
        for record in records:
            self._add(replace(record, reason=reason))
        self.flush()

    def release(self, next_seq: int) -> None:
        """Remove what was linked from the store, if the chain has all of it."""
        if self.linked and all(parked.seq < next_seq for parked in self.linked):
            self._store.unpark(self.linked)
            self.count -= len(self.linked)
            if self._there is not None:
                self._there -= {(parked.seq, hash(parked.body)) for parked in self.linked}
            self.linked.clear()


def best_first(parked: Iterable[Parked]) -> Iterator[Parked]:
    """Parked records by sequence; of several at one, those first that a next one names.

    Which of two came first is not kept. Whose hash is the `prev_hash` of a parked successor has a
    history that goes on.
    """
    groups = (list(group) for _, group in groupby(parked, lambda record: record.seq))
    current = next(groups, None)
    while current is not None:
        following = next(groups, None)
        if len(current) > 1 and following is not None:
            named = {record.body[PREV_HASH] for record in following}
            current.sort(key=lambda record: record.body[:HASH_BYTES] not in named)
        yield from current
        current = following
