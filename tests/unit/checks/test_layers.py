"""The unified table is held against the raw layer, part by part, and never taken for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.checks.checker import Known, checked
from headrace.checks.layers import Layers
from headrace.checks.report import Breach, Check, ProductChecks
from headrace.checks.request import CheckRequest
from headrace.lake import Lake, RawLake, open_lake
from headrace.trades import RAW_SCHEMA
from headrace.unified.exceptions import TableDamaged
from headrace.unified.transformer import Transformer
from tests.lake_samples import FETCHED_AT, SOURCE, trades
from tests.support.checks import PRODUCT

pytest.importorskip("deltalake", reason="needs the extra unified")

NOW = FETCHED_AT + timedelta(days=3_650)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


@pytest.fixture
def raw(lake: Lake) -> RawLake:
    raw = lake.raw("coinbase", cell_pages=2)
    for lo in (1, 1_001, 2_001):
        write(raw, lo, trades(range(lo, lo + 1_000)))
    return raw


def write(raw: RawLake, lo: int, table: pa.Table) -> None:
    raw.write(PRODUCT, lo, lo + 999, table, source=SOURCE, fetched_at=FETCHED_AT, replace=True)


def valued(lo: int, name: str, values: list[str]) -> pa.Table:
    """A thousand trades with other values in one column."""
    column = RAW_SCHEMA.get_field_index(name)
    rows = trades(range(lo, lo + 1_000))
    return rows.set_column(column, RAW_SCHEMA.field(name), pa.array(values, pa.string()))


def transform(lake: Lake) -> None:
    transformer = Transformer(lake, "coinbase")
    transformer.tables.make()
    while change := transformer.take(PRODUCT).change:
        assert transformer.tables.commit([change], "transform") == []


def check(raw: RawLake, layers: Layers | None = None, **bounds: Any) -> ProductChecks:
    known = Known(layers=layers or Layers.opened(raw.store, "coinbase"))
    request = CheckRequest.checked(lake="x", max_age=["none"], max_jump=0, **bounds)
    return checked(raw, PRODUCT, request, known, now=NOW)


def breaches(found: ProductChecks) -> dict[Check, Breach]:
    assert found.error == ""
    return {breach.check: breach for breach in found.breaches}


def test_a_lake_without_a_table_has_nothing_to_compare(raw: RawLake) -> None:
    assert Layers.opened(raw.store, "coinbase") is None
    assert breaches(check(raw)) == {}


def test_layers_with_the_same_trades_and_a_raw_layer_that_grows(lake: Lake, raw: RawLake) -> None:
    transform(lake)
    assert breaches(check(raw)) == {}
    write(raw, 3_001, trades(range(3_001, 3_900)))
    raw.merge_due(PRODUCT)
    found = check(raw)
    assert (found.breaches, found.notes) == ((), ())


def test_trades_that_the_table_lacks_or_has_otherwise(
    lake: Lake, raw: RawLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = valued(1_001, "size", ["7.5"] * 1_000)
    write(raw, 1_001, other)
    write(raw, 2_001, trades(range(2_001, 2_900)))
    transform(lake)
    layers = Layers.opened(raw.store, "coinbase")
    assert layers is not None
    write(raw, 1_001, trades(range(1_001, 2_001)))
    write(raw, 2_001, trades(range(2_001, 3_001)))
    found = check(raw, layers)
    assert (found.breaches, found.notes) == ((), ("2 parts have changed since the last transform",))
    # As if the table had taken them after they were changed.
    taken = replace(layers.taken(PRODUCT), seen_us=1 << 62)
    monkeypatch.setattr(layers, "taken", lambda _: taken)
    breach = breaches(check(raw, layers))[Check.UNIFIED]
    assert (breach.found, breach.range) == (2, (1_001, 3_000))
    assert "other trades" in breach.message
    assert "899 trades in the unified table, 1,000 in the part" in breach.message


def test_trades_that_the_raw_layer_has_lost(lake: Lake, raw: RawLake) -> None:
    transform(lake)
    raw.store.delete(raw.parts(PRODUCT).parts[0].key)
    breach = breaches(check(raw))[Check.UNIFIED]
    assert breach.range == (1, 1_000)
    assert "no part answers for" in breach.message


def test_trades_in_the_quarantine_are_counted(lake: Lake, raw: RawLake) -> None:
    prices = trades(range(3_001, 4_001))["price"].to_pylist()
    write(raw, 3_001, valued(3_001, "price", [*prices[:-1], "1." + "1" * 40]))
    transform(lake)
    found = breaches(check(raw))
    assert found.keys() == {Check.QUARANTINE}
    assert found[Check.QUARANTINE].found == 1
    assert breaches(check(raw, max_quarantined=1)) == {}


def test_a_table_that_cannot_be_read_is_a_breach_with_the_way_out(lake: Lake, raw: RawLake) -> None:
    transform(lake)
    layers = Layers.opened(raw.store, "coinbase")
    for path in (Path(lake.location) / "unified/trades").rglob("*.parquet"):
        path.unlink()
    breach = breaches(check(raw, layers))[Check.UNIFIED]
    assert "--rebuild" in breach.message
    for path in (Path(lake.location) / "unified/trades/_delta_log").iterdir():
        path.write_bytes(b"damaged")
    with pytest.raises(TableDamaged) as damaged:
        Layers.opened(raw.store, "coinbase")
    request = CheckRequest.checked(lake="x", max_age=["none"], max_jump=0)
    found = checked(raw, PRODUCT, request, Known(layers=damaged.value), now=NOW)
    assert "--rebuild" in breaches(found)[Check.UNIFIED].message
