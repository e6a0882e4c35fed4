"""What becomes of batches and claims: the answer to each, and the entries that record them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.sot.embedded.entries import Entry, Kind, make
from headrace.sot.embedded.index import SymbolIndex
from headrace.sot.store import Answer, Batch, Head, Outcome


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
