"""The simulated exchange's answers: Coinbase Exchange's public market data, as its wire has it.

What is not documented and never recorded is decided here once: a `limit` above 1,000 counts as
1,000, the ticker of a product without trades is `{}`, and `before`, whose page order is unclear, is
refused so that no client builds on a guess.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from headrace.sim.actions import Empty, PageAction, Stale, Stuck
from headrace.sim.catalogue import ProductSpec
from headrace.sim.faults import Subject
from headrace.sim.http import Reply, Request
from headrace.sim.market import Market, Tape

_MAX_LIMIT = 1000
_INVALID = '{"message":"product_id is not a valid product"}'


class ExchangeApi:
    """Routes of the exchange over a market; no clock, no wire, no faults but those on pages."""

    def __init__(self, market: Market) -> None:
        self._market = market

    def subject(self, request: Request) -> Subject:
        """What a request is about, for faults and statistics; never raises."""
        match request.path.strip("/").split("/"):
            case ["products"]:
                return Subject("products")
            case ["products", product]:
                return Subject("product", product)
            case ["products", product, "ticker"]:
                return Subject("ticker", product)
            case ["products", product, "trades"]:
                return Subject("trades", product, integer_of(request.query.get("after", "")))
            case _:
                return Subject("any")

    def answer(self, request: Request, on_page: PageAction | None = None) -> Reply:
        """The reply to a request that nothing went wrong with.

        Args:
            request: a read of market data.
            on_page: what a fault does to the page of trades.
        """
        if not request.headers.get("user-agent"):
            return _error(400, "User-Agent header is required.")
        subject = self.subject(request)
        if request.method != "GET" or subject.endpoint == "any":
            return _error(404, "NotFound")
        if subject.endpoint == "products":
            listed = [spec for spec in self._market.specs() if spec.listing != "unknown"]
            return _json([_product(spec) for spec in listed])
        tape = self._market.get(subject.product or "")
        if tape is None or tape.spec.listing == "unknown":
            return _error(404, "NotFound")
        if tape.spec.listing == "invalid":
            return Reply(400, _INVALID.encode())
        if subject.endpoint == "product":
            return _json(_product(tape.spec))
        if subject.endpoint == "ticker":
            return _ticker(tape)
        return _trades(tape, request, on_page)


def _trades(tape: Tape, request: Request, on_page: PageAction | None) -> Reply:
    after, limit, before = (request.query.get(name) for name in ("after", "limit", "before"))
    if before is not None:
        return _error(400, "before cursor is not supported by the simulated exchange")
    size = _MAX_LIMIT if limit is None else integer_of(limit)
    if size is None or size < 1:
        return _error(400, "Invalid limit")
    newest = tape.newest_id()
    if after is None:
        top = newest - (on_page.behind if isinstance(on_page, Stale) else 0)
    else:
        cursor = integer_of(after)
        if cursor is None or cursor < 1:
            return _error(400, "after cursor value is not valid")
        top = min(newest, cursor - 1)
    if isinstance(on_page, Stuck):
        top = on_page.newest or newest
    tape.answered()
    if tape.spec.listing == "delisted" or isinstance(on_page, Empty) or top < 1:
        return Reply(200, b"[]")
    ids, rows = tape.page(top, min(size, _MAX_LIMIT))
    cursors = {"CB-BEFORE": str(ids[0]), "CB-AFTER": str(ids[-1])} if ids else {}
    return Reply(200, f"[{','.join(rows)}]".encode(), headers=cursors)


def _ticker(tape: Tape) -> Reply:
    _, rows = ([], []) if tape.spec.listing == "delisted" else tape.page(tape.newest_id(), 1)
    if not rows:
        return Reply(200, b"{}")
    trade = json.loads(rows[0])
    quoted = {"bid": trade["price"], "ask": trade["price"], "volume": "4661.70407704"}
    return _json(
        {**{name: trade[name] for name in ("trade_id", "price", "size", "time")}, **quoted}
    )


def _product(spec: ProductSpec) -> dict[str, Any]:
    gone = spec.listing != "online"
    return {
        "id": spec.id,
        "base_currency": spec.base,
        "quote_currency": spec.quote,
        "quote_increment": "0.01" if spec.price >= Decimal(100) else "0.00000001",
        "base_increment": "0.00000001",
        "display_name": f"{spec.base}-{spec.quote}",
        "min_market_funds": "1",
        "margin_enabled": False,
        "post_only": False,
        "limit_only": False,
        "cancel_only": False,
        "status": "delisted" if gone else "online",
        "status_message": "",
        "trading_disabled": gone,
        "fx_stablecoin": False,
        "max_slippage_percentage": "0.02000000",
        "auction_mode": False,
        "high_bid_limit_percentage": "",
    }


def integer_of(text: str) -> int | None:
    """A whole number in plain digits; `None` for anything else, floats included."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None


def _error(status: int, message: str) -> Reply:
    return _json({"message": message}, status)


def _json(value: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value, separators=(",", ":")).encode())
