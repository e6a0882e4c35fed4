"""What one symbol has linked and the store has not: pieces that wait, and batches under way."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from headrace.sot.position import Position
from headrace.sot.store import Batch, BatchLimits
from headrace.sot.writing.runs import RunIndex


@dataclass(slots=True)
class Piece:
    """Records that are linked and wait for their commit."""

    run: bytes
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
