"""What the log needs of a place that keeps it. One contract suite runs over every backend.

**Commit is conditional.** A batch says from which `Position` and under which epoch it goes on. The
store compares both with what it holds and, in one atomic and durable step, adds the records and
moves the head; or it changes nothing and says where the chain ends. So two writers can never put
two records after the same one (fork) nor write over a row, whatever they assume and however late
they come. A position carries the digest over all that precedes it: equal positions mean equal
histories.

**Epochs** let the newer of two writers win on purpose: `claim` raises the symbol's epoch by one,
and from then on every batch under a lower one is fenced off, even if its position is right.

**Acknowledged means durable.** When `commit` returns `COMMITTED`, the records outlive a kill and a
loss of power at any later moment.

**A commit whose answer was lost** (time-out) may have been stored. A backend finds out by reading
the head, and raises `StoreUnavailable` only if it cannot. Writing the same batch again is always
safe: it is answered by `MOVED` with a head at or after the batch's end.

**Frames.** Records travel as *frames*, the bytes of docs/sot-format.md: u32 length (little endian),
then the canonical body. A store may cut a run of frames where it likes; it never changes a byte.
Iterate with `headrace.sot.frames`.

**Threads and processes.** Any number of processes may open one store. One store object may be used
by several threads, each symbol by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Protocol

from headrace.sot.chain import Position
from headrace.sot.exceptions import DamagedLog


@dataclass(frozen=True, slots=True)
class Head:
    """What a store holds about a symbol.

    Attributes:
        epoch: of the last claim, from 1.
        first_seq: where the chain begins.
        position: its end. Before the first record it is `genesis(symbol_id, first_seq)`.
    """

    symbol_id: int
    epoch: int
    first_seq: int
    position: Position


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one symbol, checked by `headrace.sot.chain`, ready to be stored.

    Attributes:
        epoch: under which the writer has claimed the symbol.
        before, after: where the records begin and end; `after.next_seq - before.next_seq` of them.
        frames: the records' frames, one after the other; at least one.
    """

    symbol_id: int
    epoch: int
    before: Position
    after: Position
    frames: bytes

    @property
    def count(self) -> int:
        """How many records."""
        return self.after.next_seq - self.before.next_seq


class Answer(StrEnum):
    """What became of a batch."""

    COMMITTED = "committed"  #: stored and durable; the head is the batch's end
    MOVED = "moved"  #: not stored: the chain does not end where the batch begins
    FENCED = "fenced"  #: not stored: the symbol was claimed by another writer since


@dataclass(frozen=True, slots=True)
class Outcome:
    """The store's answer to one batch, and the symbol's head as it is now."""

    answer: Answer
    head: Head


@dataclass(frozen=True, slots=True)
class Block:
    """A run of consecutive records as a store keeps or pages them.

    Attributes:
        first_seq, count: which records.
        frames: their frames, as they were committed.
        where: file and offset, or table and key; for messages.
        after: the position behind the last one as the store keeps it, None if it keeps none there.
    """

    symbol_id: int
    first_seq: int
    count: int
    frames: bytes
    where: str
    after: Position | None = None


