"""What has to be recomputed: whole chains, what is new since the last time, or a sample."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from headrace.sot.exceptions import DamagedLog
from headrace.sot.position import Position, genesis
from headrace.sot.store import Head, SotStore
from headrace.sot.verifying.stretch import Stretch

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
