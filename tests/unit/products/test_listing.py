"""A sync merges: what users did stays, and what the exchange drops is marked, not forgotten."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace.exchange.client import ProductInfo
from headrace.products.listing import Changes, NamedSet, ProductList, doubt

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
TUESDAY = MONDAY + timedelta(days=1)
SOURCE = "exchange.example"


def info(product: str, status: str | None = "online") -> ProductInfo:
    base, _, quote = product.partition("-")
    return ProductInfo(product, base, quote, status, trading_disabled=status != "online")


def synced(
    before: ProductList, *products: ProductInfo | str, now: datetime = MONDAY, source: str = SOURCE
) -> tuple[ProductList, Changes]:
    listed = [each if isinstance(each, ProductInfo) else info(each) for each in products]
    return before.with_listed(listed, source=source, now=now)


def states(kept: ProductList) -> dict[str, str]:
    return {each.id: kept.state(each) for each in kept.products}


def test_the_first_sync_takes_everything_as_the_exchange_has_it() -> None:
    kept, changes = synced(
        ProductList(), "ETH-USD", "btc-usd", info("OLD-USD", "delisted"), info("IN-USD", None)
    )
    assert changes == Changes(new=("BTC-USD", "ETH-USD", "IN-USD", "OLD-USD"))
    assert states(kept) == {
        "BTC-USD": "online",
        "ETH-USD": "online",
        "IN-USD": "online",
        "OLD-USD": "delisted",
    }
    assert kept.online() == ["BTC-USD", "ETH-USD", "IN-USD"]
    eth = kept.get("ETH-USD")
    assert eth is not None
    assert (eth.base_currency, eth.quote_currency, eth.first_seen) == ("ETH", "USD", MONDAY)


def test_what_the_exchange_drops_is_marked_and_comes_back() -> None:
    kept, _ = synced(ProductList(), "A-USD", "B-USD", "C-USD", "D-USD")
    gone, changes = synced(kept, "A-USD", "C-USD", info("D-USD", "delisted"), now=TUESDAY)
    assert changes == Changes(delisted=("B-USD", "D-USD"))
    assert gone.delisted() == {"B-USD", "D-USD"}
    entry = gone.get("B-USD")
    assert entry is not None
    assert (entry.first_seen, entry.last_seen) == (MONDAY, MONDAY)
    # It is news once.
    again, changes = synced(gone, "A-USD", "C-USD", info("D-USD", "delisted"), now=TUESDAY)
    assert changes == Changes()
    back, changes = synced(again, "A-USD", "B-USD", "C-USD", "D-USD", now=TUESDAY)
    assert changes == Changes(relisted=("B-USD", "D-USD"))
    assert back.delisted() == frozenset()


def test_a_status_that_is_not_online_is_not_fetched_and_not_delisted() -> None:
    kept, _ = synced(ProductList(), "A-USD", info("B-USD", "offline"))
    assert (kept.online(), kept.delisted()) == (["A-USD"], frozenset())
    assert states(kept)["B-USD"] == "offline"


def test_what_users_did_stays_on_a_merge() -> None:
    kept, _ = synced(ProductList(), "A-USD", "B-USD")
    kept = kept.with_added(["MINE-USD"]).with_removed(["B-USD"])
    kept = kept.with_set(NamedSet("some", ("Z-USD",), ("*-USD",)))
    merged, changes = synced(kept, "A-USD", "B-USD", "C-USD", now=TUESDAY)
    assert changes.new == ("C-USD",)
    assert states(merged) == {
        "A-USD": "online",
        "B-USD": "removed",
        "C-USD": "online",
        "MINE-USD": "added",
    }
    assert merged.online() == ["A-USD", "C-USD", "MINE-USD"]
    some = merged.set_named("some")
    assert some is not None
    assert some.members(merged.ids()) == ["Z-USD", "A-USD", "C-USD", "MINE-USD"]
    # What was added and is listed then follows the exchange.
    listed, changes = synced(merged, "A-USD", "B-USD", "C-USD", "MINE-USD", now=TUESDAY)
    assert changes.new == ("MINE-USD",)
    gone, changes = synced(listed, "A-USD", "B-USD", "C-USD", now=TUESDAY)
    assert (states(gone)["MINE-USD"], changes.delisted) == ("delisted", ("MINE-USD",))


def test_adding_undoes_removing_and_removing_undoes_adding() -> None:
    kept, _ = synced(ProductList(), "A-USD")
    assert kept.with_removed(["A-USD"]).with_added(["A-USD"]).online() == ["A-USD"]
    assert kept.with_added(["X-USD"]).with_removed(["X-USD"]).get("X-USD") is None


def test_ids_that_could_become_paths_are_left_out_and_named() -> None:
    kept, changes = synced(ProductList(), "A-USD", "../../etc", "B USD", "")
    assert kept.ids() == ["A-USD"]
    assert changes.ignored == ("../../etc", "B USD", "")


@pytest.mark.parametrize(
    ("after", "source", "said"),
    [
        ([], SOURCE, "lists no product at all"),
        (["A-USD"], SOURCE, "lists 3 of 4 products no longer"),
        (["A-USD", "B-USD", "C-USD", "D-USD"], "other.example", "is that of exchange.example"),
        (["A-USD", "B-USD", "NEW-USD"], SOURCE, ""),
        (["A-USD", "B-USD", "C-USD", "D-USD"], SOURCE, ""),
    ],
)
def test_a_list_that_is_rather_a_mistake_is_doubted(
    after: list[str], source: str, said: str
) -> None:
    kept, _ = synced(ProductList(), "A-USD", "B-USD", "C-USD", "D-USD")
    listed = [info(product) for product in after]
    merged, _ = kept.with_listed(listed, source=source, now=TUESDAY)
    reason = doubt(kept, merged, listed)
    assert said in reason
    assert bool(reason) == bool(said)
