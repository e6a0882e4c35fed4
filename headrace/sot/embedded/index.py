"""What a volume holds, symbol by symbol, as its entries say."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.sot.chain import Position, genesis
from headrace.sot.embedded.entries import BadEntry, Entry, Key
from headrace.sot.exceptions import DamagedLog
from headrace.sot.record import U64_MAX
from headrace.sot.store import Head


@dataclass(slots=True)
class SymbolIndex:
    """One symbol: its head, where its blocks lie (16 bytes each), what is parked.

    Attributes:
        parked: where the entry lies that holds it, and why it is parked.
        damage: what was found wrong with it; nothing behind it is indexed.
    """

    symbol_id: int
    epoch: int = 0
    first_seq: int = 0
    position: Position | None = None
    first_seqs: array[int] = field(default_factory=lambda: array("Q"))
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    parked: dict[Key, tuple[int, str]] = field(default_factory=dict)
    verified: Position | None = None
    damage: DamagedLog | None = None

    @property
    def head(self) -> Head | None:
        """As the store's users see it; None if the symbol was parked only."""
        if self.position is None:
            return None
        return Head(self.symbol_id, self.epoch, self.first_seq, self.position)

    def blocks(self, from_seq: int, to_seq: int | None) -> Iterator[int]:
        """Offsets of the blocks that hold any of these records."""
        start = max(0, bisect_right(self.first_seqs, min(from_seq, U64_MAX)) - 1)
        for place in range(start, len(self.offsets)):
            if to_seq is not None and self.first_seqs[place] > to_seq:
                return
            yield self.offsets[place]

    def add_claim(self, entry: Entry) -> None:
        """Take in a claim.

        Raises:
            BadEntry: it does not follow from what is known.
        """
        if entry.epoch != self.epoch + 1:
            raise BadEntry(f"it claims epoch {entry.epoch} after epoch {self.epoch}")
        if self.position is None or self.position.next_seq == self.first_seq:
            self.first_seq = entry.first_seq
            self.position = genesis(self.symbol_id, entry.first_seq)
        self.epoch = entry.epoch

    def add_block(self, entry: Entry, offset: int) -> None:
        """Take in a block.

        Raises:
            BadEntry: it does not begin where the chain ends.
        """
        expected = self.position.next_seq if self.position else None
        if entry.first_seq != expected or entry.count < 1 or entry.last_seq > U64_MAX:
            raise BadEntry(
                f"it holds {entry.count} records from seq {entry.first_seq}, "
                + ("before any claim" if expected is None else f"seq {expected} comes next")
            )
        self.first_seqs.append(entry.first_seq)
        self.offsets.append(offset)
        self.position = Position(entry.last_seq + 1, entry.hash, entry.digest)

    def mark_damaged(self, damage: DamagedLog) -> None:
        """Remember the first damage; later blocks are not taken in."""
        if self.damage is None:
            self.damage = damage
