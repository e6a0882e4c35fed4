"""Trades to put into a lake: a pure function of their ids, so that tests can say what is right."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pyarrow as pa

from headrace.trades import RAW_SCHEMA

FETCHED_AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SOURCE = "api.exchange.example"
#: 2024-11-03T08:30Z, in the night in which clocks in America go back.
EPOCH_US = 1_730_622_600_000_000


def trades(ids: Iterable[int]) -> pa.Table:
    """One trade per id, in the given order."""
    ids = list(ids)
    return pa.table(
        {
            "trade_id": pa.array(ids, pa.int64()),
            "time": pa.array([EPOCH_US + 137_001 * n for n in ids], pa.timestamp("us", tz="UTC")),
            "price": pa.array([f"{6_000 + n % 977}.{n % 100:02d}000000" for n in ids], pa.string()),
            "size": pa.array([f"0.{n * 7_919 % 10**8:08d}" for n in ids], pa.string()),
            "side": pa.array(["sell" if n % 3 else "buy" for n in ids], pa.string()),
        },
        schema=RAW_SCHEMA,
    )


def one_trade(
    *, trade_id: int = 1, price: str = "1.0", size: str = "1.0", side: str = "buy"
) -> pa.Table:
    """A table of a single trade with chosen values."""
    row = {"trade_id": [trade_id], "time": [FETCHED_AT], "price": [price], "size": [size]}
    return pa.table({**row, "side": [side]}, schema=RAW_SCHEMA)
