"""Each kind of fault is found where it was planted, and an honest lake has none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.checks.checker import Known
from headrace.checks.report import Check
from headrace.coverage import IntervalSet
from headrace.lake.names import product_prefix
from headrace.run.report import Status
from headrace.sim import ExchangeSettings, ProductSpec
from headrace.stopping import StopEvent
from tests.support.checks import (
    NOW,
    PRODUCT,
    CheckedLake,
    Row,
    changed,
    priced,
    rows,
    sized,
    timed,
)

PREFIX = product_prefix("coinbase", PRODUCT)


def older(trades: list[Row], age: timedelta) -> list[Row]:
    """The same trades, so much earlier."""
    return [(at, when - age, price, size) for at, when, price, size in trades]


def two_parts(lake: CheckedLake, *, first: list[Row] | None = None) -> None:
    """Ids 1 to 200 in two parts; the first one may be given."""
    lake.put(1, 100, rows(1, 100, newest=200) if first is None else first)
    lake.put(101, 200, rows(101, 200))


@pytest.mark.parametrize(
    "spec",
    [
        ProductSpec(id=PRODUCT, trades=9_000),
        ProductSpec(id=PRODUCT, trades=20_000, density=0.1, gaps=0.3),
        ProductSpec(id=PRODUCT, trades=3_000, first_id=2_000_001),
        ProductSpec(id=PRODUCT, trades=400, trades_per_s=0.0001),
        ProductSpec(id=PRODUCT, trades=3, trades_per_s=0.00001),
        ProductSpec(id=PRODUCT, trades=4_000, price="0.00000001"),
    ],
    ids=["dense", "sparse", "late", "quiet", "few", "cheap"],
)
def test_an_honest_lake_breaches_nothing(lake: CheckedLake, spec: ProductSpec) -> None:
    history = ExchangeSettings.of(spec, seed=5, now=NOW).history(PRODUCT)
    if spec.first_id > 1:
        hi = (spec.first_id - 1) // 5_000 * 5_000
        lake.put(1, hi, [], holes=1, long_holes=((1, hi),))
    for cell in lake.raw.grid.cells(spec.first_id, spec.last_id):
        hi = min(cell.hi, spec.last_id)
        found = history.columns(cell.lo, hi)
        moments = (datetime.fromtimestamp(us / 1e6, UTC) for us in found.time_us)
        trades = list(zip(found.trade_id, moments, found.price, found.size, strict=True))
        absent = sorted({*range(cell.lo, hi + 1)} - {*found.trade_id})
        holes = IntervalSet.from_ranges((at, at) for at in absent)
        long = tuple(hole for hole in holes if hole[1] - hole[0] >= 999)
        lake.put(cell.lo, hi, trades, holes=len(holes.ranges), long_holes=long)
    result = lake.check()
    assert (result.status, result.breaches, result.error) == (Status.DONE, (), "")
    assert result.rows == history.count(spec.first_id, spec.last_id)
    assert result.newest is not None


def test_missing_ids_are_found_between_the_ends_of_what_is_stored(lake: CheckedLake) -> None:
    lake.put(11, 100, rows(11, 100, newest=300))
    lake.put(151, 300, rows(151, 300))
    [breach] = lake.check().breaches
    assert (breach.check, breach.found, breach.range) == (Check.MISSING, 50, (101, 150))
    assert lake.breaches(max_missing=50) == {}
    assert Check.MISSING in lake.breaches(max_missing=49)


def test_what_the_checkpoint_says_is_stored_is_missing_if_it_is_not(lake: CheckedLake) -> None:
    lake.put(101, 200, rows(101, 200))
    assert lake.breaches() == {}
    noted = IntervalSet.of((1, 220))
    [breach] = lake.check(Known(noted)).breaches
    assert (breach.check, breach.found, breach.range) == (Check.MISSING, 120, (1, 220))


def test_what_a_run_is_just_storing_is_no_breach(lake: CheckedLake) -> None:
    lake.put(1, 100, rows(1, 100, newest=300))
    lake.put(151, 300, rows(151, 300))
    result = lake.check(Known(under_way=lambda: True))
    assert result.status is Status.DONE
    assert result.notes == ("50 ids are missing, and a run is at it",)


def test_a_product_of_which_nothing_is_stored_is_missing(lake: CheckedLake) -> None:
    [breach] = lake.check().breaches
    assert (breach.check, breach.message) == (Check.MISSING, "nothing of it is stored")


def test_a_long_hole_is_found_but_not_the_one_before_the_first_trade(lake: CheckedLake) -> None:
    lake.put(1, 5_000, [], holes=1, long_holes=((1, 5_000),))
    late = rows(7_000, 10_000, newest=15_000)
    lake.put(5_001, 10_000, late, holes=1, long_holes=((5_001, 6_999),))
    lake.put(10_001, 15_000, rows(13_000, 15_000), holes=1, long_holes=((10_001, 12_999),))
    assert lake.breaches() == {}
    [breach] = lake.check(max_hole=2_000).breaches
    assert (breach.check, breach.found, breach.range) == (Check.HOLE, 2_999, (10_001, 12_999))
    assert lake.breaches(max_hole=0) == {}


@pytest.mark.parametrize("value", ["0", "-1.5", "abc", "", "nan", "inf", "1_000", "1e999999999"])
def test_a_price_or_size_that_is_no_number_above_zero(lake: CheckedLake, value: str) -> None:
    two_parts(lake, first=changed(rows(1, 100, newest=200), priced(value), 7, 9))
    [breach] = lake.check().breaches
    assert (breach.check, breach.found, breach.range) == (Check.PRICE, 2, (7, 9))
    assert repr(value) in breach.message
    two_parts(lake, first=changed(rows(1, 100, newest=200), sized(value), 100))
    [breach] = lake.check().breaches
    assert (breach.check, breach.found, breach.range) == (Check.SIZE, 1, (100, 100))


@pytest.mark.parametrize("value", ["1E2", f"100.{'0' * 40}1", "+99", ".5e3"])
def test_a_number_of_any_form_is_one(lake: CheckedLake, value: str) -> None:
    two_parts(lake, first=changed(rows(1, 100, newest=200), priced(value), 7))
    assert lake.breaches() == {}


@pytest.mark.parametrize(
    ("ids", "price", "found", "span"),
    [
        ((50,), "1001", 1, (50, 50)),
        ((50,), "9.99", 1, (50, 50)),
        ((50,), "999", 0, None),
        ((50, 51), "5000", 2, (50, 52)),
        ((20, 60), "5000", 2, (20, 60)),
        ((100,), "5000", 1, (100, 100)),
        ((1,), "5000", 1, (2, 2)),
    ],
)
def test_a_jump_of_the_price_counts_once_with_its_way_back(
    lake: CheckedLake, ids: tuple[int, ...], price: str, found: int, span: tuple[int, int] | None
) -> None:
    two_parts(lake, first=changed(rows(1, 100, newest=200), priced(price), *ids))
    breach = lake.breaches().get(Check.JUMP)
    assert (breach.found if breach else 0, breach.range if breach else None) == (found, span)
    assert lake.breaches(max_jump=0) == lake.breaches(max_jump=1_000) == {}


def test_a_price_that_is_none_does_not_hide_a_jump(lake: CheckedLake) -> None:
    trades = changed(rows(1, 100, newest=200), priced("0"), 50)
    two_parts(lake, first=changed(trades, priced("90000"), *range(51, 101)))
    found = lake.breaches()
    assert found.keys() == {Check.PRICE, Check.JUMP}
    assert found[Check.JUMP].range == (51, 101)


@pytest.mark.parametrize(
    ("at", "moment", "found"),
    [
        (50, NOW - timedelta(hours=3), 1),
        (101, NOW - timedelta(hours=3), 1),
        (50, NOW - timedelta(seconds=195), 0),
        (50, NOW + timedelta(minutes=5), 2),  # in the future, and the one after it is before it
        (200, NOW + timedelta(seconds=30), 0),
        (1, datetime(1970, 1, 1, tzinfo=UTC), 1),
        (50, datetime(1970, 1, 1, tzinfo=UTC), 1),
    ],
)
def test_a_time_that_cannot_be(lake: CheckedLake, at: int, moment: datetime, found: int) -> None:
    trades = changed(rows(1, 200), timed(moment), at)
    lake.put(1, 100, trades[:100])
    lake.put(101, 200, trades[100:])
    breach = lake.breaches().get(Check.TIME)
    assert (breach.found if breach else 0) == found
    if breach:
        assert breach.range is not None
        assert at in (breach.range[0], breach.range[1])
        assert f"{moment:%Y-%m-%d}" in breach.message


@pytest.mark.parametrize("moment", [datetime(1970, 1, 1, tzinfo=UTC), NOW + timedelta(days=9)])
def test_a_time_that_cannot_be_does_not_hide_that_a_product_is_stale(
    lake: CheckedLake, moment: datetime
) -> None:
    trades = older(rows(1, 200), timedelta(hours=2))
    lake.put(1, 100, changed(trades[:100], timed(moment), 50))
    lake.put(101, 200, changed(trades[100:], timed(moment), 200))
    assert lake.breaches().keys() == {Check.TIME, Check.STALE}


def test_how_far_back_times_may_go_is_a_bound(lake: CheckedLake) -> None:
    two_parts(lake, first=changed(rows(1, 100, newest=200), timed(NOW - timedelta(hours=1)), 50))
    assert Check.TIME in lake.breaches(max_back="10m")
    assert lake.breaches(max_back="2h") == {}


def test_ids_out_of_order_and_doubled_in_a_part(lake: CheckedLake) -> None:
    trades = rows(1, 100, newest=200)
    two_parts(lake, first=[*trades[:49], trades[50], trades[49], *trades[51:]])
    [breach] = lake.check().breaches
    assert (breach.check, breach.found, breach.range) == (Check.ORDER, 1, (50, 50))
    two_parts(lake, first=[*trades[:50], trades[49], *trades[51:]])
    [breach] = lake.check().breaches
    assert (breach.check, breach.found, breach.range) == (Check.DUPLICATE, 1, (50, 50))
    two_parts(lake, first=[*trades[:99], trades[9]])
    assert {check: each.found for check, each in lake.breaches().items()} == {
        Check.DUPLICATE: 1,
        Check.ORDER: 1,
        Check.TIME: 1,
    }


def test_trades_in_two_parts_are_doubled(lake: CheckedLake) -> None:
    lake.put(1, 100, rows(1, 100, newest=200))
    lake.put(91, 200, rows(91, 200))
    [breach] = lake.check().breaches
    assert (breach.check, breach.found, breach.range) == (Check.DUPLICATE, 10, (91, 100))


def test_pieces_beside_their_merged_part_are_doubled_unless_a_run_is_at_it(
    lake: CheckedLake,
) -> None:
    lake.put(1, 200, rows(1, 200))
    lake.put(101, 200, rows(101, 200))
    [breach] = lake.check().breaches
    assert (breach.check, breach.found) == (Check.DUPLICATE, 100)
    assert lake.check(Known(under_way=lambda: True)).breaches == ()


def test_a_part_that_cannot_be_read_is_named_and_the_others_are_checked(lake: CheckedLake) -> None:
    lake.put(1, 100, changed(rows(1, 100, newest=300), priced("0"), 7))
    key = lake.put(101, 200, rows(101, 200, newest=300))
    lake.put(201, 300, changed(rows(201, 300), priced("0"), 250))
    lake.store.put(key, lake.store.get(key)[:-100])
    found = lake.breaches()
    assert found.keys() == {Check.UNREADABLE, Check.PRICE}
    assert found[Check.UNREADABLE].range == (101, 200)
    assert "part-000000000101" in found[Check.UNREADABLE].message
    assert found[Check.PRICE].found == 2


def test_text_that_is_none_makes_a_part_unreadable(lake: CheckedLake) -> None:
    lake.put(1, 100, rows(1, 100, price="1XX3", newest=200))
    key = f"{PREFIX}part-000000000001-000000000100.parquet"
    content = lake.store.get(key)
    assert content.count(b"1XX3") == 1
    lake.store.put(key, content.replace(b"1XX3", b"1\xff\xfe3"))
    lake.put(101, 200, rows(101, 200))
    assert lake.breaches().keys() == {Check.UNREADABLE}


@pytest.mark.parametrize(
    ("every_s", "age", "bounds", "stale"),
    [
        (1.0, timedelta(minutes=59), {}, False),
        (1.0, timedelta(minutes=61), {}, True),
        (1.0, timedelta(minutes=61), {"max_age": ["2h"]}, False),
        (1.0, timedelta(minutes=6), {"max_age": ["BTC-USD=5m"]}, True),
        (1.0, timedelta(minutes=6), {"max_age": ["ETH-USD=5m"]}, False),
        (1.0, timedelta(days=9), {"max_age": ["none"]}, False),
        (1.0, timedelta(days=9), {"max_age": ["1h", "*-usd=none"]}, False),
        (3_600.0, timedelta(hours=2), {}, False),
        (3_600.0, timedelta(hours=4), {}, True),
        (3_600.0, timedelta(hours=2), {"max_age": ["btc-*=90m"]}, True),
    ],
)
def test_how_old_the_newest_trade_may_be(
    lake: CheckedLake, every_s: float, age: timedelta, bounds: dict[str, Any], *, stale: bool
) -> None:
    lake.put(1, 100, older(rows(1, 100, every_s=every_s), age))
    result = lake.check(**bounds)
    assert [breach.check for breach in result.breaches] == ([Check.STALE] if stale else [])
    assert result.age_s == pytest.approx(age.total_seconds() + 1)


def test_a_delisted_product_and_one_of_few_trades_are_not_stale(lake: CheckedLake) -> None:
    lake.put(1, 10, older(rows(1, 10), timedelta(days=9)))
    few = lake.check()
    assert (few.breaches, few.notes) == (
        (),
        ("it has too few trades to know how often it trades",),
    )
    assert lake.breaches(max_age=["BTC-USD=1d"]).keys() == {Check.STALE}
    delisted = lake.check(Known(delisted=True), max_age=["BTC-USD=1d"])
    assert (delisted.breaches, len(delisted.notes)) == ((), 1)


def test_only_the_last_part_of_a_history_is_read_if_that_is_asked_for(lake: CheckedLake) -> None:
    hours = rows(1, 300, every_s=360.0)  # thirty hours
    lake.put(1, 100, changed(hours[:100], priced("0"), 50))
    lake.put(101, 200, changed(hours[100:200], priced("0"), 150))
    lake.put(201, 300, hours[200:])
    assert lake.check().parts == 3
    assert lake.breaches()[Check.PRICE].found == 2
    day = lake.check(last="12h")
    assert (day.parts, day.rows, day.breaches[0].range) == (2, 200, (150, 150))
    hour = lake.check(last="1h")
    assert (hour.parts, hour.breaches) == (1, ())
    # However old it is, the newest part with trades says how old the newest trade is.
    lake.put(1, 100, changed(hours[:100], timed(NOW - timedelta(days=9)), *range(1, 101)))
    for lo in (101, 201):
        lake.store.delete(f"{PREFIX}part-{lo:012}-{lo + 99:012}.parquet")
    lake.put(101, 200, [], holes=1)
    old = lake.check(last="1h")
    assert (old.parts, [breach.check for breach in old.breaches]) == (2, [Check.STALE])


def test_a_stop_ends_a_check(lake: CheckedLake) -> None:
    from headrace.checks.checker import checked
    from headrace.checks.request import CheckRequest

    two_parts(lake)
    stop = StopEvent()
    stop.set()
    request = CheckRequest.checked(lake="x")
    found = checked(lake.raw, PRODUCT, request, Known(), now=NOW, stop=stop)
    assert found.status is Status.FAILED


def test_a_check_changes_nothing(lake: CheckedLake) -> None:
    two_parts(lake)
    before = {each.key: lake.store.get(each.key) for each in lake.store.entries(PREFIX)}
    lake.check()
    assert {each.key: lake.store.get(each.key) for each in lake.store.entries(PREFIX)} == before
