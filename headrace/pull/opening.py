"""What is known of a product when a run begins: the lake, and the checkpoint where it agrees."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of the ends of a product's history before the exchange is asked.

    Args:
        product: canonical product id.
        lake: where its trades are.
        first: its first trade, None unless everything below it is answered for.
        newest: the newest trade stored; 0 if none is.
        noted: the newest trade that an earlier run was shown, stored or not; 0 if none was.
    """

    product: str
    lake: RawLake
    first: int | None
    newest: int
    noted: int

    @property
    def newest_seen(self) -> int:
        """The newest trade that any earlier run has stored or seen; 0 if none has."""
        return max(self.newest, self.noted)


def known_before(
    lake: RawLake, product: str, before: Checkpoint | None, covered: IntervalSet
) -> Stored:
    """What the lake and the checkpoint tell of a history's ends.

    Raises:
        PartUnreadable, StoreError: the lake cannot be read.
    """
    noted_first = before.first if before and covered.contains(1) else 0
    newest = lake.newest(product)
    return Stored(
        product,
        lake,
        first=noted_first or lake.proven_first(product),
        newest=newest.trade_id if newest else 0,
        noted=before.newest if before else 0,
    )
