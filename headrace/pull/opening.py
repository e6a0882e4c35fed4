"""What is known of a product when a run begins: the lake, and the checkpoint where it agrees."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from headrace.coverage import IntervalSet
from headrace.lake import RawLake
from headrace.pull.checkpoints import Checkpoint
from headrace.pull.ledger import Ledger

log = logging.getLogger(__name__)

#: Takes what operators may want to hear of: a name and its facts.
Listener = Callable[[str, Mapping[str, object]], None]


def opened_ledger(lake: RawLake, product: str, before: Checkpoint | None, tell: Listener) -> Ledger:
    """The books as the lake has them; the checkpoint spares a count where it agrees with it.

    Raises:
        PartUnreadable, StoreError: the lake cannot be read.
    """
    covered = lake.coverage(product)
    if before is not None and before.coverage == covered and before.rows:
        return Ledger(covered, before.rows, IntervalSet(before.holes))
    if before is not None and (lost := before.coverage - covered):
        log.warning(
            "%s: the checkpoint claims ids that the lake does not hold; the lake wins: %s",
            product,
            lost.as_lists(),
        )
        tell("checkpoint-ahead", {"product": product, "missing": lost.as_lists()})
    # Not the ids from one look and their trades from a later one: others store meanwhile.
    stock = lake.stock(product)
    return Ledger(stock.covered, stock.rows, stock.holes)


def first_stored(
    lake: RawLake, product: str, before: Checkpoint | None, covered: IntervalSet
) -> int | None:
    """The product's first trade, None unless everything below it is answered for."""
    if before and before.first and covered.contains(1):
        return before.first
    return lake.proven_first(product)


def newest_seen(lake: RawLake, product: str, before: Checkpoint | None) -> int:
    """The newest trade that any earlier run has stored or seen; 0 if none has."""
    stored = lake.newest(product)
    return max(before.newest if before else 0, stored.trade_id if stored else 0)
