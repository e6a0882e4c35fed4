"""Readers that are not ours: the lines of docs/reading.md read a lake as it was stored."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.lake import local, open_lake
from headrace.unified.transformer import Transformer
from tests.lake_samples import FETCHED_AT, SOURCE, trades
from tests.support.queries import ask, unified_lake
from tests.support.unified import transform

DOCS = Path(__file__).parents[2] / "docs/reading.md"
#: By what a line imports, the first that fits.
READERS = ("pyspark", "fastparquet", "duckdb", "polars", "pandas", "pyarrow")
PRODUCTS = ("BTC-USD", "ETH-USD")


def _documented() -> dict[tuple[str, str], str]:
    found = {}
    for code in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL):
        reader = next(each for each in READERS if re.search(rf"(import|from) {each}", code))
        layer = re.search(r"^(raw|trades) = ", code, re.MULTILINE)
        assert layer is not None, code
        found[layer[1], reader] = code
    return found


LINES = _documented()
#: A Java process each.
HEAVY = [
    pytest.param(*key, marks=[pytest.mark.services] if key[1] == "pyspark" else []) for key in LINES
]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Full and short parts, an empty one, two products, in both layers."""
    monkeypatch.chdir(tmp_path)
    opened = open_lake("data/lake")
    raw = opened.raw("coinbase", cell_pages=2)
    for product in PRODUCTS:
        for lo, hi, ids in ((1, 2_000, range(1, 2_001)), (2_001, 2_500, range(2_101, 2_400))):
            raw.write(product, lo, hi, trades(ids), source=SOURCE, fetched_at=FETCHED_AT)
        raw.write_empty(product, 2_501, 9_000, source=SOURCE, fetched_at=FETCHED_AT)
        transform(Transformer(opened, "coinbase"), product)
    return tmp_path / "data/lake"


def rows_of(found: Any) -> list[dict[str, Any]]:
    """What a reader made of it, in one form."""
    if isinstance(found, pa.Table):
        return found.to_pylist()
    if hasattr(found, "to_arrow_table"):
        return found.to_arrow_table().to_pylist()
    if hasattr(found, "to_dicts"):
        return found.to_dicts()
    if hasattr(found, "toArrow"):
        return found.toArrow().to_pylist()
    return found.to_dict("records")


def as_stored() -> dict[int, dict[str, Any]]:
    stored = trades([*range(1, 2_001), *range(2_101, 2_400)])
    return {row["trade_id"]: row for row in stored.to_pylist()}


def test_the_docs_have_a_line_for_each_reader() -> None:
    raw = {reader for layer, reader in LINES if layer == "raw"}
    unified = {reader for layer, reader in LINES if layer == "trades"}
    assert raw == set(READERS)
    assert unified == set(READERS) - {"fastparquet"}


@pytest.mark.parametrize(("layer", "reader"), HEAVY)
def test_a_lake_is_read_as_the_docs_say(lake: Path, layer: str, reader: str) -> None:
    if reader == "pyspark" and not (find_spec("pyspark") and shutil.which("java")):
        pytest.skip("needs Java and `pip install pyspark`")
    found: dict[str, Any] = {}
    exec(LINES[layer, reader], found)
    rows = rows_of(found[layer])
    product_column, time_column, size_column = (
        ("product", "time", "size") if layer == "raw" else ("symbol", "trade_ts", "quantity")
    )

    expected = as_stored()
    present = {row[product_column] for row in rows}
    filtered = "'BTC-USD'" in LINES[layer, reader] or '"BTC-USD"' in LINES[layer, reader]
    assert present == (set(PRODUCTS[:1]) if filtered else set(PRODUCTS))
    for product in present:
        of_product = [row for row in rows if row[product_column] == product]
        assert sorted(row["trade_id"] for row in of_product) == sorted(expected)
        for row in of_product:
            sent = expected[row["trade_id"]]
            assert row["exchange"] == "coinbase"
            assert row["side"] == sent["side"]
            as_sent = str if layer == "raw" else Decimal
            assert row["price"] == as_sent(sent["price"])
            assert row[size_column] == as_sent(sent["size"])
            assert row[time_column].timestamp() == sent["time"].timestamp()


def test_polars_reads_the_folder_also_while_a_part_is_written(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import polars

    def rows() -> int:
        return polars.scan_parquet(lake / "raw/trades").collect().height

    read: dict[str, int] = {}
    monkeypatch.setattr(local, "kill_point", lambda point: read.setdefault(point, rows()))
    raw = open_lake(lake).raw("coinbase")
    stored = trades(range(9_001, 9_501))
    raw.write("BTC-USD", 9_001, 9_500, stored, source=SOURCE, fetched_at=FETCHED_AT)

    assert read == {"during-part": 4_598, "before-rename": 4_598}
    assert rows() == 4_598 + 500


def test_no_part_has_an_encoding_that_old_readers_do_not_know(lake: Path) -> None:
    import pyarrow.parquet as pq

    for part in (lake / "raw").rglob("*.parquet"):
        group = pq.read_metadata(part).row_group(0)
        used = {code for at in range(group.num_columns) for code in group.column(at).encodings}
        assert used <= {"PLAIN", "RLE", "RLE_DICTIONARY", "DELTA_BINARY_PACKED"}


def test_the_columns_of_the_docs_for_athena_are_those_of_the_files(lake: Path) -> None:
    import pyarrow.parquet as pq

    text = re.search(r"CREATE EXTERNAL TABLE trades_raw \((.*?)\n\)", DOCS.read_text(), re.DOTALL)
    assert text is not None
    declared = [tuple(line.strip(", `").split("` ")) for line in text[1].strip().splitlines()]
    names = {"int64": "bigint", "timestamp[us, tz=UTC]": "timestamp", "string": "string"}
    (file, *_) = (lake / "raw").rglob("*.parquet")
    stored = pq.read_schema(file)
    assert declared == [(field.name, names[str(field.type)]) for field in stored]


def test_the_join_of_the_docs_fills_gaps(tmp_path: Path) -> None:
    text = re.search(r"```sql\n(WITH c AS .*?)```", DOCS.read_text(), re.DOTALL)
    assert text is not None
    start = datetime(2024, 3, 9, 22, tzinfo=UTC)
    hours = {0: "10", 1: "11", 4: "12"}
    trades_of = [(n + 1, start + timedelta(hours=n), p, "2") for n, p in hours.items()]

    rows = ask(unified_lake(tmp_path, {"BTC-USD": trades_of}), text[1])

    assert [(str(row["close"].normalize()), row["filled"]) for row in rows] == [
        ("1E+1", False),
        ("11", False),
        ("11", True),
        ("11", True),
        ("12", False),
    ]
