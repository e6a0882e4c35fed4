"""One symbol's chain, recomputed from its content: frames that are good, then why it ends early."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.sot.chain import Position, follow, genesis
from headrace.sot.encoding import FRAME_HEADER, LENGTH_BYTES
from headrace.sot.exceptions import DamagedLog
from headrace.sot.frames import RunIndex
from headrace.sot.record import HASH_XXH3_V1
from headrace.sot.store import Block, Head, SotStore


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """How far a chain is to be replayed.

    Attributes:
        symbol_id: whose chain.
        head: its end as it stood when the replay began; None if the store cannot say any more.
        damage: why it cannot.
        floor: a position that the chain must have passed, remembered outside the store.
    """

    symbol_id: int
    head: Head | None
    damage: DamagedLog | None = None
    saved_head: Position | None = None


def read_verified(store: SotStore, chain: ChainEnd) -> Iterator[tuple[bytes, Position]]:
    """Runs of frames from the chain's beginning to its end, each with the position behind it.

    A run is handed on only after its hashes, links and digests were recomputed and agree with what
    the store keeps beside it.

    Raises:
        DamagedLog: behind the last good run.
    """
    head, saved_head, symbol_id = chain.head, chain.saved_head, chain.symbol_id
    end = head.position.next_seq if head else None
    position = genesis(symbol_id, head.first_seq) if head else None
    where = store.location
    if end is None or position is None or position.next_seq < end:
        for block in store.scan(symbol_id, to_seq=None if end is None else end - 1):
            where = block.where
            if position is None:
                # The digest of the first block proves that this is where the chain begins.
                position = genesis(symbol_id, block.first_seq)
            try:
                run, after = _checked(block, position, end)
            except _Broken as broken:
                if broken.good[0]:
                    yield broken.good
                raise broken.damage from None
            if saved_head is not None and position.next_seq < saved_head.next_seq <= after.next_seq:
                _compare_at_saved_head(block, run, position, saved_head)
            position = after
            if run:
                yield run, position
            if position.next_seq == end:
                break
    if chain.damage is not None:
        raise chain.damage
    if head is not None and position != head.position:
        raise DamagedLog(
            where,
            "the chain does not lead to its head",
            symbol_id=symbol_id,
            seq=min(position.next_seq, head.position.next_seq) if position else None,
            last_seq=head.position.next_seq - 1,
        )
    if saved_head is not None and position is not None and position.next_seq < saved_head.next_seq:
        raise _gone(where, symbol_id, position.next_seq, saved_head)


def _checked(block: Block, position: Position, end: int | None) -> tuple[bytes, Position]:
    """The frames of a block that goes on from `position`, those before `end`.

    Raises:
        DamagedLog: nothing of it can be trusted.
        _Broken: its beginning can.
    """
    symbol_id, last_seq = block.symbol_id, block.first_seq + block.count - 1
    if block.first_seq != position.next_seq:
        raise DamagedLog(
            block.where,
            f"it begins with seq {block.first_seq}",
            symbol_id=symbol_id,
            seq=position.next_seq,
            last_seq=max(position.next_seq, block.first_seq - 1),
        )
    try:
        reached = verify_block(block, position, last_seq + 1)
    except CorruptBlock as corrupt:
        seq = corrupt.position.next_seq
        good, _ = _up_to(block.frames, symbol_id, position, seq)
        raise _Broken(
            _trusted(good, symbol_id, position),
            DamagedLog(
                block.where, corrupt.damage.reason, symbol_id=symbol_id, seq=seq, last_seq=last_seq
            ),
        ) from None
    if end is None or reached.next_seq <= end:
        return block.frames, reached
    return _up_to(block.frames, symbol_id, position, end)


class _Broken(Exception):
    """A block that is good up to some record; `good` are the frames before it."""

    def __init__(self, good: tuple[bytes, Position], damage: DamagedLog) -> None:
        super().__init__(str(damage))
        self.good = good
        self.damage = damage


def _trusted(run: bytes, symbol_id: int, position: Position) -> tuple[bytes, Position]:
    """As much of a broken block's beginning as its own hashes prove.

    A hash that is only carried proves nothing, and the block's digest cannot be confirmed any more.
    """
    offset = 0
    while offset < len(run):
        length, _, _, hash_version, *_ = FRAME_HEADER.unpack_from(run, offset)
        if hash_version != HASH_XXH3_V1:
            break
        offset += LENGTH_BYTES + length
    return run[:offset], follow(run[:offset], 0, symbol_id, position).position


def _up_to(run: bytes, symbol_id: int, position: Position, end: int) -> tuple[bytes, Position]:
    """The records before `end`, of a run that is good."""
    offset = 0
    for _ in range(end - position.next_seq):
        (length, *_) = FRAME_HEADER.unpack_from(run, offset)
        offset += LENGTH_BYTES + length
    return run[:offset], follow(run[:offset], 0, symbol_id, position).position


def _compare_at_saved_head(
    block: Block, run: bytes, position: Position, saved_head: Position
) -> None:
    _, reached = _up_to(run, block.symbol_id, position, saved_head.next_seq)
    if reached != saved_head:
        raise DamagedLog(
            block.where,
            f"the history up to seq {saved_head.next_seq - 1} is not the one that was "
            "acknowledged; it was rewritten somewhere before",
            symbol_id=block.symbol_id,
            seq=saved_head.next_seq - 1,
        )


def check_saved_head(store: SotStore, chain: ChainEnd) -> None:
    """Return if the chain has passed its saved head, by the digests that the store keeps.

    Raises:
        DamagedLog: it ends before the saved head, or has another history there.
    """
    head, saved_head = chain.head, chain.saved_head
    if head is None or saved_head is None:
        return
    if head.position.next_seq < saved_head.next_seq:
        raise _gone(store.location, chain.symbol_id, head.position.next_seq, saved_head)
    if head.position == saved_head or saved_head.next_seq == head.first_seq:
        return
    last_seq = saved_head.next_seq - 1
    position = None
    for block in store.scan(chain.symbol_id, from_seq=last_seq, to_seq=last_seq):
        if position is None or position.next_seq != block.first_seq:
            position = position_before(store, block, head.first_seq)
        if block.first_seq <= last_seq < block.first_seq + block.count:
            _compare_at_saved_head(block, block.frames, position, saved_head)
            return
        position = block.after or position


def position_before(store: SotStore, block: Block, first_seq: int) -> Position:
    """The position in front of a block, from what is stored with the one before it.

    Raises:
        DamagedLog: the store keeps none there.
    """
    if block.first_seq == first_seq:
        return genesis(block.symbol_id, first_seq)
    before = block.first_seq - 1
    for earlier in store.scan(block.symbol_id, from_seq=before, to_seq=before):
        if earlier.after is not None and earlier.after.next_seq == block.first_seq:
            return earlier.after
    raise DamagedLog(
        block.where,
        "the store keeps no digest before it",
        symbol_id=block.symbol_id,
        seq=block.first_seq,
    )


def _gone(where: str, symbol_id: int, next_seq: int, saved_head: Position) -> DamagedLog:
    return DamagedLog(
        where,
        "records that were acknowledged are gone, with the head that counted them",
        symbol_id=symbol_id,
        seq=next_seq,
        last_seq=saved_head.next_seq - 1,
    )


def find_below_saved_heads(
    store: SotStore, saved_heads: Mapping[int, Position]
) -> Iterator[DamagedLog]:
    """What is missing, or is not the history that was acknowledged.

    Only the block that holds a saved head is read: the digest behind it covers all before, and
    whether that digest is right is what verifying recomputes.
    """
    for symbol_id, saved_head in sorted(saved_heads.items()):
        try:
            head = store.head(symbol_id)
            if head is None:
                raise DamagedLog(
                    store.location, "the symbol was written here, and is gone", symbol_id=symbol_id
                )
            check_saved_head(store, ChainEnd(symbol_id, head, saved_head=saved_head))
        except DamagedLog as damage:
            yield damage


def verify_block_alone(block: Block, before: Position | None) -> DamagedLog | None:
    """A block by itself: everything but, without `before`, the digest."""
    start = before
    if start is None:
        start = Position(block.first_seq, _first_prev_hash(block), bytes(32))
    try:
        verify_block(block, start, block.first_seq + block.count, digest=before is not None)
    except CorruptBlock as error:
        return error.damage
    return None


class CorruptBlock(Exception):
    """A block that is good up to `position`, and what is wrong behind it."""

    def __init__(self, position: Position, damage: DamagedLog) -> None:
        super().__init__(damage.message)
        self.position = position
        self.damage = damage


def verify_block(
    block: Block,
    position: Position,
    end: int,
    *,
    digest: bool = True,
    digests: list[bytes] | None = None,
) -> Position:
    """The position behind a block, or behind the part of it that lies before `end`.

    Args:
        block: as the store has it.
        position: where to begin, in the block.
        end: the sequence behind the last record that is wanted.
        digest: compare with the digest that the store keeps for the block's end.
        digests: gets those of all its records, one after the other.

    Raises:
        CorruptBlock: a record is not what the chain says.
    """
    symbol_id, seq = block.symbol_id, position.next_seq
    last = block.first_seq + block.count - 1

    def corrupt(at: Position, reason: str) -> CorruptBlock:
        return CorruptBlock(
            at,
            DamagedLog(
                block.where, reason, symbol_id=symbol_id, seq=at.next_seq, last_seq=at.next_seq
            ),
        )

    if not block.first_seq <= seq <= last:
        raise corrupt(position, f"a block with seq {block.first_seq} to {last} is there")
    offset = 0
    if seq > block.first_seq:
        offset = _offset_of(block, seq)
    followed = follow(block.frames, offset, symbol_id, position, max_records=end - seq)
    if followed.error is not None:
        raise corrupt(followed.position, followed.error.message)
    whole = followed.offset == len(block.frames)
    if not whole and followed.position.next_seq < min(end, last + 1):
        raise corrupt(followed.position, "another symbol's record is there")
    if whole and followed.position.next_seq != last + 1:
        raise corrupt(followed.position, f"the block ends there, not with seq {last}")
    if whole and digest and block.after is not None and block.after != followed.position:
        raise CorruptBlock(
            position,
            DamagedLog(
                block.where,
                "the chain of digests does not lead to what the block says of itself",
                symbol_id=symbol_id,
                seq=seq,
                last_seq=last,
            ),
        )
    if digests is not None:
        digests.append(followed.digests)
    return followed.position


def _offset_of(block: Block, seq: int) -> int:
    index = RunIndex(block.first_seq, block.frames)
    return sum(len(index.frame(before)) for before in range(block.first_seq, seq))


def _first_prev_hash(block: Block) -> int:
    if len(block.frames) < FRAME_HEADER.size:
        return 0
    prev_hash: int = FRAME_HEADER.unpack_from(block.frames)[7]
    return prev_hash
