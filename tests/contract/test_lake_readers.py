"""Other programs read a lake in exactly the way that docs/lake.md says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.lake import local, open_lake
from tests.lake_samples import FETCHED_AT, SOURCE, trades

DOCS = Path(__file__).parents[2] / "docs/lake.md"
LINES = {
    re.search(r"(?:import|from) (\w+)", code)[1]: code  # type: ignore[index]
    for code in re.findall(r"```python\n(import .*?|from .*?)```", DOCS.read_text(), re.DOTALL)
    if "data/lake" in code
}
READERS = ("pyarrow", "duckdb", "polars", "pandas", "fastparquet")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Full and short parts, an empty one, two products."""
    monkeypatch.chdir(tmp_path)
    raw = open_lake("data/lake").raw("coinbase", cell_pages=2)
    for product in ("BTC-USD", "ETH-USD"):
        for lo, hi, ids in ((1, 2_000, range(1, 2_001)), (2_001, 2_500, range(2_101, 2_400))):
            raw.write(product, lo, hi, trades(ids), source=SOURCE, fetched_at=FETCHED_AT)
        raw.write_empty(product, 2_501, 9_000, source=SOURCE, fetched_at=FETCHED_AT)
    return tmp_path / "data/lake"


def rows_of(found: Any) -> list[dict[str, Any]]:
    """What a reader made of it, in one form."""
    if isinstance(found, pa.Table):
        return found.to_pylist()
    if hasattr(found, "to_arrow_table"):
        return found.to_arrow_table().to_pylist()
    if hasattr(found, "to_dicts"):
        return found.to_dicts()
    return found.to_dict("records")


def test_the_docs_have_a_line_for_each_reader() -> None:
    assert set(LINES) == set(READERS)


@pytest.mark.parametrize("reader", READERS)
def test_a_lake_is_read_as_the_docs_say(lake: Path, reader: str) -> None:
    found: dict[str, Any] = {}
    exec(LINES[reader], found)
    rows = rows_of(found["trades"])

    stored = trades([*range(1, 2_001), *range(2_101, 2_400)])
    expected = {row["trade_id"]: row for row in stored.to_pylist()}
    assert len(rows) == 2 * len(expected)
    for product in ("BTC-USD", "ETH-USD"):
        of_product = [row for row in rows if row["product"] == product]
        assert sorted(row["trade_id"] for row in of_product) == sorted(expected)
        for row in of_product:
            sent = expected[row["trade_id"]]
            assert row["exchange"] == "coinbase"
            assert {name: row[name] for name in ("price", "size", "side")} == {
                name: sent[name] for name in ("price", "size", "side")
            }
            assert row["time"].timestamp() == sent["time"].timestamp()


def test_polars_reads_the_folder_too_also_while_a_part_is_written(
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

    for part in lake.rglob("*.parquet"):
        group = pq.read_metadata(part).row_group(0)
        used = {code for at in range(group.num_columns) for code in group.column(at).encodings}
        assert used <= {"PLAIN", "RLE", "RLE_DICTIONARY", "DELTA_BINARY_PACKED"}
