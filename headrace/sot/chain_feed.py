"""One chain of a log that grows, read block by block, and how far its records were handed on."""

from __future__ import annotations

from collections import deque
from typing import Final

from headrace.sot.chain import Position, follow, genesis
from headrace.sot.cursor import Reached
from headrace.sot.encoding import FRAME_HEADER, FRAME_ORDER, FRAME_ROUTE, LENGTH_BYTES
from headrace.sot.exceptions import DamagedLog
from headrace.sot.store import Block, Head, SotStore

#: Order, symbol, sequence, frame; as `headrace.sot.recover` orders them.
Item = tuple[int, int, int, bytes]
#: What they are ordered by.
Key = tuple[int, int, int]

_BEHIND_ALL: Final = 2**64


class Feed:
    """A chain, read up to where it was last seen to end.

    Args:
        head: of the symbol.
        reached: from where to go on; None for the chain's beginning.

    Attributes:
        end: the sequence behind the last record that is known to be there.
        items: read, and not handed on, in order.
        damage: what lies at `end`, if it is damage: nothing behind it may be handed on.
    """

    def __init__(self, head: Head, reached: Reached | None) -> None:
        self.symbol_id = head.symbol_id
        self.items: list[Item] = []
        self.damage: DamagedLog | None = None
        self._begun = reached is not None
        start = reached.position if reached else genesis(head.symbol_id, head.first_seq)
        self.end = start.next_seq
        self._order = self._given_order = int(reached.order) if reached else 0
        #: Behind all that was read; behind what was handed on, as far as it is computed.
        self._read = self._given = start
        self._handed_to = start.next_seq
        #: What was read and not wholly handed on: a block, and the position behind it.
        self._loaded: deque[tuple[Block, Position]] = deque()
        self._seen: deque[tuple[int, float]] = deque()

    @property
    def more(self) -> bool:
        """Whether there is something to read."""
        return self._read.next_seq < self.end

    @property
    def unread(self) -> bool:
        """Whether its next record is there and has to be read before any other is handed on."""
        return self.more and not self.items

    @property
    def bound(self) -> Key | None:
        """What lies behind this key has to wait for this chain; None if nothing has to."""
        if self.more:
            return self.items[-1][:3] if self.items else (-1, -1, -1)
        return (self._order, self.symbol_id, _BEHIND_ALL) if self.damage else None

    def extend(self, head: Head, now_s: float) -> None:
        """The chain goes on up to `head`, as of now."""
        if head.position.next_seq > self.end and self.damage is None:
            self.end = head.position.next_seq
            self._seen.append((self.end, now_s))

    def seen_s(self, seq: int) -> float:
        """When a record that was read became known to be there."""
        while len(self._seen) > 1 and self._seen[0][0] <= self._handed_to:
            self._seen.popleft()
        return next(at for end, at in self._seen if end > seq)

    def load(self, store: SotStore) -> None:
        """Read the next block; where that cannot be had, the chain ends before it, as damaged."""
        try:
            self._load(store)
        except DamagedLog as damage:
            self.damage = damage
            self.end = self._read.next_seq

    def _load(self, store: SotStore) -> None:
        first = self._read.next_seq
        block = next(iter(store.scan(self.symbol_id, from_seq=first, to_seq=first)), None)
        if block is None or not block.first_seq <= first < block.first_seq + block.count:
            where = block.where if block else store.location
            raise self._damaged(where, "the record is not there", first)
        if (
            block.first_seq == first
            and FRAME_HEADER.unpack_from(block.frames)[7] != self._read.hash
        ):
            raise self._damaged(block.where, "it does not link to the record before it", first)
        last = min(block.first_seq + block.count, self.end) - 1
        run, offset = block.frames, 0
        symbol_id, order = self.symbol_id, self._order
        items: list[Item] = []
        for seq in range(block.first_seq, last + 1):
            length, symbol, found, input_seq = FRAME_ORDER.unpack_from(run, offset)
            stop = offset + LENGTH_BYTES + length
            if symbol != symbol_id or found != seq or stop > len(run):
                raise self._damaged(block.where, "another record is there", seq)
            if seq >= first:
                if input_seq > order:
                    order = input_seq
                items.append((order, symbol_id, seq, run[offset:stop]))
            offset = stop
        behind = block.after
        if behind is None or behind.next_seq != last + 1:
            behind = self._followed(self._read, block, last + 1)
        self.items += items
        self._order, self._read = order, behind
        self._loaded.append((block, behind))

    def hand_on(self, item: Item) -> None:
        """A record of `items` was handed on: `reached` is behind it from now on."""
        self._begun = True
        self._given_order, self._handed_to = item[0], item[2] + 1
        while self._loaded and self._loaded[0][1].next_seq <= self._handed_to:
            self._given = self._loaded.popleft()[1]

    def reached(self) -> Reached | None:
        """How far records were handed on; None if none ever was."""
        if not self._begun:
            return None
        if self._given.next_seq < self._handed_to:
            self._given = self._followed(self._given, self._loaded[0][0], self._handed_to)
        kept = Reached.of(self._given)
        return kept.model_copy(update={"order": str(self._given_order)})

    def _followed(self, start: Position, block: Block, next_seq: int) -> Position:
        """The position at a record of a block, recomputed from one that lies in the block too."""
        offset = 0
        for _ in range(start.next_seq - block.first_seq):
            offset += LENGTH_BYTES + FRAME_ROUTE.unpack_from(block.frames, offset)[0]
        wanted = next_seq - start.next_seq
        followed = follow(block.frames, offset, self.symbol_id, start, max_records=wanted)
        if followed.position.next_seq != next_seq:
            reason = followed.error.message if followed.error else "another record is there"
            raise self._damaged(block.where, reason, followed.position.next_seq)
        return followed.position

    def _damaged(self, where: str, reason: str, seq: int) -> DamagedLog:
        return DamagedLog(where, reason, symbol_id=self.symbol_id, seq=seq)
