"""The exchange's answers, without a wire."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl

import pytest

from headrace.sim import Empty, Stale, Stuck, parse_product
from headrace.sim.actions import PageAction
from headrace.sim.exchange import ExchangeApi
from headrace.sim.http import Reply, Request
from headrace.sim.market import Market

PRODUCTS = [
    "BTC-USD:2500,price=60000",
    "NEW-USD:0",
    "LATE-USD:767,first_id=734",
    "GONE-USD:500,listing=delisted",
    "LOST-USD:500,listing=unknown",
    "BAD-USD:500,listing=invalid",
    "LIVE-USD:100,growth_per_request=10",
]


@pytest.fixture
def api() -> ExchangeApi:
    specs = [parse_product(text) for text in PRODUCTS]
    return ExchangeApi(Market(specs, seed=7, now_s=1_700_000_000, clock=lambda: 0.0))


def ask(
    api: ExchangeApi,
    target: str,
    on_page: PageAction | None = None,
    method: str = "GET",
    agent: str = "t",
) -> Reply:
    path, _, query = target.partition("?")
    parsed = dict(parse_qsl(query, keep_blank_values=True))
    request = Request(method, target, path, parsed, {"user-agent": agent}, b"", 0.0)
    return api.answer(request, on_page)


def ids(reply: Reply) -> list[int]:
    assert reply.status == 200
    return [row["trade_id"] for row in json.loads(reply.body)]


def test_the_first_page_is_the_newest_thousand(api: ExchangeApi) -> None:
    reply = ask(api, "/products/BTC-USD/trades")
    assert ids(reply) == list(range(2500, 1500, -1))
    assert reply.headers == {"CB-BEFORE": "2500", "CB-AFTER": "1501"}


def test_after_is_exclusive_and_goes_to_older_ids(api: ExchangeApi) -> None:
    assert ids(ask(api, "/products/BTC-USD/trades?after=1000&limit=3")) == [999, 998, 997]
    assert ids(ask(api, "/products/BTC-USD/trades?after=2&limit=3")) == [1]


def test_a_cursor_above_the_newest_gives_the_newest(api: ExchangeApi) -> None:
    assert ids(ask(api, "/products/BTC-USD/trades?after=999999999999&limit=1")) == [2500]


def test_past_the_beginning_lies_an_empty_page_without_cursors(api: ExchangeApi) -> None:
    for target in ("BTC-USD/trades?after=1", "LATE-USD/trades?after=734", "NEW-USD/trades"):
        reply = ask(api, f"/products/{target}")
        assert (reply.status, reply.body, reply.headers) == (200, b"[]", {})


@pytest.mark.parametrize("cursor", ["0", "-5", "x", "1.5", "", "9007199254740993.0", "١"])
def test_a_cursor_below_one_is_refused(api: ExchangeApi, cursor: str) -> None:
    reply = ask(api, f"/products/BTC-USD/trades?after={cursor}")
    assert reply.status == 400
    assert json.loads(reply.body) == {"message": "after cursor value is not valid"}


def test_the_limit_is_a_thousand_at_most(api: ExchangeApi) -> None:
    assert len(ids(ask(api, "/products/BTC-USD/trades?limit=5000"))) == 1000
    assert ask(api, "/products/BTC-USD/trades?limit=0").status == 400
    assert ask(api, "/products/BTC-USD/trades?limit=ten").status == 400


def test_before_is_refused(api: ExchangeApi) -> None:
    assert ask(api, "/products/BTC-USD/trades?before=5").status == 400


def test_who_names_no_agent_is_refused(api: ExchangeApi) -> None:
    reply = ask(api, "/products/BTC-USD/trades", agent="")
    assert (reply.status, json.loads(reply.body)) == (
        400,
        {"message": "User-Agent header is required."},
    )


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/products/NOPE-USD",
        "/products/NOPE-USD/ticker",
        "/products/NOPE-USD/trades",
        "/products/LOST-USD/trades",
        "/products/BTC-USD/candles",
        "/products/BTC-USD/trades/1",
    ],
)
def test_what_is_not_there_is_not_found(api: ExchangeApi, target: str) -> None:
    reply = ask(api, target)
    assert (reply.status, json.loads(reply.body)) == (404, {"message": "NotFound"})


def test_only_reading_is_offered(api: ExchangeApi) -> None:
    assert ask(api, "/products/BTC-USD/trades", method="POST").status == 404


def test_the_three_ways_of_being_gone(api: ExchangeApi) -> None:
    assert ask(api, "/products/GONE-USD/trades").body == b"[]"
    assert ask(api, "/products/BAD-USD/trades").status == 400
    listed = {p["id"]: p["status"] for p in json.loads(ask(api, "/products").body)}
    assert listed["GONE-USD"] == listed["BAD-USD"] == "delisted"
    assert "LOST-USD" not in listed


def test_products_carry_the_documented_fields(api: ExchangeApi) -> None:
    product = json.loads(ask(api, "/products/BTC-USD").body)
    assert product["id"] == "BTC-USD"
    assert (product["base_currency"], product["quote_currency"]) == ("BTC", "USD")
    assert (product["status"], product["trading_disabled"]) == ("online", False)
    assert product in json.loads(ask(api, "/products").body)


def test_the_ticker_carries_the_newest_trade(api: ExchangeApi) -> None:
    ticker = json.loads(ask(api, "/products/BTC-USD/ticker").body)
    newest = json.loads(ask(api, "/products/BTC-USD/trades?limit=1").body)[0]
    assert {name: ticker[name] for name in ("trade_id", "price", "size", "time")} == {
        name: newest[name] for name in ("trade_id", "price", "size", "time")
    }
    assert ask(api, "/products/NEW-USD/ticker").body == b"{}"


def test_a_product_may_grow_while_it_is_read(api: ExchangeApi) -> None:
    assert ids(ask(api, "/products/LIVE-USD/trades?limit=1")) == [100]
    assert ids(ask(api, "/products/LIVE-USD/trades?after=50&limit=1")) == [49]
    assert ids(ask(api, "/products/LIVE-USD/trades?limit=1")) == [120]


def test_a_stuck_page_is_the_same_for_every_cursor(api: ExchangeApi) -> None:
    for query in ("", "?after=1000", "?after=5"):
        page = ids(ask(api, f"/products/BTC-USD/trades{query}", Stuck(newest=2000)))
        assert page == list(range(2000, 1000, -1))
    assert ids(ask(api, "/products/BTC-USD/trades?after=5", Stuck()))[0] == 2500


def test_a_stale_page_is_an_older_newest_page(api: ExchangeApi) -> None:
    assert ids(ask(api, "/products/BTC-USD/trades", Stale(behind=50)))[0] == 2450
    assert ask(api, "/products/BTC-USD/trades", Stale(behind=9999)).body == b"[]"


def test_an_empty_page_hides_what_is_there(api: ExchangeApi) -> None:
    assert ask(api, "/products/BTC-USD/trades?after=2000", Empty()).body == b"[]"
