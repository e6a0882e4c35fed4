"""A query sees what counts of a lake, reads little of it, and does nothing else."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.lake import Lake, look_into, open_lake
from headrace.lake.exceptions import LakeUnusable
from headrace.lake.opening import make_store
from headrace.query.exceptions import QueryFailed, QueryRefused
from headrace.query.session import Session, open_session
from headrace.unified import files
from headrace.unified.exceptions import TableDamaged, TableMissing, TableTooNew
from tests.lake_samples import FETCHED_AT, SOURCE, trades
from tests.support.queries import ask, rows_of, unified_lake
from tests.support.unified import data_files

NOON = datetime(2024, 3, 9, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two products; a price of 40 digits is in the quarantine."""
    folder = tmp_path_factory.mktemp("made") / "lake"
    unified_lake(
        folder,
        {
            "BTC-USD": [
                (1, NOON, "9.5", "1"),
                (2, NOON, "10.50", "2.0"),
                (3, NOON, "1" * 40, "1"),
            ],
            "ETH-USD": [(1, NOON, "3e2", "1")],
        },
    )
    return folder


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Lake:
    shutil.copytree(made, tmp_path / "lake")
    return look_into(make_store(str(tmp_path / "lake")))


@pytest.fixture
def session(lake: Lake) -> Iterator[Session]:
    with open_session(lake) as opened:
        yield opened


def test_both_layers_and_the_quarantine_have_views(session: Session) -> None:
    assert rows_of(session, "SELECT max(price) AS m FROM trades WHERE symbol = 'BTC-USD'") == [
        {"m": Decimal("10.5")}
    ]
    raw = rows_of(session, "FROM trades_raw WHERE product = 'BTC-USD' ORDER BY trade_id")
    assert [row["price"] for row in raw] == ["9.5", "10.50", "1" * 40]
    (row,) = rows_of(session, "FROM quarantine")
    assert (row["symbol"], row["trade_id"], row["price"]) == ("BTC-USD", 3, "1" * 40)
    assert [row["name"] for row in rows_of(session, "SHOW TABLES")] == [
        "quarantine",
        "trades",
        "trades_raw",
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY trades TO '{place}'",
        "COPY (SELECT 1) TO 'lake://raw/trades/x.parquet'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{place}'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'lake://unified/trades/x.parquet'",
        "WITH a AS (COPY (SELECT 1) TO '{place}') SELECT 1",
        "WITH a AS (COPY (SELECT 1) TO 'lake://raw/trades/x.parquet') SELECT 1",
        "EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1",
        "CREATE TABLE x AS SELECT 1",
        "CREATE TEMP TABLE x AS SELECT 1",
        "CREATE OR REPLACE VIEW trades AS SELECT 1",
        "INSERT INTO trades VALUES (1)",
        "DELETE FROM trades",
        "DROP VIEW trades",
        "ATTACH '{place}'",
        "USE memory",
        "BEGIN",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 1",
        "RESET threads",
        "PRAGMA threads = 1",
        "CALL enable_logging('QueryLog', storage = 'file', storage_path = '{place}')",
        "FROM enable_logging('QueryLog', storage = 'file', storage_path = '{place}')",
        "EXPORT DATABASE '{place}'",
        "PREPARE a AS SELECT 1",
        "CREATE SECRET (TYPE s3)",
        "FROM '/etc/passwd'",
        "FROM read_csv('/etc/passwd')",
        "FROM read_text('/etc/passwd')",
        "FROM read_blob('{lake}/raw/trades/exchange=coinbase/product=BTC-USD/*')",
        "FROM glob('/etc/*')",
        "FROM read_parquet('lake://_headrace/grid-coinbase.json')",
        "FROM read_text('lake://../secret')",
        "FROM read_parquet('s3://bucket/x.parquet')",
        "FROM read_parquet('https://example.com/x.parquet')",
        "FROM sqlite_scan('{place}', 'x')",
        "SELECT 1; SELECT 2",
        "",
        "  -- nothing",
        "SELCT 1",
        "SELECT nothing FROM trades",
        "FROM nothing",
        "SELECT 'x'::INTEGER",
    ],
)
def test_all_but_reading_the_lake_is_refused(
    session: Session, lake: Lake, tmp_path: Path, sql: str
) -> None:
    before = sorted(path for path in tmp_path.rglob("*"))
    with pytest.raises(QueryRefused):
        rows_of(session, sql.format(place=tmp_path / "made", lake=lake.location))

    assert sorted(path for path in tmp_path.rglob("*")) == before
    assert rows_of(session, "SELECT count(*) AS n FROM trades") == [{"n": 3}]


def test_a_broken_text_gives_the_message_of_duckdb(session: Session) -> None:
    with pytest.raises(QueryRefused, match='syntax error at or near "selct"') as caught:
        rows_of(session, "selct 1\nFROM trades")
    assert isinstance(caught.value, ConfigurationError)
    assert "\n" in str(caught.value), "the place in the text is shown below it"


def test_a_lake_without_a_unified_table_names_the_way_to_it(tmp_path: Path) -> None:
    open_lake(tmp_path).raw("coinbase").write(
        "BTC-USD", 1, 10, trades(range(1, 11)), source=SOURCE, fetched_at=FETCHED_AT
    )
    lake = look_into(make_store(str(tmp_path)))

    assert ask(lake, "SELECT count(*) AS n FROM trades_raw") == [{"n": 10}]
    for name in ("trades", "quarantine", "candles('1 day')"):
        with pytest.raises(TableMissing, match="headrace transform"):
            ask(lake, f"FROM {name}")


