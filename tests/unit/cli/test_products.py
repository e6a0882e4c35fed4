"""`headrace products …`: the list is fetched once, kept in the lake, and changed by its users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from headrace.cli.products import app
from headrace.errors import ConfigurationError, HeadraceError
from headrace.products.choice import NoList, UnknownSet
from headrace.products.list_file import UnknownListed
from headrace.products.listing import ListDoubted
from headrace.sim import ProductSpec, SimulatedExchange


@pytest.fixture
def sim() -> Iterator[SimulatedExchange]:
    with SimulatedExchange("BTC-USD:1", "ETH-USD:1", "ETH-EUR:1", "OLD-USD:1") as exchange:
        exchange.put_product(ProductSpec(id="OLD-USD", trades=1, listing="delisted"))
        yield exchange


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sim: SimulatedExchange) -> Path:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADRACE_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("HEADRACE_COINBASE_URL", sim.url)
    monkeypatch.setenv("HEADRACE_RATE", "none")
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "lake"


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, HeadraceError):
        raise result.exception
    return result


def as_json(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def states(*arguments: str) -> dict[str, str]:
    return {each["id"]: each["state"] for each in as_json("list", *arguments)}


def test_a_sync_keeps_the_list_in_the_lake_and_later_ones_add_to_it(
    lake: Path, sim: SimulatedExchange
) -> None:
    with pytest.raises(NoList, match="headrace products sync"):
        run("list")
    assert not lake.exists()
    first = as_json("sync")
    assert (first["products"], first["online"], first["source"]) == (4, 3, "localhost")
    assert first["new"] == ["BTC-USD", "ETH-EUR", "ETH-USD", "OLD-USD"]
    assert [path.name for path in lake.rglob("*.json")] == ["products-coinbase.json"]
    run("add", "mine-usd")
    run("remove", "ETH-EUR")
    sim.put_product(ProductSpec(id="NEW-USD", trades=1))
    sim.put_product(ProductSpec(id="ETH-USD", trades=1, listing="unknown"))
    second = as_json("sync")
    assert (second["new"], second["delisted"]) == (["NEW-USD"], ["ETH-USD"])
    assert states() == {
        "BTC-USD": "online",
        "ETH-EUR": "removed",
        "ETH-USD": "delisted",
        "MINE-USD": "added",
        "NEW-USD": "online",
        "OLD-USD": "delisted",
    }
    assert "delisted: " not in run("sync").stdout


def test_a_list_is_cut_down_by_pattern_set_and_state() -> None:
    run("sync")
    run("set", "eth", "--match", "ETH-*")
    assert list(states("--match", "*-usd")) == ["BTC-USD", "ETH-USD", "OLD-USD"]
    assert list(states("--set", "eth")) == ["ETH-EUR", "ETH-USD"]
    assert list(states("--set", "eth", "--match", "*-EUR")) == ["ETH-EUR"]
    assert list(states("--state", "delisted")) == ["OLD-USD"]
    assert states("--match", "nothing") == {}
    assert "BTC-USD" in run("list").stdout


def test_what_the_exchange_lists_now_is_shown_and_not_kept(lake: Path) -> None:
    assert states("--live", "--match", "OLD-*") == {"OLD-USD": "delisted"}
    assert not lake.exists()
    with pytest.raises(ConfigurationError, match="--live excludes"):
        run("list", "--live", "--set", "x")


def test_without_a_command_it_lists_what_the_exchange_has_now(lake: Path) -> None:
    assert [each["id"] for each in as_json("--match", "old")] == ["OLD-USD"]
    assert set(as_json()[0]) >= {"id", "base_currency", "quote_currency", "status"}
    assert "ETH-EUR" in run().stdout
    assert not lake.exists()
    with pytest.raises(ConfigurationError, match="stand behind it"):
        run("--match", "old", "list")


def test_a_set_takes_ids_and_patterns_and_is_replaced_and_deleted() -> None:
    run("sync")
    assert "2 products now: ETH-USD, BTC-USD" in run("set", "x", "eth-usd", "BTC-USD").stdout
    assert "3 products now" in run("set", "x", "GONE-USD", "--match", "re:ETH-.*").stdout
    [kept] = as_json("sets")
    assert kept == {
        "name": "x",
        "products": ["GONE-USD"],
        "match": ["re:ETH-.*"],
        "members": ["GONE-USD", "ETH-EUR", "ETH-USD"],
    }
    assert as_json("show", "eth-usd")["sets"] == ["x"]
    run("set", "x", "--delete")
    assert as_json("sets") == []
    assert "keeps no set" in run("sets").stdout


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (["set", "x"], ConfigurationError, "give ids, --match or both, or --delete"),
        (["set", "x", "A-USD", "--delete"], ConfigurationError, "or --delete alone"),
        (["set", "../x", "A-USD"], ConfigurationError, "not a name for a set"),
        (["set", "x", "--match", "re:("], ConfigurationError, "no regular expression"),
        (["set", "x", "A USD"], ConfigurationError, "no product id"),
        (["set", "x", "--delete"], UnknownSet, "named 'x'"),
        (["list", "--set", "x"], UnknownSet, "named 'x'"),
        (["list", "--match", "re:("], ConfigurationError, "no regular expression"),
        (["show", "NOPE-USD"], UnknownListed, "does not have NOPE-USD"),
        (["remove", "NOPE-USD", "BTC-USD"], UnknownListed, "does not have NOPE-USD"),
        (["add", "../etc"], ConfigurationError, "no product id"),
    ],
)
def test_what_cannot_be_done_is_named_and_changes_nothing(
    lake: Path, arguments: list[str], error: type[HeadraceError], said: str
) -> None:
    run("sync")
    before = (lake / "_headrace/products-coinbase.json").read_bytes()
    with pytest.raises(error, match=said):
        run(*arguments)
    assert (lake / "_headrace/products-coinbase.json").read_bytes() == before


def test_a_list_that_lacks_most_products_needs_force(lake: Path, sim: SimulatedExchange) -> None:
    run("sync")
    for product in ("BTC-USD", "ETH-USD"):
        sim.put_product(ProductSpec(id=product, trades=1, listing="unknown"))
    with pytest.raises(ListDoubted, match=r"2 of 3 products no longer.*--force"):
        run("sync")
    assert list(states("--state", "online")) == ["BTC-USD", "ETH-EUR", "ETH-USD"]
    assert as_json("sync", "--force")["delisted"] == ["BTC-USD", "ETH-USD"]


def test_one_product_is_shown_with_whether_it_is_stored(lake: Path) -> None:
    run("sync")
    assert as_json("show", "BTC-USD")["stored"] is False
    folder = lake / "raw/trades/exchange=coinbase/product=BTC-USD"
    folder.mkdir(parents=True)
    (folder / "part-000000000001-000000001000.parquet").write_bytes(b"x")
    shown = as_json("show", "BTC-USD")
    assert (shown["stored"], shown["quote_currency"], shown["state"]) == (True, "USD", "online")
    assert "quote currency" in run("show", "BTC-USD").stdout
