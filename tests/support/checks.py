"""A lake with whatever parts a test puts into it, sound or not, and its check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.checks.checker import Known, checked
from headrace.checks.report import Breach, Check, ProductChecks
from headrace.checks.request import CheckRequest
from headrace.lake import Grid, PartFooter, PartName, RawLake
from headrace.lake.encoding import encode_part
from headrace.lake.local import LocalStore
from headrace.lake.names import product_prefix
from headrace.lake.store import Store
from headrace.trades import RAW_SCHEMA

PRODUCT = "BTC-USD"
NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)

Row = tuple[int, datetime, str, str]


def rows(
    lo: int, hi: int, *, newest: int | None = None, every_s: float = 1.0, price: str = "100.00"
) -> list[Row]:
    """One trade per id, `every_s` apart, the one of id `newest` a second before now."""
    last = hi if newest is None else newest
    return [
        (at, NOW - timedelta(seconds=1 + (last - at) * every_s), price, "0.5")
        for at in range(lo, hi + 1)
    ]


class CheckedLake:
    """A lake of one product."""

    def __init__(self, place: Path | Store) -> None:
        self.store = LocalStore(place) if isinstance(place, Path) else place
        self.raw = RawLake(self.store, "coinbase", Grid(cell_pages=5))

    def put(self, lo: int, hi: int, trades: Sequence[Row], **footer: Any) -> str:
        """Store a part as it is given: nothing is checked. The key of its file is returned."""
        ids, times, prices, sizes = zip(*trades, strict=True) if trades else ((), (), (), ())
        table = pa.table(
            {
                "trade_id": pa.array(ids, pa.int64()),
                "time": pa.array(times, pa.timestamp("us", tz="UTC")),
                "price": pa.array(prices, pa.string()),
                "size": pa.array(sizes, pa.string()),
                "side": pa.array(["buy"] * len(ids), pa.string()),
            },
            schema=RAW_SCHEMA,
        )
        fields = {"digest": "0" * 32, "holes": 0, "long_holes": (), **footer}
        described = PartFooter(
            lo=lo, hi=hi, rows=len(ids), sources=("here",), fetched_at=NOW, **fields
        )
        key = product_prefix("coinbase", PRODUCT) + str(PartName(lo, hi))
        self.store.put(key, encode_part(table, described))
        return key

    def check(self, known: Known | None = None, **bounds: Any) -> ProductChecks:
        """What a check of the product finds."""
        request = CheckRequest.checked(lake="x", **bounds)
        return checked(self.raw, PRODUCT, request, known or Known(), now=NOW)

    def breaches(self, **bounds: Any) -> dict[Check, Breach]:
        """The breaches by check; the check itself must not fail."""
        found = self.check(**bounds)
        assert found.error == ""
        return {breach.check: breach for breach in found.breaches}


def changed(trades: list[Row], change: Callable[[Row], Row], *ids: int) -> list[Row]:
    """The trades with those of some ids changed."""
    return [change(each) if each[0] in ids else each for each in trades]


def priced(price: str) -> Callable[[Row], Row]:
    return lambda row: (row[0], row[1], price, row[3])


def sized(size: str) -> Callable[[Row], Row]:
    return lambda row: (row[0], row[1], row[2], size)


def timed(moment: datetime) -> Callable[[Row], Row]:
    return lambda row: (row[0], moment, row[2], row[3])
