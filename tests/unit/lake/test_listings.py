"""A product as one listing showed it, and the listings of many products read together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.lake import RawLake
from headrace.lake.failing_store import FaultyStore
from headrace.lake.grid import Grid
from headrace.lake.listings import FRESH_S, ListedLake, Listings
from headrace.lake.local import LocalStore
from headrace.lake.s3 import S3Store
from headrace.lake.s3_settings import S3Settings
from tests.lake_samples import FETCHED_AT, SOURCE, trades

PRODUCT = "BTC-USD"


@pytest.fixture
def store(tmp_path: Path) -> FaultyStore:
    return FaultyStore(LocalStore(tmp_path / "lake"))


@pytest.fixture
def lake(store: FaultyStore) -> RawLake:
    lake = RawLake(store, "coinbase", Grid(16))
    for lo in (1, 1001):
        write(lake, PRODUCT, lo)
    store.calls.clear()
    return lake


def write(lake: RawLake, product: str, lo: int) -> None:
    rows = trades(range(lo, lo + 1000))
    lake.write(product, lo, lo + 999, rows, source=SOURCE, fetched_at=FETCHED_AT)


def reads(store: FaultyStore) -> list[str]:
    return [action for action, _ in store.calls if action in ("get", "tail", "entries")]


def test_what_a_run_asks_first_takes_one_object_beside_the_listing(
    lake: RawLake, store: FaultyStore
) -> None:
    listed = ListedLake(lake, PRODUCT, lake.parts(PRODUCT))
    assert listed.coverage(PRODUCT) == lake.coverage(PRODUCT)
    store.calls.clear()

    assert listed.newest_sources("btc-usd") == (SOURCE,)
    assert listed.newest(PRODUCT).trade_id == 2000
    assert listed.read(PRODUCT, 1500, 2000).equals(trades(range(1500, 2001)))
    assert reads(store) == ["get"]

    assert listed.first_id(PRODUCT) == 1
    assert reads(store) == ["get", "tail"]


def test_a_listing_is_believed_until_a_part_of_it_is_gone(
    lake: RawLake, store: FaultyStore
) -> None:
    listed = ListedLake(lake, PRODUCT, lake.parts(PRODUCT))
    write(lake, PRODUCT, 2001)
    assert listed.newest(PRODUCT).trade_id == 2000

    lake.merge(PRODUCT, lake.parts(PRODUCT).parts)

    assert listed.stats(PRODUCT).rows == 3000
    assert listed.newest(PRODUCT).trade_id == 3000


def test_another_product_is_listed_as_ever(lake: RawLake) -> None:
    listed = ListedLake(lake, PRODUCT, lake.parts(PRODUCT))
    write(lake, "ETH-USD", 1)
    assert listed.newest("ETH-USD").trade_id == 1000


class Boto:
    """An S3 client over a dictionary of sizes, which lists by key and counts."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = sorted(keys)
        self.asked: list[str] = []

    def list_objects_v2(self, **where: Any) -> dict[str, Any]:
        after = where.get("StartAfter", "")
        self.asked.append(after)
        found = [key for key in self.keys if key.startswith(where["Prefix"]) and key > after]
        page = found[: where["MaxKeys"]]
        contents = [{"Key": key, "Size": 1} for key in page]
        return {"Contents": contents, "IsTruncated": len(found) > len(page)}


def part(product: str, nth: int) -> str:
    lo = 1000 * nth + 1
    name = f"part-{lo:012d}-{lo + 999:012d}.parquet"
    return f"p/raw/trades/exchange=coinbase/product={product}/{name}"


def s3_lake(keys: list[str], *, listing_page: int) -> tuple[RawLake, Boto]:
    boto = Boto(keys)
    settings = S3Settings(endpoint_url="http://127.0.0.1:9", listing_page=listing_page)
    store = S3Store("lake", "p", settings, client=boto)  # type: ignore[arg-type]
    return RawLake(store, "coinbase", Grid(16)), boto


def test_four_hundred_products_take_a_request_per_page_of_objects() -> None:
    products = [f"P{n:03d}-USD" for n in range(400)]
    lake, boto = s3_lake([part(p, n) for p in products for n in range(5)], listing_page=1000)
    listings = Listings(lake, products)
    for product in products:
        assert listings.listed(product).coverage(product).ranges == ((1, 5000),)
    assert len(boto.asked) == 3


def test_a_folder_is_listed_when_its_product_is_asked_for(
    lake: RawLake, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To prepare what is listed later would take a time that grows with the square of a run."""
    asked: list[list[str]] = []
    listing = store.listings
    monkeypatch.setattr(store, "listings", lambda names: listing(asked.append([*names]) or names))
    listings = Listings(lake, [PRODUCT, "ETH-USD", "ZEC-USD"])
    assert len(listings.listed(PRODUCT).parts(PRODUCT).parts) == 2
    write(lake, "ETH-USD", 1)
    assert len(listings.listed("ETH-USD").parts("ETH-USD").parts) == 1
    assert [len(names) for names in asked] == [1, 1]


def test_what_is_not_asked_for_is_passed_over_and_long_products_are_read_to_their_end() -> None:
    others = [part(f"M{n}-USD", at) for n in range(9) for at in range(50)]
    long = [part("ZZZ-USD", at) for at in range(25)]
    lake, boto = s3_lake([part("AAA-USD", 0), *others, *long], listing_page=10)
    listings = Listings(lake, ["ZZZ-USD", "NEW-USD", "AAA-USD"])
    found = {p: len(listings.listed(p).parts(p).parts) for p in ("ZZZ-USD", "NEW-USD", "AAA-USD")}
    assert found == {"ZZZ-USD": 25, "NEW-USD": 0, "AAA-USD": 1}
    # Three of ten for the long one, and one for each of the others, as if each were listed alone.
    assert len(boto.asked) == 5


def test_a_listing_read_ahead_is_read_again_when_it_may_be_old() -> None:
    lake, boto = s3_lake([part("A-USD", 0), part("B-USD", 0)], listing_page=1000)
    now = [0.0]
    listings = Listings(lake, ["A-USD", "B-USD"], clock=lambda: now[0])
    listings.listed("A-USD")
    boto.keys.append(part("B-USD", 1))
    now[0] = FRESH_S + 1
    assert len(listings.listed("B-USD").parts("B-USD").parts) == 2
    boto.keys.append(part("B-USD", 2))
    assert len(listings.listed("B-USD").parts("B-USD").parts) == 3  # a second look is a new one
    assert len(boto.asked) == 3
