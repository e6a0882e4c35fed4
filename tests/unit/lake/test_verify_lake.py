"""The stand-alone check: it must find every kind of damage, and agree with the library."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.lake import RawLake, content_digest, open_lake
from tests.lake_samples import FETCHED_AT, SOURCE, trades

SCRIPT = Path(__file__).parents[3] / "verify_lake.py"
PRODUCT = "BTC-USD"
OTHER_NAME = "part-000000007001-000000008001.parquet"


@pytest.fixture
def raw(tmp_path: Path) -> RawLake:
    raw = open_lake(tmp_path).raw("coinbase", cell_pages=5)
    raw.write_empty(PRODUCT, 1, 7_000, source=SOURCE, fetched_at=FETCHED_AT)
    keep(raw, 7_001, 8_000)
    keep(raw, 8_001, 9_000, step=3)
    return raw


def keep(raw: RawLake, lo: int, hi: int, *, step: int = 1) -> Path:
    receipt = raw.write(
        PRODUCT, lo, hi, trades(range(lo, hi + 1, step)), source=SOURCE, fetched_at=FETCHED_AT
    )
    return Path(raw.store.place(receipt.part.key))


Verify = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Verify:
    """Runs the script; its exit code, and the JSON of the first product."""

    def run(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(folder), "--json", *options])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        output = capsys.readouterr().out
        return int(end.value.code or 0), json.loads(output)[0] if output else {}

    return run


def test_a_lake_in_order(raw: RawLake, tmp_path: Path, verify: Verify) -> None:
    code, report = verify(tmp_path)

    assert code == 0
    assert report["rows"] == raw.totals(PRODUCT)[0] == 1_334
    assert report["digest"] == str(content_digest(raw.read(PRODUCT)))
    assert report["answered"] == [[1, 9_000]]
    assert report["long_holes"] == [[1, 7_000]]
    assert not report["wrong"]


def test_missing_ids_are_not_damage(raw: RawLake, tmp_path: Path, verify: Verify) -> None:
    keep(raw, 9_501, 10_000)

    code, report = verify(tmp_path)

    assert (code, report["missing"]) == (4, [[9_001, 9_500]])


def test_parts_that_overlap_double_their_rows(raw: RawLake, tmp_path: Path, verify: Verify) -> None:
    keep(raw, 8_501, 9_500)

    code, report = verify(tmp_path)

    assert code == 1
    assert "part-000000008501" in report["overlaps"][0]
    assert report["duplicates"] == len(range(8_001, 9_001, 3)) - len(range(8_001, 8_501, 3))


def test_pieces_beside_their_merged_part_are_left_over(
    raw: RawLake, tmp_path: Path, verify: Verify
) -> None:
    keep(raw, 9_001, 9_100)
    keep(raw, 9_001, 9_200)

    code, report = verify(tmp_path)

    assert code == 0
    assert len(report["leftovers"]) == 1


def rewritten(path: Path, change: Callable[[Any], Any]) -> None:
    table = pq.read_table(path, partitioning=None)
    pq.write_table(change(table), path)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty file": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "garbage": lambda path: path.write_bytes(b"\0" * 10_000),
    "lost row": lambda path: rewritten(path, lambda table: table.slice(1)),
    "other column": lambda path: rewritten(path, lambda table: table.drop_columns(["side"])),
    "no footer": lambda path: rewritten(path, lambda table: table.replace_schema_metadata(None)),
    "newer footer": lambda path: forge(path, b'"schema_version":2', b'"schema_version":9'),
    "older footer": lambda path: forge(path, b'"schema_version":2', b'"schema_version":1'),
    "wrong footer": lambda path: forge(path, b'"rows":', b'"rowz":'),
    "other name": lambda path: path.rename(path.with_name(OTHER_NAME)),
    "changed value": lambda path: rewritten(path, reversed_prices),
}


def forge(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


def reversed_prices(table: Any) -> Any:
    return table.set_column(2, table.schema.field("price"), table["price"][::-1])


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found_and_named(raw: RawLake, tmp_path: Path, verify: Verify, kind: str) -> None:
    damaged = Path(raw.store.place(raw.parts(PRODUCT).parts[1].key))
    DAMAGE[kind](damaged)

    code, report = verify(tmp_path)

    assert code == 1
    assert len(report["unreadable"]) == 1
    assert "part-000000007001" in report["unreadable"][0]


def test_quick_reads_names_and_footers_alone(raw: RawLake, tmp_path: Path, verify: Verify) -> None:
    code, report = verify(tmp_path, "--quick", "--product", PRODUCT)

    assert (code, report["digest"], report["rows"]) == (0, None, 1_334)


def test_a_lake_that_is_not_there(tmp_path: Path, verify: Verify) -> None:
    assert verify(tmp_path / "nowhere") == (2, {})
