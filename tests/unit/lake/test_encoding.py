"""A part as bytes: what is recorded of its rows, the fixed schema, the same under any clock."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lake import PartName, open_lake
from headrace.lake.encoding import decode_part, describe, encode_part
from headrace.lake.exceptions import PartUnreadable
from headrace.trades import RAW_SCHEMA, empty_trades
from tests.lake_samples import EPOCH_US, FETCHED_AT, SOURCE, trades

PRODUCT = "BTC-USD"


def encoded(lo: int, hi: int, table: pa.Table) -> bytes:
    footer = describe(
        PartName(lo, hi), table, product=PRODUCT, sources=(SOURCE,), fetched_at=FETCHED_AT
    )
    return encode_part(table, footer)


#: Runs of ids that are there, with holes around the length of a page between them.
ID_SETS = st.lists(
    st.tuples(st.sampled_from([1, 2, 999, 1_000, 1_001, 1_002]), st.integers(1, 3)), max_size=5
)


@given(st.integers(1, 10**9), ID_SETS, st.sampled_from([0, 1, 999, 1_000, 1_001]))
def test_holes_are_what_is_absent(lo: int, runs: list[tuple[int, int]], rest: int) -> None:
    ids: list[int] = []
    cursor = lo
    for skipped, taken in runs:
        ids += range(cursor + skipped - 1, cursor + skipped - 1 + taken)
        cursor = ids[-1] + 2
    hi = max(lo, cursor - 2) + rest
    footer = describe(
        PartName(lo, hi), trades(ids), product=PRODUCT, sources=(SOURCE,), fetched_at=FETCHED_AT
    )

    present = set(ids)
    absent = [n for n in range(lo, hi + 1) if n not in present]
    holes = [
        [n for _, n in run] for _, run in groupby(enumerate(absent), lambda pair: pair[1] - pair[0])
    ]
    assert footer.rows == len(ids)
    assert footer.holes == len(holes)
    assert footer.long_holes == tuple((h[0], h[-1]) for h in holes if len(h) >= 1_000)


def test_the_same_rows_are_the_same_bytes() -> None:
    table = trades(range(1, 5_001))
    in_chunks = pa.concat_tables([table.slice(0, 1_234), table.slice(1_234)])

    assert encoded(1, 5_000, table) == encoded(1, 5_000, trades(range(1, 5_001)))
    assert decode_part(encoded(1, 5_000, in_chunks), "x")[0].equals(table)


@pytest.mark.parametrize("order", [1, -1])
def test_every_file_has_the_fixed_schema_also_an_empty_one(tmp_path: Path, order: int) -> None:
    for lo, table in [(1, empty_trades()), (11, trades(range(11, 15)))]:
        (tmp_path / f"{lo}.parquet").write_bytes(encoded(lo, lo + 9, table))
    files = sorted(str(path) for path in tmp_path.iterdir())[::order]

    assert all(pq.read_schema(file).remove_metadata() == RAW_SCHEMA for file in files)
    assert pq.read_table(tmp_path).num_rows == 4
    assert ds.dataset(files).to_table().num_rows == 4


def test_a_file_of_other_columns_is_no_part() -> None:
    table = trades([1]).cast(
        pa.schema([field.with_nullable(True) for field in RAW_SCHEMA]),
    )
    footer = describe(
        PartName(1, 1), trades([1]), product=PRODUCT, sources=(SOURCE,), fetched_at=FETCHED_AT
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(footer.encode()), sink)

    with pytest.raises(PartUnreadable, match="its columns are"):
        decode_part(sink.getvalue().to_pybytes(), "here")


@pytest.fixture(params=["America/Los_Angeles", "Asia/Kolkata"])
def far_away(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_clock_on_the_wall_changes_no_byte(tmp_path: Path, far_away: None) -> None:
    """The trades lie in the night in which clocks in America repeat an hour."""
    table = trades(range(1, 60_001, 50))
    here = encoded(1, 60_000, table)
    raw = open_lake(tmp_path).raw("coinbase")
    receipt = raw.write(PRODUCT, 1, 60_000, table, source=SOURCE, fetched_at=FETCHED_AT)
    newest = raw.newest(PRODUCT)
    os.environ["TZ"] = "UTC"
    time.tzset()

    assert encoded(1, 60_000, table) == here == raw.store.get(receipt.part.key)
    assert newest is not None
    assert newest.time.isoformat() == "2024-11-03T10:46:53.346951+00:00"
    assert newest.time.timestamp() * 1_000_000 == EPOCH_US + 137_001 * newest.trade_id
