"""The unified table on a disk that fills up, in other time zones, with TMPDIR elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from support.unified import PRODUCT, data_files, expected_rows, put, raw_rows, table_rows, transform

from headrace.lake import open_lake
from headrace.lake.exceptions import StoreFull
from headrace.unified.transformer import Transformer
from tests.lake_samples import trades
from tests.support.disks import enlarge, small_disk

__all__ = ["small_disk"]

ROWS = 40_000


def failure_of(transformer: Transformer) -> StoreFull | None:
    """Take all that there is; what keeps it from being taken."""
    try:
        while transform(transformer).new_rows:
            pass
    except StoreFull as error:
        return error
    return None


def test_a_disk_that_fills_up_and_is_enlarged(small_disk: Path, tmp_path: Path) -> None:
    """At every number of free bytes: in a file, at its end, in the log."""
    lake = open_lake(small_disk)
    (small_disk / "unified").mkdir()
    raw_folder = small_disk / "raw"
    raw_folder.symlink_to(tmp_path / "raw", target_is_directory=True)
    (tmp_path / "raw").mkdir()
    transformer = Transformer(lake, "coinbase", commit_rows=10_000)
    for lo in range(1, ROWS, 1_000):
        put(transformer.raw, lo, lo + 999, trades(range(lo, lo + 1_000)))
    transformer.tables.make()
    filler = small_disk / "filler"
    failures = 0
    for left in (1_000, 8_000, 60_000, 150_000, 200_000):
        filler.unlink(missing_ok=True)
        free = os.statvfs(small_disk)
        filler.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - left)))
        error = failure_of(transformer)
        failures += error is not None
        assert error is None or ("space" in str(error) and str(small_disk) in str(error))
        stored = table_rows(lake)
        assert stored == expected_rows(transformer.raw)[: len(stored)]
    assert failures >= 3
    filler.unlink()
    enlarge(small_disk)
    transform(transformer)
    assert table_rows(lake) == expected_rows(transformer.raw)
    named = {file.path.rpartition("/")[2] for file in transformer.tables.trades.snapshot().files()}
    assert {path.name for path in data_files(lake)} == named, "what could not be written stays"


NIGHTS = [datetime(2024, 11, 3, 8, 30, tzinfo=UTC), datetime(2024, 3, 10, 9, 30, tzinfo=UTC)]
PROGRAM = """
import sys
sys.path[:0] = sys.argv[2:]
from tests.unified_writer import open_here, transform
transform(open_here(sys.argv[1]))
"""


def table_made_in(zone: str, folder: Path) -> pa.Table:
    """The table of two nights in which clocks change, made by a process in that time zone."""
    lake = open_lake(folder)
    moments = [night + timedelta(minutes=n) for night in NIGHTS for n in range(-600, 300, 7)]
    rows = raw_rows(*({"trade_id": n, "time": when} for n, when in enumerate(moments, 1)))
    put(lake.raw("coinbase"), 1, 1_000, rows)
    root = str(Path(__file__).parents[2])
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), root, f"{root}/tests"],
        env={**os.environ, "TZ": zone},
        check=True,
    )
    table = Transformer(lake, "coinbase").tables.trades.snapshot().dataset().to_table()
    return table.sort_by("trade_id")


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kolkata"])
def test_the_same_rows_in_every_time_zone(tmp_path: Path, zone: str) -> None:
    there, here = table_made_in(zone, tmp_path / "there"), table_made_in("UTC", tmp_path / "here")
    assert there.equals(here)
    days = [when.date() for when in here["trade_ts"].to_pylist()]
    assert here["date"].to_pylist() == days
    assert here["month"].to_pylist() == [f"{day:%Y-%m}" for day in days]


def test_a_temporary_folder_on_another_file_system(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(small_disk))
    transformer = Transformer(open_lake(tmp_path / "lake"), "coinbase")
    put(transformer.raw, 1, 1_000, trades(range(1, 1_001)))
    assert transform(transformer, PRODUCT).new_rows == 1_000
    assert list(small_disk.iterdir()) == []