@dataclass(frozen=True, slots=True)
class Parked:
    """A record that does not continue its chain, parked until its predecessor arrives.

    Two of them are the same if all but `reason` is equal. Parking one again changes the reason, if
    that is another, in one atomic step: it stays parked all the time.

    Attributes:
        seq: its output_seq.
        body: its canonical body, without the length.
        reason: why, as `ChainError.kind` has it: "gap", "link" or "fork".
    """

    symbol_id: int
    seq: int
    body: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large a batch a store takes at most; a single record may exceed `size_bytes`.

    Attributes:
        records: records per batch.
        size_bytes: bytes of frames per batch, before compression.
        together: batches of one symbol per call of `commit`.
    """

    records: int
    size_bytes: int
    together: int = 1


def by_symbol(records: Iterable[Parked]) -> Iterator[tuple[int, list[Parked]]]:
    """Parked records by their symbol, ascending."""
    ordered = sorted(records, key=lambda record: record.symbol_id)
    for symbol_id, group in groupby(ordered, lambda record: record.symbol_id):
        yield symbol_id, list(group)


class SotStore(Protocol):
    """Chains under symbols. Sequences and hashes are unsigned 64 bit at this border, always.

    Every method may raise `StoreUnavailable` (no answer, disk full) or `DamagedLog` (what is
    there is not what was written).
    """

    @property
    def location(self) -> str:
        """Folder or URL, as a person would write it."""

    @property
    def limits(self) -> BatchLimits:
        """What one batch may hold; the pipeline cuts by it."""

    def symbols(self) -> list[int]:
        """Every symbol that was ever claimed or parked, ascending; whatever the shards."""

    def head(self, symbol_id: int) -> Head | None:
        """Where the symbol's chain ends, linearizable; None if it was never claimed."""

    def moved_heads(self, known: Mapping[int, Position]) -> Iterator[Head]:
        """Heads whose position is not the known one.

        For a reader that follows the log: a store looks again only where something may be new.
        Where a chain is damaged, its head is what comes before the damage.

        Raises:
            DamagedLog: behind all heads, the first damage that was met.
        """

    def claim(self, symbol_id: int, *, first_seq: int) -> Head:
        """Raise the epoch by one and fence off every earlier writer; durable when it returns.

        Args:
            symbol_id: the symbol; it appears with its first claim.
            first_seq: where a new chain begins; a chain that has begun keeps its own.
        """

    def claim_all(self, symbol_ids: Sequence[int], *, first_seq: int) -> list[Head]:
        """`claim` each of these different symbols; a store may make them durable together.

        If it raises, some may have been claimed; claiming them again is safe.
        """

    def commit(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Store each batch, or not, by itself; answers in the same order.

        Batches of several symbols may come in one call, each claimed before, and of one symbol
        up to `limits.together`, each of which goes on from the one before it. A store may make
        them durable together; each is atomic by itself. When one is refused, those of its symbol
        behind it are refused with it.

        Raises:
            ValueError: more batches of one symbol than that, or a symbol that was never claimed.
        """

    def scan(
        self, symbol_id: int, *, from_seq: int = 0, to_seq: int | None = None
    ) -> Iterator[Block]:
        """The chain in order, in bounded memory, as it stood at the call.

        Blocks may begin before `from_seq` and end after `to_seq` (inclusive; None: the end).
        The store checks its own framing only; `headrace.sot.verify` recomputes.

        Raises:
            DamagedLog: on reaching what cannot be read, after every good block before it.
        """

    def damages(self) -> list[DamagedLog]:
        """What is wrong with the store itself: all that a scan of the chains would not meet.

        Missing ends, broken headers, corrupt files beside the chains, parked records that cannot be
        read. Empty for a store that keeps its own tables in order.
        """

    def repairs(self) -> list[str]:
        """What this object has repaired on its way, one line each: torn tails that were cut."""

    def park(self, records: Iterable[Parked]) -> None:
        """Park these, durable when it returns."""

    def parked(self, symbol_id: int) -> Iterator[Parked]:
        """What is parked for the symbol, by unsigned sequence."""

    def unpark(self, records: Iterable[Parked]) -> None:
        """Remove these; what is not there is no error."""

    def verified(self, symbol_id: int) -> Position | None:
        """The last position up to which the chain was recomputed from content, None if never."""

    def mark_verified(self, symbol_id: int, position: Position) -> None:
        """Remember that everything before `position` was recomputed and found good."""

    def read_tiles(self, symbol_id: int, level: int, first: int, count: int) -> list[bytes | None]:
        """Hashes that `write_tile` has kept, None for each that is not there.

        They are derived from the chain (`headrace.sot.tree.tiles`), and may be lost at any time.
        """

    def write_tile(self, symbol_id: int, level: int, number: int, tile: bytes) -> None:
        """Keep a hash of 32 bytes; durable at some later time. Writing it again is harmless."""

    def store_id(self) -> str:
        """What names this log for good, wherever it is moved: 32 hexadecimal digits.

        It is made when it is asked for first.
        """

    def close(self) -> None:
        """Close files, connections and threads. Closing twice is no error."""
