"""Compaction: fewer files, the same rows, compared before the commit."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from lake_samples import trades
from support.unified import PRODUCT, data_files, expected_rows, put, raw_rows, table_rows, transform

from headrace.lake import Lake, open_lake
from headrace.unified import compaction as compacting
from headrace.unified.compaction import due, vacuum
from headrace.unified.exceptions import RowsDiffer, TableDamaged
from headrace.unified.table import UnifiedFile
from headrace.unified.transformer import Transformer

MB = 1 << 20


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


@pytest.fixture
def transformer(lake: Lake) -> Transformer:
    return Transformer(lake, "coinbase")


def file_of(rows: int, at: int = 0) -> UnifiedFile:
    partition = {"exchange": "coinbase", "symbol": PRODUCT, "month": "2024-01"}
    return UnifiedFile(
        path=f"{rows}-{at}",
        size_bytes=12 * rows,
        rows=rows,
        partition=partition,
        first_id=1,
        last_id=rows,
        first_ts=None,
        last_ts=None,
        **partition,
    )


def merge(transformer: Transformer, *, all_months: bool = True) -> int:
    change = transformer.compact(PRODUCT, all_months=all_months).change
    if change is None:
        return 0
    assert transformer.tables.commit([change], "compact") == []
    return len(change.trades.removes)


def test_a_month_that_is_over_becomes_one_file() -> None:
    files = [file_of(10, 1), file_of(1_000_000, 2)]
    assert due(files, newest=False, file_bytes=128 * MB) == files
    assert due(files[:1], newest=False, file_bytes=128 * MB) == []
    full = file_of(11_000_000)
    assert due([full, files[0]], newest=False, file_bytes=128 * MB) == []


def test_in_the_newest_month_a_row_is_rewritten_a_few_times_only() -> None:
    """A month of ingests every five minutes, with 60 trades each."""
    files: list[UnifiedFile] = []
    rewritten = most = 0
    for at in range(30 * 288):
        files.append(file_of(60, at))
        while group := due(files, newest=True, file_bytes=128 * MB):
            rows = sum(file.rows for file in group)
            rewritten += rows
            files = [file for file in files if file not in group]
            files.append(file_of(rows, at))
        most = max(most, len(files))
    assert sum(file.rows for file in files) == 60 * 30 * 288
    assert rewritten / (60 * 30 * 288) < 6
    assert most < 45


def test_files_whose_ids_overlap_are_sorted(transformer: Transformer, lake: Lake) -> None:
    for first in (3, 1, 2):
        lo = (first - 1) * 1_000 + 1
        put(transformer.raw, lo, lo + 999, trades(range(lo, lo + 1_000)))
        transform(transformer)
    put(transformer.raw, 1_000_001, 1_001_000, trades(range(1_000_001, 1_000_009)))
    put(transformer.raw, 4_001, 5_000, trades(range(4_001, 5_001)))
    transform(transformer)
    put(transformer.raw, 3_001, 4_000, trades(range(3_001, 4_001)))
    transform(transformer)
    assert merge(transformer) == 5
    (path,) = {Path(lake.location, "unified/trades", f.path) for f in snapshot_files(transformer)}
    ids = pq.ParquetFile(path).read()["trade_id"].to_pylist()
    assert ids == sorted(ids)
    assert table_rows(lake) == expected_rows(transformer.raw)
    assert merge(transformer) == 0


def snapshot_files(transformer: Transformer) -> list[UnifiedFile]:
    return transformer.tables.trades.snapshot().files()


def test_files_grow_to_the_target_and_stay(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.unified.files.GROUP_ROWS", 1_000)
    monkeypatch.setattr(compacting, "_WINDOW_IDS", 1_000)
    transformer = Transformer(lake, "coinbase", file_bytes=40_000)
    for lo in range(1, 20_001, 1_000):
        put(transformer.raw, lo, lo + 999, trades(range(lo, lo + 1_000)))
        transform(transformer)
    assert merge(transformer) == 20
    files = snapshot_files(transformer)
    assert 2 < len(files) < 10
    assert all(30_000 < file.size_bytes < 60_000 for file in files[:-1])
    assert [file.first_id for file in files[1:]] == [file.last_id + 1 for file in files[:-1]]
    assert table_rows(lake) == expected_rows(transformer.raw)


def test_statistics_say_what_is_in_a_file(transformer: Transformer) -> None:
    rows = trades(range(1, 1_001))
    put(transformer.raw, 1, 1_000, rows)
    transform(transformer)
    (file,) = snapshot_files(transformer)
    times = rows["time"].to_pylist()
    assert (file.rows, file.first_id, file.last_id) == (1_000, 1, 1_000)
    assert (file.first_ts, file.last_ts) == (times[0], times[-1])
    assert file.month == f"{times[0]:%Y-%m}"


def test_a_lost_row_stops_the_commit(
    transformer: Transformer, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lo in (1, 1_001):
        put(transformer.raw, lo, lo + 999, trades(range(lo, lo + 1_000)))
        transform(transformer)
    whole = compacting._sorted_rows

    def one_less(*arguments: object):
        for rows in whole(*arguments):
            yield rows.slice(1)

    monkeypatch.setattr(compacting, "_sorted_rows", one_less)
    with pytest.raises(RowsDiffer, match="1999 rows"):
        transformer.compact(PRODUCT, all_months=True)
    assert len(data_files(lake)) == 2, "the refused file is still there"
    monkeypatch.undo()
    assert merge(transformer) == 2
    assert table_rows(lake) == expected_rows(transformer.raw)


def test_a_file_that_was_changed_is_noticed(transformer: Transformer, lake: Lake) -> None:
    for lo in (1, 1_001):
        put(transformer.raw, lo, lo + 999, trades(range(lo, lo + 1_000)))
        transform(transformer)
    first, second = data_files(lake)
    metadata = pq.read_metadata(first).metadata
    other = pq.ParquetFile(second).read().replace_schema_metadata(metadata)
    pq.write_table(other, first)
    with pytest.raises((RowsDiffer, TableDamaged)):
        transformer.compact(PRODUCT, all_months=True)


def test_a_missing_file_is_named_with_the_way_out(transformer: Transformer, lake: Lake) -> None:
    for lo in (1, 1_001):
        put(transformer.raw, lo, lo + 999, trades(range(lo, lo + 1_000)))
        transform(transformer)
    gone = data_files(lake)[0]
    gone.unlink()
    with pytest.raises(TableDamaged, match=f"{gone.name} is missing.*--rebuild"):
        transformer.compact(PRODUCT, all_months=True)


def test_quarantine_files_are_merged_too(transformer: Transformer) -> None:
    for lo in range(1, 9_001, 1_000):
        put(transformer.raw, lo, lo + 999, raw_rows({"trade_id": lo, "price": "1" * 40}))
        transform(transformer, compact=True)
    files = transformer.tables.quarantine.snapshot().files()
    assert sum(file.rows for file in files) == 9
    assert len(files) == 2


def test_old_files_go_after_the_grace_time(transformer: Transformer, lake: Lake) -> None:
    for lo in (1, 1_001):
        put(transformer.raw, lo, lo + 999, trades(range(lo, lo + 1_000)))
        transform(transformer)
    before = transformer.tables.trades.snapshot()
    merge(transformer)
    orphan = data_files(lake)[0].with_name("of-a-killed-run.parquet")
    orphan.write_bytes(b"half")
    # Files older than the grace time that were removed from the table just now stay.
    for path in data_files(lake):
        os.utime(path, (time.time() - 7_000,) * 2)
    assert vacuum(transformer.tables, grace_h=2) == 0
    os.utime(orphan, (time.time() - 8_000,) * 2)
    assert vacuum(transformer.tables, grace_h=2) == 1
    assert not orphan.exists()
    assert before.dataset().to_table().num_rows == 2_000
    version = transformer.tables.trades.version()
    assert vacuum(transformer.tables, grace_h=2) == 0
    assert transformer.tables.trades.version() == version, "an idle vacuum committed"
    assert vacuum(transformer.tables, grace_h=0) == 2
    assert table_rows(lake) == expected_rows(transformer.raw)


def test_the_newest_month_is_left_to_grow(transformer: Transformer, lake: Lake) -> None:
    for lo, year in ((1, 2023), (1_001, 2023), (2_001, 2024), (3_001, 2024)):
        rows = raw_rows({"trade_id": lo, "time": datetime(year, 5, 1, tzinfo=UTC)})
        put(transformer.raw, lo, lo + 999, rows)
        transform(transformer)
    assert merge(transformer, all_months=False) == 2
    assert [file.month for file in snapshot_files(transformer)] == ["2023-05", "2024-05", "2024-05"]
    assert table_rows(lake) == expected_rows(transformer.raw)
