"""What a volume holds, symbol by symbol, as its entries say."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.sot.chain import Position, genesis
from headrace.sot.embedded.entries import (
    BadEntry,
    CorruptRange,
    Entry,
    Found,
    Key,
    Kind,
    key_of,
    make,
    unpack_keys,
    unpack_parked,
)
from headrace.sot.embedded.files import PREAMBLE_BYTES, Tip
from headrace.sot.exceptions import DamagedLog
from headrace.sot.record import U64_MAX
from headrace.sot.store import Answer, Batch, Head, Outcome


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


class VolumeIndex:
    """What a volume holds, as far as it was read.

    Args:
        path: the volume, for messages.
        read: gives the entry at an offset with its payload.

    Attributes:
        symbols, damages: by symbol; and all that was found wrong.
        end, entries, last_check: where the next entry begins, its number, the check before it.
        tip: the volume's, once it was read.
    """

    def __init__(self, path: Path, read: Callable[[int], tuple[Entry, bytes]]) -> None:
        self._path = path
        self._read = read
        self.symbols: dict[int, SymbolIndex] = {}
        self.damages: list[DamagedLog] = []
        self.end = PREAMBLE_BYTES
        self.entries = 0
        self.last_check = 0
        self.tip: Tip | None = None

    @property
    def heads(self) -> dict[int, int]:
        """The next sequence of every chain, for the tip."""
        return {
            symbol_id: index.position.next_seq
            for symbol_id, index in self.symbols.items()
            if index.position is not None
        }

    def index_of(self, symbol_id: int) -> SymbolIndex:
        """The symbol's index, to take in what the file says of it."""
        return self.symbols.setdefault(symbol_id, SymbolIndex(symbol_id))

    def add(self, step: Found | CorruptRange) -> Found | None:
        """Take in the next entry, or a range that is corrupt; the entry, if it is sound."""
        if isinstance(step, CorruptRange):
            self._add_corrupt(step)
            self.end = step.end
            return None
        try:
            self.add_entry(step.entry, step.offset)
        except BadEntry as error:
            self._add_misfit(step, str(error))
        except DamagedLog as error:
            self.damages.append(error)
        self.end = step.offset + step.entry.size_bytes
        self.entries = step.entry.number + 1
        self.last_check = step.check
        if self.tip is not None and self.entries == self.tip.entries:
            self._check_tip(self.tip)
        return step

    def add_entry(self, entry: Entry, offset: int) -> None:
        """Take in an entry that lies at `offset`.

        Raises:
            BadEntry: it does not follow from what is known.
            DamagedLog: its payload is not what was written.
        """
        index = self.index_of(entry.symbol_id)
        if entry.kind is Kind.BLOCK:
            if index.damage is None:
                index.add_block(entry, offset)
        elif entry.kind is Kind.CLAIM:
            index.add_claim(entry)
        elif entry.kind is Kind.VERIFIED:
            index.verified = Position(entry.first_seq + 1, entry.hash, entry.digest)
        else:
            _, raw = self._read(offset)
            if entry.kind is Kind.PARK:
                for record in unpack_parked(entry.symbol_id, raw):
                    index.parked[key_of(record)] = offset, record.reason
            else:
                for key in unpack_keys(raw):
                    index.parked.pop(key, None)

    def _add_misfit(self, step: Found, reason: str) -> None:
        """A sound entry that does not follow: what came between is gone."""
        entry = step.entry
        index = self.index_of(entry.symbol_id)
        if entry.kind is Kind.CLAIM:
            index.epoch = entry.epoch
            self.damages.append(damage_at(self._path, step.offset, reason, entry))
            return
        expected = index.position.next_seq if index.position else index.first_seq
        damage = DamagedLog(
            f"{self._path} at byte {step.offset}",
            reason,
            symbol_id=entry.symbol_id,
            seq=expected,
            last_seq=entry.first_seq - 1 if entry.first_seq > expected else None,
        )
        index.mark_damaged(damage)
        self.damages.append(damage)

    def _add_corrupt(self, step: CorruptRange) -> None:
        damage = damage_at(self._path, step.offset, step.reason, step.entry)
        self.damages.append(damage)
        if step.entry is None or step.check is None:
            return
        entry = step.entry
        self.entries = entry.number + 1
        self.last_check = step.check
        index = self.index_of(entry.symbol_id)
        if entry.kind is Kind.BLOCK:
            index.mark_damaged(damage)
        elif entry.kind is Kind.CLAIM:
            with suppress(BadEntry):
                index.add_claim(entry)
            index.epoch = entry.epoch

    def check_end(self, last: Found | None) -> None:
        """At the first look: is the last payload whole, and is nothing missing behind it."""
        if last is not None:
            try:
                self._read(last.offset)
            except DamagedLog as error:
                self.damages.append(error)
                if last.entry.kind is Kind.BLOCK:
                    self.index_of(last.entry.symbol_id).mark_damaged(error)
        if self.tip is not None and self.end < self.tip.size_bytes:
            self.note_missing_end(self.tip)

    def _check_tip(self, tip: Tip) -> None:
        if (self.end, self.last_check) != (tip.size_bytes, tip.last_check):
            self.damages.append(
                DamagedLog(
                    f"{self._path} at byte {self.end}",
                    f"entry {tip.entries - 1} is not the one that stood there when it was closed",
                )
            )

    def note_missing_end(self, tip: Tip) -> None:
        """Name what the tip knows and the volume does not hold."""
        missing = tip.size_bytes - self.end
        reason = f"its last {missing} bytes, which were acknowledged, are gone"
        named = 0
        for symbol_id, next_seq in tip.heads.items():
            index = self.index_of(symbol_id)
            have = index.position.next_seq if index.position else 0
            if have < next_seq and index.damage is None:
                damage = DamagedLog(
                    f"{self._path} at byte {self.end}",
                    reason,
                    symbol_id=symbol_id,
                    seq=have,
                    last_seq=next_seq - 1,
                )
                index.mark_damaged(damage)
                self.damages.append(damage)
                named += 1
        if not named:
            self.damages.append(DamagedLog(f"{self._path} at byte {self.end}", reason))


