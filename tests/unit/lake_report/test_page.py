"""The page of a lake says what is stored and what is missing, and brings all it needs."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace.cli import report as command
from headrace.coverage import IntervalSet
from headrace.errors import ConfigurationError
from headrace.lake import open_lake
from headrace.lake_report.facts import LakeFacts, Noted, RunFacts, collect
from headrace.lake_report.page import render
from headrace.lake_report.page_file import write_page
from tests.lake_samples import FETCHED_AT, SOURCE, trades
from tests.support.queries import unified_lake

NOW = datetime(2024, 11, 3, 9, tzinfo=UTC)


@pytest.fixture
def facts(tmp_path: Path) -> LakeFacts:
    """Ids 2,001 to 3,000 are missing, 4,001 to 6,000 do not exist."""
    lake = open_lake(tmp_path / "lake")
    raw = lake.raw("coinbase", cell_pages=10)
    for lo, hi in ((1, 2_000), (3_001, 4_000)):
        raw.write(
            "BTC-USD", lo, hi, trades(range(lo, hi + 1)), source=SOURCE, fetched_at=FETCHED_AT
        )
    raw.write_empty("BTC-USD", 4_001, 6_000, source=SOURCE, fetched_at=FETCHED_AT)
    noted = {("coinbase", "BTC-USD"): Noted(IntervalSet.of((2_001, 3_000)), 6_500)}
    return collect(lake, now=NOW, noted=noted)


def test_the_facts_of_a_product(facts: LakeFacts) -> None:
    (product,) = facts.products

    assert product.ids == (1, 6_500)
    assert product.missing.ranges == ((2_001, 3_000), (6_001, 6_500))
    assert product.holes.ranges == ((4_001, 6_000),)
    assert product.failed.ranges == ((2_001, 3_000),)
    assert (product.rows, product.parts, product.watermark) == (3_000, 3, 2_000)
    assert sum(product.days.values()) == 3_000
    stored = trades([2_000, 3_001])["time"].to_pylist()
    assert product.times_of((2_001, 3_000)) == (stored[0], stored[1])
    half = product.times_of((2_001, 2_500))
    assert half is not None
    assert half[0] == stored[0]
    assert half[1] - stored[0] == pytest.approx((stored[1] - stored[0]) / 2, rel=1e-2)


@pytest.mark.parametrize("damage", ["log", "file"])
def test_a_damaged_unified_table_is_said_and_the_rest_shown(tmp_path: Path, damage: str) -> None:
    lake = unified_lake(tmp_path / "lake", {"BTC-USD": [(1, NOW, "9.5", "1")]})
    folder = tmp_path / "lake/unified/trades"
    for path in folder.rglob("*.json" if damage == "log" else "*.parquet"):
        path.write_bytes(b"") if damage == "log" else path.unlink()
    facts = write_page(lake, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "--rebuild" in facts.unified_problem
    assert "the unified table cannot be read" in page
    assert "BTC-USD" in page


def test_a_page_loads_nothing_and_runs_nothing(facts: LakeFacts) -> None:
    page = render(facts)

    assert not re.search(r"<script|<link|<img|@import|url\(|https?:| style=| on\w+=", page)
    assert "default-src 'none'" in page
    for words in ("BTC-USD", "2,001", "3,000", "failed", "1 product to look at"):
        assert words in page


def test_what_comes_from_outside_is_text(facts: LakeFacts) -> None:
    evil = '<b onload="x">&'
    run = RunFacts(evil, evil, evil, NOW, 1.0)
    (product,) = facts.products
    strange = replace(product, product=evil, unreadable=(evil,))
    page = render(replace(facts, location=evil, products=(strange,), runs=(run,)))

    assert "<b" not in re.sub(r"<body>", "", page)
    assert "&lt;b onload=" in page


def test_many_products_stay_small(facts: LakeFacts) -> None:
    (product,) = facts.products
    holed = IntervalSet(tuple((n, n) for n in range(1, 40_000, 200)))
    many = replace(product, covered=holed, noted=0)
    page = render(replace(facts, products=(many,) * 400))

    assert page.count("<tr>") > 400
    assert len(page) < 3_000_000


def test_the_command_replaces_its_file_and_writes_none_into_the_lake(
    tmp_path: Path, facts: LakeFacts
) -> None:
    output = tmp_path / "page.html"
    for _ in range(2):
        command.report(output=output, lake=facts.location, check_last="none", runs=False)
        assert output.read_text().startswith("<!doctype html>")
    inside = Path(facts.location) / "page.html"
    with pytest.raises(ConfigurationError, match="in the lake"):
        command.report(output=inside, lake=facts.location, check_last="none", runs=False)
