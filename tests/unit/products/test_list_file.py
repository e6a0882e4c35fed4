"""The list as a file: written as a whole by one at a time, and never taken for another."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Thread

import pytest

from headrace.exchange.exceptions import UnknownProduct
from headrace.lake.local import LocalStore
from headrace.lake.names import product_prefix
from headrace.leases import LeaseHeld, SqliteLeases, hold
from headrace.products import list_file as module
from headrace.products.list_file import ListDamaged, change_list, kept_list, list_key, with_closest
from headrace.products.listing import ListedProduct, NamedSet, ProductList


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake")


@pytest.fixture
def leases(tmp_path: Path) -> SqliteLeases:
    return SqliteLeases(tmp_path / "leases")


def add(store: LocalStore, leases: SqliteLeases, products: Iterable[str]) -> ProductList:
    return change_list(store, "coinbase", leases, lambda kept: kept.with_added(products))


def test_a_lake_without_a_list_has_an_empty_one_and_gets_none(store: LocalStore) -> None:
    assert kept_list(store, "coinbase") == ProductList()
    assert not Path(store.location).exists()


def test_what_is_changed_is_read_back(store: LocalStore, leases: SqliteLeases) -> None:
    added = add(store, leases, ["A-USD"])
    named = NamedSet("x", ("A-USD",), ("*-EUR",))
    after = change_list(store, "coinbase", leases, lambda kept: kept.with_set(named))
    assert kept_list(store, "coinbase") == after
    assert (after.products, after.sets) == (added.products, (named,))
    assert after.products == (ListedProduct("A-USD", added=True),)


def test_a_change_that_is_refused_changes_nothing(store: LocalStore, leases: SqliteLeases) -> None:
    add(store, leases, ["A-USD"])

    def refuse(_kept: ProductList) -> ProductList:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        change_list(store, "coinbase", leases, refuse)
    assert kept_list(store, "coinbase").ids() == ["A-USD"]


def test_two_who_change_it_at_once_lose_nothing(store: LocalStore, leases: SqliteLeases) -> None:
    threads = [Thread(target=add, args=(store, leases, [f"P{n}-USD"])) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept_list(store, "coinbase").ids() == [f"P{n}-USD" for n in range(8)]


def test_a_change_that_never_ends_is_not_waited_for(
    store: LocalStore, leases: SqliteLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.0)
    name = f"coinbase/products@{module.location_digest(store.location)}"
    with hold(leases, name, run_id="another"), pytest.raises(LeaseHeld, match="another"):
        add(store, leases, ["A-USD"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "does not hold a list"),
        (b"[]", "does not hold a list"),
        (b'{"schema_version":1,"products":[{"id":7}]}', "does not hold a list"),
        (b'{"schema_version":1,"colour":"blue"}', "colour"),
        (b'{"schema_version":2,"colour":"blue"}', "schema version 2.*Upgrade"),
    ],
)
def test_what_is_no_list_is_named_and_left_alone(
    store: LocalStore, leases: SqliteLeases, content: bytes, said: str
) -> None:
    store.put(list_key("coinbase"), content)
    with pytest.raises(ListDamaged, match=said):
        kept_list(store, "coinbase")
    with pytest.raises(ListDamaged):
        add(store, leases, ["A-USD"])
    assert store.get(list_key("coinbase")) == content


def test_an_unknown_product_is_answered_with_the_closest_one(
    store: LocalStore, leases: SqliteLeases
) -> None:
    error = UnknownProduct("the exchange does not know it (404)", product="BTC-UDS", hint="Look.")
    assert with_closest(error, store, "coinbase") == str(error)
    # What is stored counts as well, but for the folder of the wrong id itself.
    for product in ("BTC-EUR", "BTC-UDS"):
        store.put(f"{product_prefix('coinbase', product)}/part-1.parquet", b"x")
    add(store, leases, ["BTC-USD", "BTC-USDT", "ETH-USD"])
    assert with_closest(error, store, "coinbase") == (
        "BTC-UDS: the exchange does not know it (404). Did you mean BTC-USD? Look."
    )
    Path(store.location, list_key("coinbase")).write_bytes(b"no list")
    assert str(error) == with_closest(error, store, "coinbase")
