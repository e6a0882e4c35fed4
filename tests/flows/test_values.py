"""What the exchange sends is what the lake holds, to the letter; what cannot be held is named."""

import json
import time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support.pulls import coverage, of_product, run_backfill, stored
from support.unified import expected_rows, table_rows

from headrace.lake import open_lake
from headrace.run.report import Status
from headrace.sim import SimulatedExchange
from headrace.trades import RAW_SCHEMA
from headrace.unified.table import quarantine_table

pytestmark = pytest.mark.flows

LONG = pytest.mark.long

QUICK = {"workers": 1, "chunk_concurrency": 2}


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


def trade(trade_id, **fields):
    return {
        "trade_id": trade_id,
        "time": "2024-01-01T00:00:00.5Z",
        "price": "42000.10",
        "size": "0.1",
        "side": "sell",
        **fields,
    }


def assert_unified(lake: Path, product: str, *, misfits: int = 0) -> None:
    """The table, and the quarantine beside it, hold what the raw layer holds."""
    opened = open_lake(lake)
    aside = quarantine_table(opened).snapshot().dataset().to_table()["trade_id"].to_pylist()
    assert len(aside) == misfits
    expected = expected_rows(opened.raw("coinbase"), product)
    assert table_rows(opened, product) == [row for row in expected if row[0] not in aside]


def parts(lake: Path) -> list[Path]:
    return sorted((lake / "raw").rglob("*.parquet"))


STRANGE = [
    "1E-8",
    "1e+10",
    "0.000000000000000001",
    "0.0000000000000000000001",
    "123456789012345678901234567890.123456789012345678",
    "0",
    "0.00",
    "6225.32000000",
    "00012.30",
    "-1.5",
    ".5",
    "1.",
]


def test_numbers_keep_every_letter_that_was_sent(lake):
    rows = {
        at: trade(at, price=text, size=text, side=["buy", "sell", "SELL", "Buy"][at % 4])
        for at, text in enumerate(STRANGE, 1)
    }
    with SimulatedExchange("ODD-USD:1") as sim:
        sim.serve_rows("ODD-USD", rows)
        summary = run_backfill(sim, lake, ["ODD-USD"], transform=True, **QUICK)
        assert summary.status is Status.DONE
    assert_unified(lake, "ODD-USD", misfits=3)  # 18 and 22 places, 30 digits
    found = stored(lake, "ODD-USD")
    for column in ("price", "size"):
        assert found.column(column).to_pylist() == STRANGE
        assert [Decimal(text) for text in found.column(column).to_pylist()] == [
            Decimal(text) for text in STRANGE
        ]
    assert found.column("side").to_pylist() == [row["side"] for row in rows.values()]


def test_ids_are_64_bit_and_may_come_as_text(lake):
    high = 2**53 + 1
    ids = [high - 1, high, high + 1, high + 2]
    rows = {at: trade(str(at) if at == high + 2 else at) for at in ids}
    with SimulatedExchange("BIG-USD:1") as sim:
        sim.serve_rows("BIG-USD", rows)
        summary = run_backfill(sim, lake, ["BIG-USD"], transform=True, **QUICK)
        assert summary.status is Status.DONE
    assert_unified(lake, "BIG-USD")
    assert stored(lake, "BIG-USD").sort_by("trade_id").column("trade_id").to_pylist() == ids
    assert coverage(lake, "BIG-USD") == [[1, high + 2]]


def test_the_order_is_that_of_ids_whatever_the_times_and_equal_trades_stay_two(lake):
    midnight = "2024-01-01T00:00:00"
    eve = "2023-12-31T23:59:59"
    rows = {at: trade(at, time=f"{midnight}.123Z") for at in range(1, 37)}
    rows[37] = trade(37, time=f"{midnight}.04Z")
    rows[38] = trade(38, time=f"{eve}.999999Z")
    rows[39] = trade(39, time=f"{midnight}Z")
    rows[40] = trade(40, time="2024-01-01T01:00:00.000001+01:00")
    twins = trade(41), trade(42)
    rows |= {41: twins[0], 42: twins[1]}
    with SimulatedExchange("MID-USD:1") as sim:
        sim.serve_rows("MID-USD", rows)
        for _ in range(2):
            summary = run_backfill(sim, lake, ["MID-USD"], transform=True, **QUICK)
            assert summary.status is Status.DONE
    assert_unified(lake, "MID-USD")
    found = stored(lake, "MID-USD")
    assert found.column("trade_id").to_pylist() == list(range(1, 43))
    midnight_us = 1_704_067_200_000_000
    times = found.column("time").cast("int64").to_pylist()
    assert times[:36] == [midnight_us + 123_000] * 36
    assert times[36:40] == [midnight_us + 40_000, midnight_us - 1, midnight_us, midnight_us + 1]
    last = found.slice(40).drop_columns("trade_id").to_pylist()
    assert last[0] == last[1]


