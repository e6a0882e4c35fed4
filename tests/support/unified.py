"""Lakes with raw trades, and what the unified table made of them has to hold."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.lake import Lake, RawLake
from headrace.lake.decimals import canonical_decimal
from headrace.trades import RAW_SCHEMA
from headrace.unified.commits import Change
from headrace.unified.report import ProductTransform
from headrace.unified.transformer import Transformer, with_change
from tests.lake_samples import FETCHED_AT, SOURCE

PRODUCT = "BTC-USD"


def put(raw: RawLake, lo: int, hi: int, rows: pa.Table, *, product: str = PRODUCT) -> None:
    """Store rows as all that the exchange has in [lo, hi], in place of what is there."""
    raw.write(product, lo, hi, rows, source=SOURCE, fetched_at=FETCHED_AT, replace=True)


def raw_rows(*rows: dict[str, Any]) -> pa.Table:
    """Raw trades from some of their values."""
    filled = [
        {"time": FETCHED_AT, "price": "1.5", "size": "2.5", "side": "sell", **row} for row in rows
    ]
    return pa.Table.from_pylist(filled, schema=RAW_SCHEMA)


def transform(
    transformer: Transformer, product: str = PRODUCT, *, compact: bool = False
) -> ProductTransform:
    """Take a product, commit, and compact if asked."""
    transformer.tables.make()
    prepared = transformer.take(product)
    receipt = prepared.receipt
    if prepared.change is not None:
        assert transformer.tables.commit([prepared.change], "transform") == []
        receipt = with_change(receipt, prepared.change)
    if compact and (change := transformer.compact(product).change) is not None:
        assert transformer.tables.commit([change], "compact") == []
        receipt = with_change(receipt, change)
    return receipt


def rebuild(transformer: Transformer, *products: str) -> None:
    """Make the table again."""
    fresh = not transformer.tables.readable()
    changes = [c for p in products if (c := transformer.rebuild(p, fresh=fresh).change)]
    commit_all(transformer, changes, fresh=fresh)


def commit_all(transformer: Transformer, changes: list[Change], *, fresh: bool) -> None:
    if fresh:
        transformer.tables.replace(changes, "rebuild")
    else:
        assert transformer.tables.commit(changes, "rebuild") == []


def table_rows(lake: Lake, product: str = PRODUCT) -> list[tuple[Any, ...]]:
    """What an analyst reads of a product: id, microseconds, price, quantity, side; by id."""
    transformer = Transformer(lake, "coinbase")
    snapshot = transformer.tables.trades.snapshot()
    rows = snapshot.dataset().to_table()
    return [
        (row["trade_id"], row["trade_ts"], row["price"], row["quantity"], row["side"])
        for row in rows.sort_by("trade_id").to_pylist()
        if row["symbol"] == product
    ]


def expected_rows(raw: RawLake, product: str = PRODUCT) -> list[tuple[Any, ...]]:
    """The same of the raw layer, by Python's decimals."""
    return [
        (
            row["trade_id"],
            row["time"],
            Decimal(canonical_decimal(row["price"])),
            Decimal(canonical_decimal(row["size"])),
            row["side"],
        )
        for row in raw.read(product).to_pylist()
    ]


def data_files(lake: Lake, table: str = "trades") -> list[Path]:
    """Every Parquet file below a table, whether it counts or not."""
    return sorted(Path(lake.location, "unified", table).glob("**/*.parquet"))
