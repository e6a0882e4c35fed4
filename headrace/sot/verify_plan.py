"""Which parts of chains are recomputed: whole chains, what is new, or a sample."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from headrace.sot.chain import Position, SentPosition, genesis
from headrace.sot.exceptions import DamagedLog
from headrace.sot.store import Head, SotStore


class ChainRange(msgspec.Struct, frozen=True):
    """From a position to a position; both were read from the store, and neither is taken as proven.

    The digest of `end` is empty if the store keeps nothing there. `first_seq` is where the chain
    begins.
    """

    symbol_id: int
    first_seq: str
    start: SentPosition
    end: SentPosition

    @property
    def count(self) -> int:
        """How many records."""
        return int(self.end.next_seq) - int(self.start.next_seq)


#: A long chain is cut where the store knows the digest, so that several processes share it. Each
#: cut is the proven end of one range and the start of the next: together they prove the whole.
_RANGE_RECORDS: Final = 200_000


class Mode(StrEnum):
    """How much is recomputed."""

    FULL = "full"  #: everything
    SINCE = "since"  #: what came after the last time that this symbol was found good
    SAMPLED = "sampled"  #: some blocks of each symbol, at random


def plan_symbol(store: SotStore, head: Head, mode: Mode) -> Iterator[ChainRange]:
    """The ranges of one symbol, in order, without gaps between them."""
    start = genesis(head.symbol_id, head.first_seq)
    if mode is Mode.SINCE:
        verified = store.verified(head.symbol_id)
        if verified is not None and verified.next_seq <= head.position.next_seq:
            start = verified
    while start.next_seq < head.position.next_seq:
        end = _cut(store, head, start.next_seq + _RANGE_RECORDS)
        yield ChainRange(
            head.symbol_id, str(head.first_seq), SentPosition.of(start), SentPosition.of(end)
        )
        start = end


def sample(head: Head, blocks: int) -> list[int]:
    """Sequences whose blocks are looked at: the last always, the others at random."""
    first, last = head.first_seq, head.position.next_seq - 1
    if last < first:
        return []
    rng = random.Random(f"0 {head.symbol_id}")  # the same each time
    return sorted({last, *(rng.randint(first, last) for _ in range(blocks - 1))})


def share_out(ranges: Iterable[ChainRange], count: int) -> list[list[ChainRange]]:
    """The ranges in about equal shares, the longest first."""
    shares: list[list[ChainRange]] = [[] for _ in range(count)]
    loads = [0] * count
    for chain_range in sorted(ranges, key=lambda each: -each.count):
        lightest = loads.index(min(loads))
        shares[lightest].append(chain_range)
        loads[lightest] += chain_range.count
    return shares


def _cut(store: SotStore, head: Head, seq: int) -> Position:
    """The position behind the block that holds `seq`; the chain's end if none is known."""
    if seq >= head.position.next_seq:
        return head.position
    try:
        block = next(iter(store.scan(head.symbol_id, from_seq=seq, to_seq=seq)), None)
    except DamagedLog:
        return head.position  # the long range will meet it, and name it
    after = block.after if block is not None else None
    if after is None or not seq < after.next_seq <= head.position.next_seq:
        return head.position
    return after