def test_every_file_has_the_same_schema_and_a_folder_reads_in_either_order(lake):
    with SimulatedExchange("NEW-USD:1500,first_id=250500", "BTC-USD:1200", seed=5) as sim:
        run_backfill(sim, lake, ["NEW-USD", "BTC-USD"], **QUICK)
    files = parts(lake)
    assert any(pq.ParquetFile(file).metadata.num_rows == 0 for file in files)
    for file in files:
        assert pq.read_schema(file).remove_metadata() == RAW_SCHEMA
    names = [str(file) for file in files]
    forwards = ds.dataset(names).to_table()
    backwards = ds.dataset(names[::-1]).to_table()
    assert forwards.schema.remove_metadata() == backwards.schema.remove_metadata() == RAW_SCHEMA
    assert forwards.num_rows == backwards.num_rows == 2700
    folder = ds.dataset(lake / "raw" / "trades", partitioning="hive").to_table()
    assert folder.num_rows == 2700
    assert set(folder.column("product").to_pylist()) == {"NEW-USD", "BTC-USD"}


@pytest.mark.parametrize("bad", [5500, *(pytest.param(bad, marks=LONG) for bad in (500, 2500))])
def test_a_value_that_cannot_be_held_fails_its_chunk_by_name_and_costs_nothing_else(lake, bad):
    with SimulatedExchange("BTC-USD:6000", "ETH-USD:500", seed=6) as sim:
        row = json.loads(sim.history("BTC-USD").rows_below(bad, 1)[1][0])
        sim.replace_rows("BTC-USD", {bad: {**row, "price": "NaN"}})
        summary = run_backfill(sim, lake, ["BTC-USD", "ETH-USD"], pages_per_chunk=1, **QUICK)
    receipt = of_product(summary, "BTC-USD")
    assert summary.status is Status.PARTIAL
    assert of_product(summary, "ETH-USD").status is Status.DONE
    for word in ("BTC-USD", f"trade {bad}", "price 'NaN'"):
        assert word in receipt.error
    below = bad // 1000 * 1000
    assert receipt.failed_chunks == ((below + 1, below + 1000),)
    assert (receipt.new_rows, receipt.watermark) == (5000, below)
    ids = stored(lake, "BTC-USD").sort_by("trade_id").column("trade_id").to_pylist()
    assert ids == [*range(1, below + 1), *range(below + 1001, 6001)]


ZONES = ("UTC", "America/Los_Angeles")


def rows_by_file(lake: Path) -> dict[str, pa.Table]:
    return {str(file.relative_to(lake)): pq.read_table(file) for file in parts(lake)}


@pytest.fixture
def in_zone(monkeypatch):
    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def test_the_zone_of_the_machine_changes_nothing(tmp_path, in_zone):
    """Trades of the night in which an hour comes twice, asked for by times without a zone."""
    moments = [f"{hour:02d}:{minute:02d}" for hour in range(7, 11) for minute in (0, 30)]
    rows = {at: trade(at, time=f"2024-11-03T{moment}:00Z") for at, moment in enumerate(moments, 1)}
    asked = {"since": "2024-11-03T08:30", "until": "2024-11-03 10:00"}
    found = {}
    with SimulatedExchange("DST-USD:1") as sim:
        sim.serve_rows("DST-USD", rows)
        for zone in ZONES:
            in_zone(zone)
            lake = tmp_path / zone.replace("/", "-")
            summary = run_backfill(sim, lake, ["DST-USD"], **asked, **QUICK)
            assert summary.status is Status.DONE
            found[zone] = (of_product(summary, "DST-USD").range, rows_by_file(lake))
    utc, pacific = found.values()
    assert utc == pacific
    assert utc[0] == (4, 7)
    [table] = utc[1].values()
    kept = {row["trade_id"]: f"{row['time']:%H:%M}" for row in table.to_pylist()}
    assert [kept[at] for at in range(4, 8)] == moments[3:7]
