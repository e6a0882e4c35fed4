"""Raw lakes of any size, made at once: what a transform and a query are measured on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import crc32

from headrace.trades import RAW_SCHEMA  # before pyarrow: it chooses Arrow's allocator

import numpy as np  # isort: skip
import pyarrow as pa  # isort: skip

BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
#: Trades of one product in a day, about.
DAILY_TRADES = 288_000
#: Parts of any product's raw layer, for tools that take a pattern of names.
PARTS = "raw/trades/exchange=coinbase/product=*/*.parquet"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SENT = pa.decimal128(18, 8)


def fill_lake(lake: Path, rows: int, products: Sequence[str]) -> None:
    """Raw parts with a price walk, sizes of 8 places, and runs of one time and price.

    Parts that are there stay, and what follows goes on from them.

    Args:
        lake: its folder.
        rows: trades of each product.
        products: their ids.
    """
    from headrace.lake import open_lake

    raw = open_lake(lake).raw("coinbase")
    for product in products:
        covered = raw.coverage(product)
        dice = np.random.default_rng(crc32(product.encode()))
        cents, time_us = 700_000, (BEGIN - _EPOCH) // timedelta(microseconds=1)
        for cell in raw.grid.cells(1, rows):
            # The whole cell, so that a lake that grows has the same trades as one made at once.
            count = cell.hi - cell.lo + 1
            moved = dice.random(count) > 0.6
            prices = np.maximum(100, cents + np.cumsum(moved * dice.integers(-50, 51, count)))
            times = time_us + np.cumsum(moved * dice.integers(1, 1_500_000, count))
            cents, time_us = int(prices[-1]), int(times[-1])
            sizes = dice.integers(0, 9 * 10**8, count)
            sold = dice.random(count) < 0.5
            hi = min(cell.hi, rows)
            if covered.contains(cell.lo, hi):
                continue
            table = pa.table(
                [
                    pa.array(np.arange(cell.lo, cell.hi + 1)),
                    pa.array(times).cast(pa.timestamp("us", tz="UTC")),
                    _as_sent(prices * 10**6),
                    _as_sent(sizes),
                    pa.array(np.where(sold, "sell", "buy")),
                ],
                schema=RAW_SCHEMA,
            ).slice(0, hi - cell.lo + 1)
            now = datetime.now(UTC)
            raw.write(product, cell.lo, hi, table, source="localhost", fetched_at=now, replace=True)


def _as_sent(units: np.ndarray) -> pa.StringArray:
    """Whole numbers of 10^-8 as the exchange writes them."""
    words = np.zeros((len(units), 2), np.int64)
    words[:, 0] = units
    decimals = pa.Array.from_buffers(_SENT, len(units), [None, pa.py_buffer(words)])
    return decimals.cast(pa.string())
