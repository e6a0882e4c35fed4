"""Queries give the same of every kind of store, and name what is wrong with a table there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from headrace.lake import Lake, Store, look_into
from headrace.query.session import open_session
from headrace.unified.exceptions import TableDamaged
from headrace.unified.table import unified_table
from tests.support.queries import ask, filled, rows_of

NIGHT = datetime(2024, 3, 10, tzinfo=UTC)
PRODUCTS = ("BTC-USD", "DOGE-USD", "ETH-USD")


@pytest.fixture
def lake(store: Store) -> Lake:
    """Three products of four days each; a price of 40 digits is in the quarantine."""
    hours = [(n + 1, NIGHT + timedelta(hours=n), f"{n}.5", "2") for n in range(96)]
    rows = [*hours, (97, NIGHT, "1" * 40, "1")]
    filled(Lake(store), dict.fromkeys(PRODUCTS, rows))
    return look_into(store)


def test_all_that_has_a_name_is_read(lake: Lake) -> None:
    counted = "SELECT count(*) AS n, max({}) AS top FROM {} WHERE {} = 'ETH-USD'"
    with open_session(lake) as session:
        assert rows_of(session, counted.format("price", "trades", "symbol")) == [
            {"n": 96, "top": Decimal("95.5")}
        ]
        assert rows_of(session, counted.format("price", "trades_raw", "product")) == [
            {"n": 97, "top": "95.5"}
        ]
        assert rows_of(session, "SELECT symbol, trade_id FROM quarantine ORDER BY ALL") == [
            {"symbol": product, "trade_id": 97} for product in PRODUCTS
        ]
        candles = rows_of(
            session,
            "FROM candles('1 day', product := 'BTC-USD', since := '2024-03-11', "
            "until := '2024-03-13') ORDER BY start_ts",
        )
    assert [(row["open"], row["close"], row["count"]) for row in candles] == [
        (Decimal("24.5"), Decimal("47.5"), 24),
        (Decimal("48.5"), Decimal("71.5"), 24),
    ]


def test_the_files_of_other_products_are_not_read(lake: Lake) -> None:
    with open_session(lake) as session:
        rows_of(session, "FROM trades WHERE symbol = 'ETH-USD' AND date = '2024-03-11'")
        # And the end of one file, for the columns.
        assert sum("symbol=ETH-USD" not in key for key in session.files.keys_read) <= 1


def test_a_file_that_is_gone_and_a_damaged_log_are_named(lake: Lake, store: Store) -> None:
    table = unified_table(lake)
    file = table.snapshot().files(symbol="ETH-USD")[0]
    store.delete(f"{table.root}/{file.path}")
    with pytest.raises(TableDamaged, match=rf"{file.path}.*--rebuild"):
        ask(lake, "SELECT sum(price) FROM trades")
    newest = table.version()
    store.put(f"{table.root}/_delta_log/{newest:020d}.json", b'{"add":')
    with pytest.raises(TableDamaged, match="--rebuild"):
        ask(lake, "SELECT 1 FROM trades")
