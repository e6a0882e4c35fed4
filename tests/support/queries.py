"""Lakes to be queried, and queries that give plain rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from headrace.lake import Lake, look_into, open_lake
from headrace.lake.opening import make_store
from headrace.query.session import Session, open_session
from headrace.unified.transformer import Transformer
from tests.support.unified import put, raw_rows, transform

Trade = tuple[int, datetime, str, str]


def unified_lake(folder: Path, products: dict[str, Iterable[Trade]]) -> Lake:
    """A lake with trades (id, time, price, size) in both layers."""
    filled(open_lake(folder), products)
    return look_into(make_store(str(folder)))


def filled(lake: Lake, products: dict[str, Iterable[Trade]]) -> None:
    """Put trades into both layers of a lake."""
    raw = lake.raw("coinbase")
    transformer = Transformer(lake, "coinbase")
    for product, trades in products.items():
        rows = raw_rows(
            *({"trade_id": n, "time": t, "price": p, "size": s} for n, t, p, s in trades)
        )
        put(raw, 1, 128_000, rows, product=product)
        transform(transformer, product)


def rows_of(session: Session, sql: str) -> list[dict[str, Any]]:
    """What a query gives."""
    with session.stream(sql) as reader:
        return [row for batch in reader for row in batch.to_pylist()]


def ask(lake: Lake, sql: str) -> list[dict[str, Any]]:
    """The same in a session of its own."""
    with open_session(lake) as session:
        return rows_of(session, sql)
