"""The unified table over every kind of store: taken once, committed by one, rebuilt at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.unified import (
    PRODUCT,
    expected_rows,
    put,
    raw_rows,
    rebuild,
    table_rows,
    transform,
)

from headrace.lake import Lake, Store
from headrace.unified import commits
from headrace.unified.compaction import vacuum
from headrace.unified.exceptions import TableDamaged
from headrace.unified.transformer import Transformer
from tests.lake_samples import trades


@pytest.fixture
def lake(store: Store) -> Lake:
    return Lake(store)


@pytest.fixture
def transformer(lake: Lake) -> Transformer:
    transformer = Transformer(lake, "coinbase")
    transformer.tables.make()
    return transformer


def fill(transformer: Transformer, *thousands: int) -> None:
    for n in thousands:
        lo = (n - 1) * 1_000 + 1
        put(transformer.raw, lo, lo + 999, trades(range(lo, lo + 1_000)))


def test_taken_compacted_rebuilt_vacuumed(transformer: Transformer, lake: Lake) -> None:
    for n in (1, 3, 2):
        fill(transformer, n)
        transform(transformer)
    put(transformer.raw, 3_001, 4_000, raw_rows({"trade_id": 3_001, "price": "1" * 40}))
    put(transformer.raw, 1, 1_000, trades(range(1, 800)))
    assert transform(transformer).quarantined == 1
    rows = table_rows(lake)
    assert rows == [row for row in expected_rows(transformer.raw) if row[0] != 3_001]
    merged = transformer.compact(PRODUCT, all_months=True).change
    assert merged is not None
    assert transformer.tables.commit([merged], "compact") == []
    assert table_rows(lake) == rows
    rebuild(transformer, PRODUCT)
    assert table_rows(lake) == rows
    assert len(transformer.tables.trades.snapshot().files()) == 1
    assert vacuum(transformer.tables, grace_h=0) > 3
    assert table_rows(lake) == rows
    assert transformer.tables.quarantine.snapshot().files()[0].rows == 1


def test_of_two_that_commit_at_the_same_time_one_starts_over(
    transformer: Transformer, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked at the table's state before either commits."""
    other = Transformer(lake, "coinbase")
    fill(transformer, 1)
    changes = [each.take(PRODUCT).change for each in (transformer, other)]
    meeting = threading.Barrier(2, timeout=60)
    committed = commits._committed
    met = threading.local()

    def together(*arguments: object) -> bool:
        if not getattr(met, "done", False):
            met.done = True
            meeting.wait()
        return committed(*arguments)

    monkeypatch.setattr(commits, "_committed", together)
    with ThreadPoolExecutor(2) as pool:
        lates = list(
            pool.map(
                lambda pair: pair[0].tables.commit([pair[1]], "transform"),
                zip((transformer, other), changes, strict=True),
            )
        )
    assert sorted(map(len, lates)) == [0, 1]
    assert table_rows(lake) == expected_rows(transformer.raw)
    assert transform(other).new_rows == 0


def test_many_writers_of_one_product_and_of_others(transformer: Transformer, lake: Lake) -> None:
    """Four at once, each with its products and all with one more: every row once."""
    fill(transformer, 1, 2, 3)
    for n in range(4):
        put(transformer.raw, 1, 1_000, trades(range(1, 1_001)), product=f"P{n}-USD")

    def work(n: int) -> None:
        mine = Transformer(lake, "coinbase")
        for product in (f"P{n}-USD", PRODUCT):
            change = mine.take(product).change
            while change is not None and mine.tables.commit([change], "transform"):
                change = mine.take(product).change

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    for product in (PRODUCT, *(f"P{n}-USD" for n in range(4))):
        assert table_rows(lake, product) == expected_rows(transformer.raw, product)


def test_a_missing_file_and_a_damaged_log_are_named_and_rebuilt(
    transformer: Transformer, lake: Lake
) -> None:
    fill(transformer, 1, 2)
    transform(transformer)
    table = transformer.tables.trades
    (file,) = table.snapshot().files()
    lake.store.delete(f"{table.root}/{file.path}")
    put(transformer.raw, 1, 1_000, trades(range(1, 800)))
    with pytest.raises(TableDamaged, match=r"is missing.*--rebuild"):
        transformer.take(PRODUCT)
    lake.store.put(f"{table.root}/_delta_log/{1:020d}.json", b'{"add":')
    with pytest.raises(TableDamaged, match="--rebuild"):
        transformer.take(PRODUCT)
    rebuild(transformer, PRODUCT)
    assert table_rows(lake) == expected_rows(transformer.raw)