def test_a_place_without_trades_is_no_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeUnusable, match="holds no trades"):
        look_into(make_store(str(tmp_path / "none")))
    assert not (tmp_path / "none").exists()


def test_a_file_that_is_missing_is_named_with_the_way_out(session: Session, lake: Lake) -> None:
    gone = data_files(lake)[0]
    gone.unlink()

    with pytest.raises(TableDamaged, match=gone.name) as caught:
        rows_of(session, "SELECT sum(price) FROM trades")
    assert "--rebuild" in str(caught.value)


def test_a_damaged_log_is_named(lake: Lake) -> None:
    log = sorted(Path(lake.location, "unified/trades/_delta_log").glob("*.json"))
    log[-1].write_text("{")

    with pytest.raises(TableDamaged, match="--rebuild"):
        ask(lake, "FROM trades")


def test_a_table_of_a_newer_version_is_named(lake: Lake) -> None:
    log = sorted(Path(lake.location, "unified/trades/_delta_log").glob("*.json"))
    features = {"readerFeatures": ["fromTheFuture"], "writerFeatures": ["fromTheFuture"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    log[-1].write_text(log[-1].read_text() + json.dumps({"protocol": protocol}) + "\n")

    with pytest.raises(TableTooNew, match="newer version"):
        ask(lake, "FROM trades")


def test_pieces_beside_their_merged_part_are_not_read(tmp_path: Path) -> None:
    raw = open_lake(tmp_path).raw("coinbase")
    for lo, hi in ((1, 1_000), (1_001, 2_000), (1, 2_000)):
        raw.write(
            "BTC-USD", lo, hi, trades(range(lo, hi + 1)), source=SOURCE, fetched_at=FETCHED_AT
        )

    found = ask(look_into(make_store(str(tmp_path))), "SELECT count(*) AS n FROM trades_raw")

    assert found == [{"n": 2_000}]


def test_a_session_reads_one_version_of_the_table(lake: Lake, session: Session) -> None:
    count = "SELECT count(*) AS n FROM trades"
    assert rows_of(session, count) == [{"n": 3}]
    unified_lake(Path(lake.location), {"SOL-USD": [(1, NOON, "1", "1")]})

    assert rows_of(session, count) == [{"n": 3}]
    assert ask(lake, count) == [{"n": 4}]


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kolkata"])
def test_times_are_utc_wherever_the_machine_is(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        (row,) = ask(
            lake,
            "SELECT trade_ts::VARCHAR AS t, trade_ts::DATE AS d, date FROM trades "
            "WHERE symbol = 'ETH-USD' AND trade_ts >= '2024-03-09 12:00:00'",
        )
    finally:
        monkeypatch.undo()
        time.tzset()

    assert row == {"t": "2024-03-09 12:00:00+00", "d": NOON.date(), "date": NOON.date()}


def test_a_query_of_one_product_and_day_reads_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files by partition, row groups by statistics, columns by name."""
    monkeypatch.setattr(files, "GROUP_ROWS", 2_000)
    start = datetime(2024, 3, 10, tzinfo=UTC)
    days, per_day = 30, 1_440
    minutes = [
        (n, start + timedelta(minutes=n), f"{n % 977}.5", "1") for n in range(1, days * per_day)
    ]
    products = [f"P{n:02d}-USD" for n in range(12)]
    lake = unified_lake(tmp_path, dict.fromkeys(products, minutes))
    total = sum(path.stat().st_size for path in data_files(lake))

    for where in (
        "symbol = 'P07-USD' AND date = '2024-03-20'",
        "symbol = 'P07-USD' AND trade_ts >= '2024-03-20' AND trade_ts < '2024-03-21'",
    ):
        with open_session(lake) as session:
            found = rows_of(
                session, f"SELECT count(*) AS n, sum(quantity) FROM trades WHERE {where}"
            )
            assert found[0]["n"] == per_day
            assert session.files.bytes_read <= total * 0.03
            # And the end of one file, for the columns.
            assert sum("symbol=P07-USD" not in key for key in session.files.keys_read) <= 1

    with open_session(lake) as session:
        candles = rows_of(
            session,
            "FROM candles('1 hour', product := 'P07-USD', since := '2024-03-20', "
            "until := '2024-03-21')",
        )
        assert len(candles) == 24
        assert session.files.bytes_read <= total * 0.03
        assert len(session.files.keys_read) <= 2, "not the file of April"


def test_more_than_the_memory_goes_to_disk_and_what_cannot_is_named(lake: Lake) -> None:
    with open_session(lake, memory="100MB") as session:
        with session.stream("SELECT range AS n FROM range(20000000) ORDER BY hash(n)") as reader:
            assert sum(batch.num_rows for batch in reader) == 20_000_000
        with pytest.raises(QueryFailed, match="--memory"):
            rows_of(session, "SELECT list(range) FROM range(100000000)")
    with pytest.raises(QueryRefused, match="lots"), open_session(lake, memory="lots"):
        pass


def test_nothing_is_left_in_the_temporary_folder(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spilled = tmp_path / "spilled"
    spilled.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spilled))

    ask(lake, "FROM trades")

    assert os.listdir(spilled) == []  # noqa: PTH208 - names alone


def test_interrupting_ends_a_query(session: Session) -> None:
    timer = threading.Timer(0.5, session.interrupt)
    timer.start()
    with pytest.raises((QueryFailed, QueryRefused)):
        rows_of(session, "SELECT count(*) FROM range(1000000000000) WHERE hash(range) = 0")
    timer.join()
