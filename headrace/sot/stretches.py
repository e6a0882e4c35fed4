"""Stretches of chains: which have to be recomputed, and recomputing one.

A plan has whole chains, what is new since the last time, or a sample.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from headrace.sot.chain import Position, follow, genesis
from headrace.sot.exceptions import DamagedLog
from headrace.sot.frames import RunIndex
from headrace.sot.layout import FRAME_HEADER
from headrace.sot.store import Block, Head, SotStore


class Stretch(msgspec.Struct, frozen=True):
    """From a position to a position; both were read from the store, and neither is believed.

    Sequences are text: they go up to 2**64, which MessagePack and JSON do not carry everywhere.

    Attributes:
        start, end: `next_seq` of the two.
        start_hash, start_digest: what the chain has before it.
        end_hash, end_digest: what it has to have behind it; None if the store keeps nothing there.
    """

    symbol_id: int
    start: str
    start_hash: int
    start_digest: bytes
    end: str
    end_hash: int
    end_digest: bytes | None


class Verdict(msgspec.Struct):
    """What recomputing a stretch has shown.

    Attributes:
        records: how many were recomputed and found good, from its beginning.
        good_until: the sequence of the first record that is not proven good.
        damage: the first damage, as one line; None if there is none.
        last_seq: the last record that is concerned, if it is known.
    """

    symbol_id: int
    records: int
    good_until: str
    damage: str | None = None
    last_seq: str | None = None


def verify_stretch(store: SotStore, stretch: Stretch) -> Verdict:
    """Recompute every record of a stretch: framing, form, sequence, link, hash and digest."""
    position = Position(int(stretch.start), stretch.start_hash, stretch.start_digest)
    first, end = position.next_seq, int(stretch.end)
    symbol_id = stretch.symbol_id

    def verdict(damage: DamagedLog | None = None) -> Verdict:
        return Verdict(
            symbol_id,
            position.next_seq - first,
            str(position.next_seq),
            damage.message if damage else None,
            str(damage.last_seq) if damage and damage.last_seq is not None else None,
        )

    if first == end:
        return verdict()
    try:
        for block in store.scan(symbol_id, from_seq=first, to_seq=end - 1):
            position = _verify_block(block, position, end)
            if position.next_seq >= end:
                break
    except _CorruptBlock as error:
        position = error.position
        return verdict(error.damage)
    except DamagedLog as error:
        if error.seq is not None and error.seq >= end:
            return verdict()
        return verdict(error)
    return verdict(_end_damage(store, stretch, position))


def verify_block_alone(block: Block, before: Position | None) -> DamagedLog | None:
    """A block by itself: everything but, without `before`, the digest."""
    start = before
    if start is None:
        start = Position(block.first_seq, _first_prev_hash(block), bytes(32))
    try:
        _verify_block(block, start, block.first_seq + block.count, digest=before is not None)
    except _CorruptBlock as error:
        return error.damage
    return None


class _CorruptBlock(Exception):
    def __init__(self, position: Position, damage: DamagedLog) -> None:
        super().__init__(damage.message)
        self.position = position
        self.damage = damage


def _verify_block(block: Block, position: Position, end: int, *, digest: bool = True) -> Position:
    """The position behind a block, or behind the part of it that lies before `end`."""
    symbol_id, seq = block.symbol_id, position.next_seq
    last = block.first_seq + block.count - 1

    def corrupt(at: Position, reason: str) -> _CorruptBlock:
        return _CorruptBlock(
            at,
            DamagedLog(
                block.where, reason, symbol_id=symbol_id, seq=at.next_seq, last_seq=at.next_seq
            ),
        )

    if not block.first_seq <= seq <= last:
        raise corrupt(position, f"a block with seq {block.first_seq} to {last} stands there")
    offset = 0
    if seq > block.first_seq:
        offset = _offset_of(block, seq)
    followed = follow(block.frames, offset, symbol_id, position, max_records=end - seq)
    if followed.error is not None:
        raise corrupt(followed.position, followed.error.message)
    whole = followed.offset == len(block.frames)
    if not whole and followed.position.next_seq < min(end, last + 1):
        raise corrupt(followed.position, "another symbol's record stands there")
    if whole and followed.position.next_seq != last + 1:
        raise corrupt(followed.position, f"the block ends there, not with seq {last}")
    if whole and digest and block.after is not None and block.after != followed.position:
        raise _CorruptBlock(
            position,
            DamagedLog(
                block.where,
                "the chain of digests does not lead to what the block says of itself",
                symbol_id=symbol_id,
                seq=seq,
                last_seq=last,
            ),
        )
    return followed.position


def _offset_of(block: Block, seq: int) -> int:
    index = RunIndex(block.first_seq, block.frames)
    return sum(len(index.frame(before)) for before in range(block.first_seq, seq))


def _first_prev_hash(block: Block) -> int:
    if len(block.frames) < FRAME_HEADER.size:
        return 0
    prev_hash: int = FRAME_HEADER.unpack_from(block.frames)[7]
    return prev_hash


def _end_damage(store: SotStore, stretch: Stretch, position: Position) -> DamagedLog | None:
    end = int(stretch.end)
    if position.next_seq < end:
        return DamagedLog(
            store.location,
            "the records are not there",
            symbol_id=stretch.symbol_id,
            seq=position.next_seq,
            last_seq=end - 1,
        )
    if stretch.end_digest is None:
        return None
    if position != Position(end, stretch.end_hash, stretch.end_digest):
        return DamagedLog(
            store.location,
            "the chain does not lead to the digest that the store has for its end",
            symbol_id=stretch.symbol_id,
            seq=end - 1,
        )
    return None


#: A long chain is cut where the store knows the digest, so that several processes share it. Each
#: cut is the proven end of one stretch and the start of the next: together they prove the whole.
_STRETCH_RECORDS: Final = 200_000


class Mode(StrEnum):
    """How much is recomputed."""

    FULL = "full"  #: everything
    SINCE = "since"  #: what came after the last time that this symbol was found good
    SAMPLED = "sampled"  #: some blocks of each symbol, at random


def plan_symbol(store: SotStore, head: Head, mode: Mode) -> Iterator[Stretch]:
    """The stretches of one symbol, in order, without gaps between them."""
    start = genesis(head.symbol_id, head.first_seq)
    if mode is Mode.SINCE:
        verified = store.verified(head.symbol_id)
        if verified is not None and verified.next_seq <= head.position.next_seq:
            start = verified
    while start.next_seq < head.position.next_seq:
        end = _cut(store, head, start.next_seq + _STRETCH_RECORDS)
        yield _stretch(head.symbol_id, start, end)
        start = end


def sample(head: Head, blocks: int, seed: int) -> list[int]:
    """Sequences whose blocks are looked at: the last always, the others at random."""
    first, last = head.first_seq, head.position.next_seq - 1
    if last < first:
        return []
    rng = random.Random(f"{seed} {head.symbol_id}")
    return sorted({last, *(rng.randint(first, last) for _ in range(blocks - 1))})


def deal(stretches: Iterable[Stretch], hands: int) -> list[list[Stretch]]:
    """The stretches in about equal shares, the longest first."""
    dealt: list[list[Stretch]] = [[] for _ in range(hands)]
    loads = [0] * hands
    for stretch in sorted(stretches, key=lambda s: int(s.start) - int(s.end)):
        lightest = loads.index(min(loads))
        dealt[lightest].append(stretch)
        loads[lightest] += int(stretch.end) - int(stretch.start)
    return dealt


def _cut(store: SotStore, head: Head, seq: int) -> Position:
    """The position behind the block that holds `seq`; the chain's end if none is known."""
    if seq >= head.position.next_seq:
        return head.position
    try:
        block = next(iter(store.scan(head.symbol_id, from_seq=seq, to_seq=seq)), None)
    except DamagedLog:
        return head.position  # the long stretch will meet it, and name it
    after = block.after if block is not None else None
    if after is None or not seq < after.next_seq <= head.position.next_seq:
        return head.position
    return after


def _stretch(symbol_id: int, start: Position, end: Position) -> Stretch:
    return Stretch(
        symbol_id,
        str(start.next_seq),
        start.hash,
        start.digest,
        str(end.next_seq),
        end.hash,
        end.digest,
    )
