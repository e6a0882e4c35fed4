"""Which batches of one commit may be stored, in view of where their symbols stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.sot.store import Answer, Batch, Head, Outcome


def judge(batches: Sequence[Batch], head_of: Callable[[int], Head | None]) -> list[Outcome]:
    """The answer to each batch, provided that those which fit are stored together.

    A batch goes on from where the one of its symbol before it ends. Once one is refused, the rest
    of its symbol is: its writer was wrong about where the chain stands.

    Args:
        batches: in the order in which they were given.
        head_of: where a symbol stands before any of them; None if it was never claimed.

    Raises:
        ValueError: a symbol was never claimed.
    """
    standing: dict[int, Outcome] = {}
    outcomes: list[Outcome] = []
    for batch in batches:
        last = standing.get(batch.symbol_id)
        if last is None or last.answer is Answer.COMMITTED:
            head = last.head if last else head_of(batch.symbol_id)
            last = standing[batch.symbol_id] = _answer(batch, head)
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
