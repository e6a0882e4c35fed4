"""Five ways to name products, one at a time; what each means for a fetch and for a look."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ConfigurationError
from headrace.exchange.client import ProductInfo
from headrace.lake.exceptions import LakeUnusable
from headrace.lake.local import LocalStore
from headrace.lake.names import product_prefix
from headrace.leases import SqliteLeases
from headrace.products.choice import (
    Chosen,
    ListFileUnusable,
    NoList,
    NothingChosen,
    NothingStored,
    NotInLake,
    ProductChoice,
    StoredChoice,
    UnknownSet,
    to_fetch,
    to_look_at,
)
from headrace.products.list_file import change_list
from headrace.products.listing import NamedSet, ProductList

NOW = datetime(2026, 3, 2, tzinfo=UTC)
STORED = ["BTC-USD", "GONE-USD", "OLD-USD", "XRP-EUR"]


@pytest.fixture
def empty(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake")


@pytest.fixture
def store(empty: LocalStore, tmp_path: Path) -> LocalStore:
    """Listed: BTC-USD, ETH-USD, ETH-EUR (removed), OLD-USD (delisted), OFF-USD (offline)."""

    def change(kept: ProductList) -> ProductList:
        statuses = {"BTC-USD": "online", "ETH-USD": "online", "ETH-EUR": "online"}
        statuses |= {"OLD-USD": "delisted", "OFF-USD": "offline"}
        listed = [ProductInfo(name, status=status) for name, status in statuses.items()]
        kept, _ = kept.with_listed(listed, source="here", now=NOW)
        kept = kept.with_added(["MINE-USD"]).with_removed(["ETH-EUR"])
        kept = kept.with_set(NamedSet("usd", match=("*-USD",)))
        kept = kept.with_set(NamedSet("eth", ("ETH-EUR", "NEW-USD"), ("ETH-*",)))
        return kept.with_set(NamedSet("old", ("OLD-USD",)))

    change_list(empty, "coinbase", SqliteLeases(tmp_path / "leases"), change)
    return empty


def fetched(store: LocalStore, **choice: Any) -> Chosen:
    return to_fetch(ProductChoice.checked(**choice), store, "coinbase")


def looked_at(store: LocalStore, *, strict: bool = False, **choice: Any) -> Chosen:
    for product in STORED:
        store.put(f"{product_prefix('coinbase', product)}x", b"")
    return to_look_at(StoredChoice.checked(**choice), store, "coinbase", strict=strict)


@pytest.mark.parametrize(
    ("choice", "products", "left_out"),
    [
        ({"products": ["OLD-USD", "any-one"]}, ("OLD-USD", "ANY-ONE"), ()),
        ({"match": ["*-USD"]}, ("BTC-USD", "ETH-USD", "MINE-USD"), ("OFF-USD", "OLD-USD")),
        ({"match": ["re:eth.*", "BTC-*"]}, ("BTC-USD", "ETH-USD"), ()),
        ({"set": "usd"}, ("BTC-USD", "ETH-USD", "MINE-USD"), ("OFF-USD", "OLD-USD")),
        ({"set": "eth"}, ("NEW-USD", "ETH-USD"), ()),
        ({"all": True}, ("BTC-USD", "ETH-USD", "MINE-USD"), ()),
    ],
)
def test_a_fetch_takes_what_is_online(
    store: LocalStore, choice: dict[str, Any], products: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    chosen = fetched(store, **choice)
    assert (chosen.products, chosen.left_out) == (products, left_out)


@pytest.mark.parametrize(
    ("choice", "products"),
    [
        ({}, tuple(STORED)),
        ({"products": ["XRP-EUR", "btc-usd"]}, ("XRP-EUR", "BTC-USD")),
        ({"match": ["*-USD"]}, ("BTC-USD", "GONE-USD", "OLD-USD")),
        ({"set": "usd"}, ("BTC-USD", "GONE-USD", "OLD-USD")),
        ({"set": "old"}, ("OLD-USD",)),
        ({"set": "eth"}, ("ETH-EUR", "NEW-USD")),
        ({"all": True}, tuple(STORED)),
    ],
)
def test_a_look_takes_what_is_stored_delisted_or_not(
    store: LocalStore, choice: dict[str, Any], products: tuple[str, ...]
) -> None:
    chosen = looked_at(store, **choice)
    assert chosen.products == products
    assert chosen.delisted == {"OLD-USD"} & set(products)


def test_how_products_were_named_is_said_in_one_line(store: LocalStore) -> None:
    assert fetched(store, products=["A"]).described() == ""
    said = fetched(store, match=["*-USD"]).described()
    assert said == "--match *-USD: 3 products (not online, left out: OFF-USD, OLD-USD)"
    assert looked_at(store).described() == ""
    assert looked_at(store, all=True).described() == "--all: 4 products"


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({}, "no product is named; give product ids, --match, --set, --all or --from-file"),
        ({"products": [], "match": [], "set": "", "all": False}, "no product is named"),
        ({"products": ["A"], "all": True}, "product ids and --all both say which products"),
        ({"match": ["*"], "set": "x"}, "--match and --set both say"),
        ({"all": True, "from_file": "x"}, "--all and --from-file both say"),
        ({"match": ["re:("]}, "is no regular expression"),
        ({"match": [""]}, "is no pattern"),
        ({"products": ["../etc"]}, "is no product id"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(choice: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ProductChoice.checked(**choice)


def test_a_choice_that_means_nothing_is_refused(store: LocalStore, empty: LocalStore) -> None:
    with pytest.raises(NothingChosen, match=r"--match BTC: .*Patterns match whole ids"):
        fetched(store, match=["BTC"])
    with pytest.raises(NothingChosen, match="not online: OLD-USD"):
        fetched(store, set="old")
    with pytest.raises(NothingChosen, match="It holds BTC-USD"):
        looked_at(store, match=["ETH-*"])
    with pytest.raises(UnknownSet, match=r"named 'nope'.*It keeps eth, old, usd"):
        fetched(store, set="nope")
    with pytest.raises(UnknownSet):
        looked_at(store, set="nope")


def test_an_id_that_is_not_stored_is_refused_unless_a_set_names_it(store: LocalStore) -> None:
    with pytest.raises(NotInLake, match=r"holds nothing of C, D.*It holds BTC-USD, GONE-USD"):
        looked_at(store, products=["C", "BTC-USD", "D"])
    assert looked_at(store, set="eth").products == ("ETH-EUR", "NEW-USD")
    with pytest.raises(NotInLake, match="holds nothing of ETH-EUR, NEW-USD"):
        looked_at(store, set="eth", strict=True)


def test_a_lake_without_trades_is_not_looked_at_and_not_made(empty: LocalStore) -> None:
    with pytest.raises(NothingStored, match=empty.location):
        to_look_at(StoredChoice(), empty, "coinbase")
    assert not Path(empty.location).exists()
    Path(empty.location).write_text("a file")
    with pytest.raises(LakeUnusable, match="Not a directory"):
        to_look_at(StoredChoice(), empty, "coinbase")


def test_without_a_list_only_ids_and_files_can_be_fetched(empty: LocalStore) -> None:
    for choice in ({"all": True}, {"match": ["*"]}):
        with pytest.raises(NoList, match="headrace products sync"):
            fetched(empty, **choice)
    assert fetched(empty, products=["A"]).products == ("A",)
    assert looked_at(empty, match=["*-USD"]).products == ("BTC-USD", "GONE-USD", "OLD-USD")


def test_a_file_may_have_comments_blank_lines_a_mark_and_line_ends_of_windows(
    empty: LocalStore, tmp_path: Path
) -> None:
    path = tmp_path / "ids.txt"
    path.write_bytes(b"\xef\xbb\xbf# ours\r\n\r\nbtc-usd  # the first\r\n  ETH-USD\nBTC-USD\r\n")
    assert fetched(empty, from_file=str(path)).products == ("BTC-USD", "ETH-USD")
    with pytest.raises(NotInLake, match="holds nothing of ETH-USD"):
        looked_at(empty, from_file=str(path))
    assert ProductChoice.checked(from_file=str(path)).of_file() == {
        "products": ["BTC-USD", "ETH-USD"],
        "from_file": "",
    }
    assert ProductChoice.checked(all=True).of_file() == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"", "there is no id in it"),
        (b"# nothing\n\n", "there is no id in it"),
        (b"BTC-USD\n\nBTC USD\n", "line 3: 'BTC USD' is no product id"),
        (b"BTC-USD,ETH-USD\n", "line 1: "),
        (b"\xff\xfeB\x00", "no UTF-8 text"),
        (b"A\n" * 2_100_000, "too large"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    empty: LocalStore, tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "ids.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ListFileUnusable, match=said) as refused:
        fetched(empty, from_file=str(path))
    assert str(path) in str(refused.value)
    with pytest.raises(ListFileUnusable, match="directory"):
        fetched(empty, from_file=str(tmp_path))


def test_a_request_about_chosen_products_names_them_and_nothing_else() -> None:
    request = ProductChoice.checked(match=["*"]).of(["A", "B"])
    assert (request.products, request.match, request.way) == (("A", "B"), (), "")
