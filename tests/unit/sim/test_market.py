"""Tapes: growth on a clock of the test's own, and rows put there by hand."""

from __future__ import annotations

import json

import pytest

from headrace.sim import ProductSpec, SpecError
from headrace.sim.market import Market, Tape


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def market(clock: Clock, **fields: object) -> Market:
    spec = ProductSpec.model_validate({"id": "BTC-USD", "trades": 2500, **fields})
    return Market([spec], seed=7, now_s=1_700_000_000, clock=clock)


def tape(clock: Clock, **fields: object) -> Tape:
    return market(clock, **fields)["BTC-USD"]


def test_a_tape_stands_at_its_last_id(clock: Clock) -> None:
    assert tape(clock).newest_id() == 2500
    assert tape(clock, first_id=734).newest_id() == 3233
    assert tape(clock, trades=0).newest_id() == 0


def test_growth_by_the_second_follows_the_clock(clock: Clock) -> None:
    growing = tape(clock, growth_per_s=5)
    clock.now_s += 2.5
    assert growing.newest_id() == 2512


def test_growth_by_request_follows_the_requests(clock: Clock) -> None:
    growing = tape(clock, growth_per_request=10)
    growing.answered()
    growing.answered()
    assert growing.newest_id() == 2520


def test_an_empty_product_grows_from_its_first_id(clock: Clock) -> None:
    new = tape(clock, trades=0)
    assert new.page(new.newest_id(), 1000) == ([], [])
    new.grow(3)
    assert new.page(new.newest_id(), 1000)[0] == [3, 2, 1]


def test_replaced_rows_are_served_byte_for_byte(clock: Clock) -> None:
    patched = tape(clock)
    text = '{"trade_id": 2499,  "price":"1E-8"}'
    patched.replace_rows({2499: text, 2498: {"trade_id": "2498"}, 2497: None})
    ids, rows = patched.page(2500, 4)
    assert ids == [2500, 2499, 2498, 2496]
    assert rows[1:3] == [text, '{"trade_id":"2498"}']
    assert rows[0] == patched.history.rows_below(2500, 1)[1][0]


def test_holes_do_not_shorten_a_page(clock: Clock) -> None:
    patched = tape(clock)
    patched.replace_rows(dict.fromkeys(range(1500, 1600)))
    ids, _ = patched.page(2500, 1000)
    assert len(ids) == 1000
    assert ids[-1] == 1501 - 100
    assert not set(ids) & set(range(1500, 1600))


def test_rows_above_the_tape_move_its_end(clock: Clock) -> None:
    patched = tape(clock)
    big = 2**53 + 1
    patched.replace_rows({big: {"trade_id": big}})
    assert patched.newest_id() == big
    assert patched.page(big, 2)[0] == [big, 2500]


def test_a_product_may_hold_literal_rows_alone(clock: Clock) -> None:
    literal = tape(clock)
    literal.serve_rows({5: {"trade_id": 5}, 9: {"trade_id": 9}})
    assert literal.newest_id() == 9
    assert literal.page(9, 1000)[0] == [9, 5]
    assert [json.loads(row)["trade_id"] for row in literal.page(8, 1000)[1]] == [5]


def test_delisting_keeps_the_tape(clock: Clock) -> None:
    listed = market(clock)
    listed["BTC-USD"].grow(7)
    listed.put(listed["BTC-USD"].spec.model_copy(update={"listing": "delisted"}))
    assert listed["BTC-USD"].spec.listing == "delisted"
    assert listed["BTC-USD"].newest_id() == 2507


def test_another_spec_starts_another_tape(clock: Clock) -> None:
    listed = market(clock)
    listed["BTC-USD"].grow(7)
    listed.put(ProductSpec(id="BTC-USD", trades=10))
    assert listed["BTC-USD"].newest_id() == 10


def test_a_product_is_listed_once(clock: Clock) -> None:
    spec = ProductSpec(id="BTC-USD")
    with pytest.raises(SpecError, match="twice"):
        Market([spec, spec], seed=7, now_s=0, clock=clock)


def test_an_unlisted_product_is_named(clock: Clock) -> None:
    assert market(clock).get("NOPE-USD") is None
    with pytest.raises(SpecError, match="NOPE-USD"):
        market(clock)["NOPE-USD"]