def damage_at(path: Path, offset: int, reason: str, entry: Entry | None) -> DamagedLog:
    """Damage at a byte of a volume, with the symbol and the records of its entry."""
    where = f"{path} at byte {offset}"
    if entry is None:
        return DamagedLog(where, reason)
    if entry.kind is Kind.BLOCK:
        return DamagedLog(
            where, reason, symbol_id=entry.symbol_id, seq=entry.first_seq, last_seq=entry.last_seq
        )
    what = f"an entry of kind {entry.kind.name.lower()}: {reason}"
    return DamagedLog(where, what, symbol_id=entry.symbol_id)


def check_batches(batches: Sequence[Batch], head_of: Callable[[int], Head | None]) -> list[Outcome]:
    """The answer to each batch, provided that those which fit are stored together.

    A batch goes on from where the one of its symbol before it ends. Once one is refused, the rest
    of its symbol is: its writer was wrong about where the chain ends.

    Args:
        batches: in the order in which they were given.
        head_of: where a symbol's chain ends before any of them; None if it was never claimed.

    Raises:
        ValueError: a symbol was never claimed.
    """
    last_outcomes: dict[int, Outcome] = {}
    outcomes: list[Outcome] = []
    for batch in batches:
        last = last_outcomes.get(batch.symbol_id)
        if last is None or last.answer is Answer.COMMITTED:
            head = last.head if last else head_of(batch.symbol_id)
            last = last_outcomes[batch.symbol_id] = _answer(batch, head)
        outcomes.append(last)
    return outcomes


def _answer(batch: Batch, head: Head | None) -> Outcome:
    if head is None:
        raise ValueError(f"symbol {batch.symbol_id} was never claimed")
    if head.epoch != batch.epoch:
        return Outcome(Answer.FENCED, head)
    if head.position != batch.before:
        return Outcome(Answer.MOVED, head)
    return Outcome(Answer.COMMITTED, replace(head, position=batch.after))


def claim_entry(index: SymbolIndex, first_seq: int) -> tuple[Entry, bytes]:
    """The entry that claims a symbol once more; a chain that has begun keeps its beginning."""
    begun = index.position is not None and index.position.next_seq != index.first_seq
    start = index.first_seq if begun else first_seq
    return make(Kind.CLAIM, index.symbol_id, first_seq=start, epoch=index.epoch + 1)


def block_entry(batch: Batch) -> tuple[Entry, bytes]:
    """The entry that holds a batch."""
    return make(
        Kind.BLOCK,
        batch.symbol_id,
        raw=batch.frames,
        count=batch.count,
        first_seq=batch.before.next_seq,
        epoch=batch.epoch,
        hash_=batch.after.hash,
        digest=batch.after.digest,
    )
