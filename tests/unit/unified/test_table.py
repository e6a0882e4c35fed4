from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.schema import Schema

from headrace.lake import open_lake
from headrace.lake.exceptions import StoreDenied, StoreFull
from headrace.unified.exceptions import (
    TableDamaged,
    TableMissing,
    TableTooNew,
    TableUnreachable,
    of_delta,
)
from headrace.unified.schema import UNIFIED_SCHEMA
from headrace.unified.table import UnifiedTable, unified_table


@pytest.fixture
def table(tmp_path: Path) -> UnifiedTable:
    return unified_table(open_lake(tmp_path / "a lake"))


def make_empty(table: UnifiedTable) -> Path:
    DeltaTable.create(
        table.uri, Schema.from_arrow(table.schema), partition_by=list(table.partition_by)
    )
    return Path(table.uri) / "_delta_log" / "00000000000000000000.json"


def test_a_lake_without_a_table_says_how_to_get_one(table: UnifiedTable) -> None:
    assert not table.exists()
    with pytest.raises(TableMissing, match="headrace transform"):
        table.snapshot()


def test_an_empty_table_has_its_columns(table: UnifiedTable) -> None:
    make_empty(table)
    assert table.exists()
    snapshot = table.snapshot()
    assert (snapshot.version, snapshot.files()) == (0, [])
    assert snapshot.dataset().to_table().schema == UNIFIED_SCHEMA
    assert snapshot.transactions == {}


@pytest.mark.parametrize("length", [0, 1, 40, 500])
def test_a_cut_off_log_entry_is_named_with_the_way_out(table: UnifiedTable, length: int) -> None:
    entry = make_empty(table)
    entry.write_bytes(entry.read_bytes()[:length])
    with pytest.raises(TableDamaged, match=rf"{entry}.*--rebuild"):
        table.snapshot()


def test_a_damaged_checkpoint_of_the_log_is_named(table: UnifiedTable) -> None:
    make_empty(table)
    table.snapshot().delta.create_checkpoint()
    checkpoint = Path(table.uri, "_delta_log", f"{0:020d}.checkpoint.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(TableDamaged, match=rf"{checkpoint}.*--rebuild"):
        table.snapshot()


def test_a_gap_in_the_log_is_named(table: UnifiedTable) -> None:
    entry = make_empty(table)
    entry.with_name(f"{3:020d}.json").write_bytes(entry.read_bytes())
    with pytest.raises(TableDamaged, match=r"entry of version 1 is missing.*--rebuild"):
        table.snapshot()


@pytest.mark.parametrize(
    "protocol",
    [
        '"minReaderVersion":9,"minWriterVersion":9',
        '"minReaderVersion":3,"minWriterVersion":7,'
        '"readerFeatures":["times-travel"],"writerFeatures":["times-travel"]',
    ],
)
def test_a_newer_protocol_is_refused_by_name(table: UnifiedTable, protocol: str) -> None:
    entry = make_empty(table)
    text = entry.read_text()
    entry.write_text(text.replace('"minReaderVersion":1,"minWriterVersion":2', protocol))
    assert entry.read_text() != text
    with pytest.raises(TableTooNew, match="Upgrade headrace"):
        table.snapshot()


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("Generic error: No space left on device (os error 28)", StoreFull, "Free some space"),
        (
            "Generic S3 error\n  ↳ status 403 Forbidden\n   0: <unknown>",
            StoreDenied,
            "403 Forbidden",
        ),
        (
            "Generic S3 error\n \x1b[31m↳\x1b[0m client error (Connect)\n"
            " ↳ invalid peer certificate\n ↳ UnknownIssuer\n   0: <unknown>\n  12: start_thread",
            StoreDenied,
            "invalid peer certificate: UnknownIssuer. Name the authority's file in SSL_CERT_FILE",
        ),
        ("Generic S3 error: error sending request", TableUnreachable, "Run again"),
        ("Kernel error: Unsupported minimum reader version 9", TableTooNew, "Upgrade"),
        (
            "Kernel error: Json error: Truncated record\n   0: <unknown>\n",
            TableDamaged,
            "Truncated",
        ),
    ],
)
def test_what_delta_says_is_named_with_the_next_step(text: str, kind: type, said: str) -> None:
    error = of_delta("s3://lake/unified/trades", Exception(text))
    assert isinstance(error, kind)
    assert said in str(error)
    assert "unknown>" not in str(error)
    assert "s3://lake/unified/trades" in str(error)
