"""What is new is taken once, what changed again, and what does not fit is set aside."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from lake_samples import trades
from support.unified import (
    PRODUCT,
    data_files,
    expected_rows,
    put,
    raw_rows,
    table_rows,
    transform,
)

from headrace.coverage import IntervalSet
from headrace.lake import Lake, RawLake, open_lake
from headrace.lake.exceptions import ObjectMissing
from headrace.lake.parts import Part
from headrace.stopping import StopEvent
from headrace.unified import output, raw_changes
from headrace.unified.contents import content_of
from headrace.unified.exceptions import RowsDiffer
from headrace.unified.rows import Unified
from headrace.unified.taken_ids import Taken
from headrace.unified.transformer import Transformer


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


@pytest.fixture
def transformer(lake: Lake) -> Transformer:
    return Transformer(lake, "coinbase")


def taken(transformer: Transformer, product: str = PRODUCT) -> IntervalSet:
    snapshot = transformer.tables.trades.snapshot()
    return Taken.of(snapshot.transactions, "coinbase", product).ranges


def test_all_is_taken_once_and_the_second_time_nothing(
    transformer: Transformer, lake: Lake
) -> None:
    put(transformer.raw, 1, 3_000, trades(range(1, 3_001)))
    put(transformer.raw, 128_001, 129_000, trades(range(128_500, 129_001)))
    receipt = transform(transformer)
    assert (receipt.new_rows, receipt.quarantined) == (3_501, 0)
    assert table_rows(lake) == expected_rows(transformer.raw)
    assert taken(transformer) == IntervalSet.of((1, 3_000), (128_001, 129_000))
    before = transformer.tables.trades.snapshot().files()
    assert transform(transformer).new_rows == 0
    assert transformer.tables.trades.snapshot().files() == before


def test_gaps_that_fill_join_the_ranges(transformer: Transformer, lake: Lake) -> None:
    for lo in (5_001, 1, 2_001):
        put(transformer.raw, lo, lo + 999, trades(range(lo, lo + 1_000)))
        transform(transformer)
    assert taken(transformer) == IntervalSet.of((1, 1_000), (2_001, 3_000), (5_001, 6_000))
    put(transformer.raw, 1_001, 2_000, trades(range(1_001, 2_001)))
    put(transformer.raw, 3_001, 5_000, trades([]))
    assert transform(transformer).new_rows == 1_000
    assert taken(transformer) == IntervalSet.of((1, 6_000))
    assert table_rows(lake) == expected_rows(transformer.raw)


def test_a_range_without_trades_is_taken_without_a_file(transformer: Transformer) -> None:
    put(transformer.raw, 1, 1_000_000, trades([]))
    assert transform(transformer).new_rows == 0
    assert taken(transformer) == IntervalSet.of((1, 1_000_000))
    assert transformer.tables.trades.snapshot().files() == []


def test_rows_that_changed_take_the_place_of_the_old_ones(
    transformer: Transformer, lake: Lake
) -> None:
    put(transformer.raw, 1, 1_000, trades(range(1, 1_001)))
    put(transformer.raw, 1_001, 2_000, trades(range(1_001, 2_001)))
    transform(transformer)
    changed = raw_rows(*({"trade_id": n, "price": "7"} for n in range(1_001, 1_901)))
    put(transformer.raw, 1_001, 2_000, changed)
    receipt = transform(transformer)
    assert (receipt.new_rows, receipt.replaced_files) == (900, 1)
    assert table_rows(lake) == expected_rows(transformer.raw)
    assert len(table_rows(lake)) == 1_900


def test_a_part_that_grew_is_taken_from_where_it_was(transformer: Transformer, lake: Lake) -> None:
    put(transformer.raw, 1, 58, trades(range(1, 59)))
    transform(transformer)
    put(transformer.raw, 1, 700, trades(range(1, 701)))
    receipt = transform(transformer)
    assert (receipt.new_rows, receipt.replaced_files) == (642, 0)
    assert table_rows(lake) == expected_rows(transformer.raw)


def test_merged_parts_are_no_change(transformer: Transformer, lake: Lake) -> None:
    for lo in range(1, 128_001, 16_000):
        put(transformer.raw, lo, lo + 15_999, trades(range(lo, lo + 16_000, 7)))
    transform(transformer)
    assert transformer.raw.merge_due(PRODUCT)
    assert len(transformer.raw.parts(PRODUCT).parts) == 1
    assert transform(transformer).new_rows == 0
    assert table_rows(lake) == expected_rows(transformer.raw)


def test_rows_of_parts_that_are_gone_stay(transformer: Transformer, lake: Lake) -> None:
    put(transformer.raw, 1, 1_000, trades(range(1, 1_001)))
    transform(transformer)
    before = table_rows(lake)
    (part,) = transformer.raw.parts(PRODUCT).parts
    transformer.raw.store.delete(part.key)
    assert transform(transformer).new_rows == 0
    assert table_rows(lake) == before


def test_two_products_with_the_same_ids_stay_apart(transformer: Transformer, lake: Lake) -> None:
    put(transformer.raw, 1, 1_000, trades(range(1, 1_001)))
    put(transformer.raw, 1, 1_000, trades(range(1, 1_001, 2)), product="ETH-USD")
    for product in (PRODUCT, "ETH-USD"):
        transform(transformer, product)
    for product in (PRODUCT, "ETH-USD"):
        assert table_rows(lake, product) == expected_rows(transformer.raw, product)


WHEN = datetime(2024, 1, 1, tzinfo=UTC)
FITS = {
    "zero": {"price": "0"},
    "negative": {"size": "-0.5"},
    "exponent": {"price": "1E-8", "size": "1e+10"},
    "padded to 40 places": {"price": "0.0000000100000000000000000000000000000000"},
    "all digits": {"price": "99999999999999.99999999999999", "size": "1" * 18 + "." + "1" * 10},
    "signed": {"price": "+1.50", "size": "-0.0"},
    "bare point": {"price": ".5", "size": "5."},
    "in 1970": {"time": datetime(1970, 1, 1, tzinfo=UTC)},
    "before 1970": {"time": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)},
    "year 1": {"time": datetime(1, 1, 1, tzinfo=UTC)},
    "year 9999": {"time": datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)},
    "upper case": {"side": "SELL"},
    "big id": {"trade_id": (1 << 53) + 1},
}
MISFITS = {
    "18 places": ({"size": "0.000000000000000001"}, "size: 18 places after the point; 10 fit"),
    "15 places": ({"price": "0.000000000000001"}, "price: 15 places after the point; 14 fit"),
    "40 digits": ({"price": "1" * 40}, "price: 40 digits before the point; 14 fit"),
    "21 digits": ({"size": "123456789012345678901.5"}, "size: 21 digits before the point; 18 fit"),
    "large exponent": ({"size": "1e+300"}, "size: 301 digits before the point; 18 fit"),
    "small exponent": ({"price": "1e-300"}, "price: 300 places after the point; 14 fit"),
}


@pytest.mark.parametrize("values", FITS.values(), ids=FITS)
def test_a_value_that_fits_is_exact(transformer: Transformer, lake: Lake, values: dict) -> None:
    row = {"trade_id": 5, "time": WHEN, **values}
    lo = row["trade_id"] // 1_000 * 1_000 + 1
    put(transformer.raw, lo, lo + 999, raw_rows(row))
    assert transform(transformer).quarantined == 0
    assert table_rows(lake) == expected_rows(transformer.raw)
    (stored,) = transformer.tables.trades.snapshot().dataset().to_table().to_pylist()
    assert stored["date"] == row["time"].date()
    assert stored["month"] == row["time"].date().isoformat()[:7]
    assert stored["taker_side"] == "buy"


@pytest.mark.parametrize(("values", "reason"), MISFITS.values(), ids=MISFITS)
def test_a_value_that_does_not_fit_is_set_aside_with_its_reason(
    transformer: Transformer, lake: Lake, values: dict, reason: str
) -> None:
    rows = raw_rows({"trade_id": 1}, {"trade_id": 2, **values}, {"trade_id": 3})
    put(transformer.raw, 1, 1_000, rows)
    receipt = transform(transformer)
    assert (receipt.new_rows, receipt.quarantined) == (3, 1)
    assert [row[0] for row in table_rows(lake)] == [1, 3]
    tables = transformer.tables
    (aside,) = tables.quarantine.snapshot().dataset().to_table().to_pylist()
    raw = rows.to_pylist()[1]
    assert {name: aside[name] for name in raw} == raw
    assert (aside["exchange"], aside["symbol"], aside["reason"]) == ("coinbase", PRODUCT, reason)
    found = content_of(
        tables.trades.snapshot(), tables.quarantine.snapshot(), "coinbase", PRODUCT, [(1, 1_000)]
    )
    (part,) = transformer.raw.parts(PRODUCT).parts
    footer = transformer.raw.footer(part)
    assert found == (footer.rows, footer.content)


def test_a_misfit_that_was_corrected_leaves_the_quarantine(
    transformer: Transformer, lake: Lake
) -> None:
    put(transformer.raw, 1, 1_000, raw_rows({"trade_id": 1}, {"trade_id": 2, "price": "1" * 40}))
    put(transformer.raw, 1_001, 2_000, raw_rows({"trade_id": 1_001, "price": "1" * 40}))
    transform(transformer)
    put(transformer.raw, 1, 1_000, raw_rows({"trade_id": 1}, {"trade_id": 2, "price": "11"}))
    transform(transformer)
    assert table_rows(lake) == [row for row in expected_rows(transformer.raw) if row[0] < 1_001]
    aside = transformer.tables.quarantine.snapshot().dataset().to_table()
    assert aside["trade_id"].to_pylist() == [1_001]


def test_equal_trades_with_ids_of_their_own_stay_two(transformer: Transformer, lake: Lake) -> None:
    put(transformer.raw, 1, 1_000, raw_rows({"trade_id": 1}, {"trade_id": 2}))
    transform(transformer)
    assert [row[0] for row in table_rows(lake)] == [1, 2]


def test_a_side_that_is_neither_has_no_taker(transformer: Transformer) -> None:
    put(transformer.raw, 1, 1_000, raw_rows({"trade_id": 1, "side": "cross"}, {"trade_id": 2}))
    transform(transformer)
    stored = transformer.tables.trades.snapshot().dataset().to_table().sort_by("trade_id")
    assert stored["taker_side"].to_pylist() == [None, "buy"]
    assert stored["side"].to_pylist() == ["cross", "sell"]


def test_a_column_that_is_all_null_in_one_file_has_its_type(
    transformer: Transformer, lake: Lake
) -> None:
    for side, product in (("cross", "A-USD"), ("sell", "B-USD")):
        put(transformer.raw, 1, 1_000, raw_rows({"trade_id": 1, "side": side}), product=product)
        transform(transformer, product)
    files = [str(path) for path in data_files(lake)]
    assert {pq.read_schema(file).field("taker_side").type for file in files} == {pa.string()}
    for names in (files, files[::-1]):
        takers = ds.dataset(names).to_table()["taker_side"].to_pylist()
        assert sorted(takers, key=str) == [None, "buy"]


def test_each_row_is_in_the_partition_of_its_own_time(transformer: Transformer, lake: Lake) -> None:
    times = [
        datetime(2024, 1, 1, 0, 0, 0, 20_000, tzinfo=UTC),
        datetime(2023, 12, 31, 23, 59, 59, 980_000, tzinfo=UTC),
        *(datetime(2024, 1, 1, tzinfo=UTC) for _ in range(36)),
        datetime(2023, 12, 31, tzinfo=UTC),
    ]
    rows = raw_rows(*({"trade_id": 1 + at, "time": when} for at, when in enumerate(times)))
    put(transformer.raw, 1, 1_000, rows)
    transform(transformer)
    files = transformer.tables.trades.snapshot().files()
    assert [(file.month, file.rows) for file in files] == [("2023-12", 2), ("2024-01", 37)]
    assert [row[:2] for row in table_rows(lake)] == list(enumerate(times, start=1))
    one_day = transformer.tables.trades.snapshot().dataset().to_table(columns=["trade_id", "date"])
    assert {str(day) for day in one_day["date"].to_pylist()} == {"2023-12-31", "2024-01-01"}


def test_prices_are_numbers_for_who_queries(transformer: Transformer) -> None:
    rows = ({"trade_id": n, "price": price} for n, price in enumerate(["99.999", "128.499"], 1))
    put(transformer.raw, 1, 1_000, raw_rows(*rows))
    transform(transformer)
    prices = transformer.tables.trades.snapshot().dataset().to_table()["price"].to_pylist()
    assert max(prices) == Decimal("128.499")


def test_months_far_apart_and_out_of_order_need_few_open_files(
    transformer: Transformer, lake: Lake
) -> None:
    moments = [datetime(2000 + n * 7 % 25, 1 + n % 12, 5, tzinfo=UTC) for n in range(300)]
    rows = raw_rows(*({"trade_id": n, "time": when} for n, when in enumerate(moments, 1)))
    put(transformer.raw, 1, 1_000, rows)
    transform(transformer, compact=True)
    assert table_rows(lake) == expected_rows(transformer.raw)
    files = transformer.tables.trades.snapshot().files()
    assert len(files) == len({file.month for file in files})


def test_the_file_of_a_month_that_is_over_is_closed_before_the_end(
    transformer: Transformer, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a trade of that month comes late: it has a file of its own until a compaction."""
    monkeypatch.setattr(output, "GROUP_ROWS", 2_000)
    january, february = datetime(2024, 1, 31, tzinfo=UTC), datetime(2024, 2, 1, tzinfo=UTC)
    months = [january, *[february] * 3, january]
    for number, when in enumerate(months):
        ids = range(1 + 1_000 * number, 1_001 + 1_000 * number)
        put(
            transformer.raw,
            ids.start,
            ids.stop - 1,
            raw_rows(*({"trade_id": n, "time": when} for n in ids)),
        )
    open_months: list[set[str]] = []
    write = output.Output.write

    def watched(self: output.Output, piece: output.Piece) -> None:
        write(self, piece)
        # What is closed ends with a footer; the magic word alone begins every file.
        unfinished = [path for path in data_files(lake) if b"PAR1" not in path.read_bytes()[4:]]
        open_months.append({path.parent.name for path in unfinished})

    monkeypatch.setattr(output.Output, "write", watched)
    transform(transformer)
    assert open_months == [
        {"month=2024-01"},
        {"month=2024-01", "month=2024-02"},
        {"month=2024-02"},
        {"month=2024-02"},
        {"month=2024-01", "month=2024-02"},
    ]
    assert table_rows(lake) == expected_rows(transformer.raw)
    files = [file.month for file in transformer.tables.trades.snapshot().files()]
    assert sorted(files) == ["2024-01", "2024-01", "2024-02"]


