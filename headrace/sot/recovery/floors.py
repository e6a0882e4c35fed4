"""Chains held against heads that were remembered outside the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.sot.exceptions import DamagedLog
from headrace.sot.position import Position
from headrace.sot.recovery.verified import ChainEnd, check_floor
from headrace.sot.store import SotStore


def below_floors(store: SotStore, floors: Mapping[int, Position]) -> Iterator[DamagedLog]:
    """What is missing, or is not the history that was acknowledged.

    Only the block that holds a floor is read: the digest behind it covers all before, and whether
    that digest is right is what verifying recomputes.
    """
    for symbol_id, floor in sorted(floors.items()):
        try:
            head = store.head(symbol_id)
            if head is None:
                raise DamagedLog(
                    store.location,
                    "the symbol was written here, and is gone",
                    symbol_id=symbol_id,
                )
            check_floor(store, ChainEnd(symbol_id, head, floor=floor))
        except DamagedLog as damage:
            yield damage
