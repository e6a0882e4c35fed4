from __future__ import annotations

from decimal import Decimal, localcontext

import duckdb
import pyarrow as pa
import pytest

from headrace.unified.schema import (
    COLUMN_DOCS,
    PARTITION_BY,
    PRICE_TYPE,
    QUANTITY_TYPE,
    QUARANTINE_DOCS,
    QUARANTINE_PARTITION_BY,
    QUARANTINE_SCHEMA,
    UNIFIED_SCHEMA,
)


@pytest.mark.parametrize(
    ("schema", "docs", "partitions"),
    [
        (UNIFIED_SCHEMA, COLUMN_DOCS, PARTITION_BY),
        (QUARANTINE_SCHEMA, QUARANTINE_DOCS, QUARANTINE_PARTITION_BY),
    ],
)
def test_each_column_is_described(
    schema: pa.Schema, docs: dict[str, str], partitions: tuple[str, ...]
) -> None:
    assert set(schema.names) == set(docs)
    assert tuple(schema.names[: len(partitions)]) == partitions


@pytest.mark.parametrize(
    ("price", "quantity"),
    [
        ("0.00000000012345", "1000000000000"),
        ("1234567890.12", "0.0000000001"),
        ("109000.01", "0.00000001"),
        ("99999999999999.99999999999999", "0.5"),
    ],
)
def test_values_of_exchanges_fit_and_their_products_are_exact(price: str, quantity: str) -> None:
    trades = pa.table(
        {
            "price": pa.array([price]).cast(PRICE_TYPE),
            "quantity": pa.array([quantity]).cast(QUANTITY_TYPE),
        }
    )
    assert trades["price"][0].as_py() == Decimal(price)
    database = duckdb.connect()
    database.register("trades", trades)
    found = database.sql("select sum(price * quantity) from trades").fetchall()
    with localcontext(prec=60):
        assert found == [(Decimal(price) * Decimal(quantity),)]