def test_a_large_product_is_committed_in_pieces(lake: Lake) -> None:
    transformer = Transformer(lake, "coinbase", commit_rows=2_500)
    for lo in range(1, 10_000, 1_000):
        put(transformer.raw, lo, lo + 999, trades(range(lo, lo + 1_000)))
    assert transform(transformer).new_rows == 10_000
    assert transformer.tables.trades.snapshot().version == 4  # made, and 3 x 3,000 and the rest
    assert table_rows(lake) == expected_rows(transformer.raw)


def test_a_part_that_is_merged_away_meanwhile(
    transformer: Transformer, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lo in range(1, 128_001, 16_000):
        put(transformer.raw, lo, lo + 15_999, trades(range(lo, lo + 16_000, 7)))
    read = RawLake.read_part
    merged: list[str] = []

    def merge_first(raw: RawLake, part: Part) -> Any:
        if part.lo == 32_001 and not merged:
            merged.append(part.key)
            monkeypatch.setattr(RawLake, "read_part", read)
            raw.merge_due(PRODUCT)
        return read(raw, part)

    monkeypatch.setattr(RawLake, "read_part", merge_first)
    transform(transformer)
    assert merged
    assert table_rows(lake) == expected_rows(transformer.raw)
    assert taken(transformer) == IntervalSet.of((1, 128_000))


def test_a_part_that_is_gone_for_good_is_named(
    transformer: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(transformer.raw, 1, 1_000, trades(range(1, 1_001)))

    def missing(raw: RawLake, part: Part) -> Any:
        raise ObjectMissing("reading", part.key, "it is gone")

    monkeypatch.setattr(RawLake, "read_part", missing)
    with pytest.raises(ObjectMissing, match="part-000000000001"):
        transform(transformer)


def test_a_stop_keeps_what_is_complete(lake: Lake) -> None:
    stop = StopEvent()
    transformer = Transformer(
        lake, "coinbase", stop=stop, on_rows=lambda _rows: stop.set() if halfway() else None
    )
    for lo in range(1, 20_000, 1_000):
        put(transformer.raw, lo, lo + 999, trades(range(lo, lo + 1_000)))
    calls = iter(range(100))

    def halfway() -> bool:
        return next(calls) == 5

    receipt = transform(transformer)
    assert 5_000 < receipt.new_rows < 15_000
    rows = table_rows(lake)
    assert rows == expected_rows(transformer.raw)[: len(rows)]
    assert len(rows) == receipt.new_rows
    transform(Transformer(lake, "coinbase"))
    assert table_rows(lake) == expected_rows(transformer.raw)


def test_rows_that_do_not_match_their_part_are_refused(
    transformer: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(transformer.raw, 1, 1_000, trades(range(1, 1_001)))
    convert = raw_changes.unified

    def one_less(rows: pa.Table) -> Unified:
        made = convert(rows)
        return Unified(made.rows.slice(1), made.misfits)

    monkeypatch.setattr(raw_changes, "unified", one_less)
    with pytest.raises(RowsDiffer, match="999 rows"):
        transform(transformer)
    assert transformer.tables.trades.snapshot().files() == []
