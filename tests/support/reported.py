"""Lakes with something of everything that a page shows: stored, missing, failed, not there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headrace.checks.request import CheckRequest
from headrace.coverage import IntervalSet
from headrace.lake import look_into, open_lake
from headrace.lake.opening import make_store
from headrace.lake_report.facts import LakeFacts, Noted, RunFacts, collect
from headrace.unified.transformer import Transformer
from tests.support.unified import put, raw_rows, transform

DAYS, DAILY = 60, 20
#: Ids from one trade to the next: 100 trades that are not there are a hole of several pages.
STEP = 40
BEGIN = datetime.now(UTC).replace(microsecond=0) - timedelta(days=DAYS)
_NAMES = ("BTC-USD", "ETH-USD", "SOL-USD", "DOGE-USD", "ADA-USD", "LTC-USD")


def facts_of(folder: Path, count: int) -> LakeFacts:
    """What a page says of a lake of so many products, of which six are stored in `folder`.

    Of the second and the fifth ids are missing, and the last run failed at half of them; the third
    has ids that the exchange does not have, the fifth begins late, the sixth has prices that fit no
    column. Further products are as these.
    """
    lake = open_lake(folder)
    raw = lake.raw("coinbase", cell_pages=50)
    stored = _NAMES[:count]
    for n, product in enumerate(stored):
        begin = DAYS // 3 * DAILY if n == 4 else 0
        missing = range(600, 720) if n in (1, 4) else range(0)
        holes = range(300, 400) if n == 2 else range(0)
        for first, last in ((begin + 1, 599), (720 if missing else 600, DAYS * DAILY)):
            rows = [
                {
                    "trade_id": at * STEP,
                    "time": BEGIN + timedelta(days=at / DAILY, seconds=-60 * n),
                    "price": "1" * 40 if n == 5 and at % 500 == 0 else f"{100 + at % 17}.5",
                }
                for at in range(first, last + 1)
                if at not in holes
            ]
            put(raw, (first - 1) * STEP + 1, last * STEP, raw_rows(*rows), product=product)
        transform(Transformer(lake, "coinbase"), product)
    failed = Noted(IntervalSet.of((599 * STEP + 1, 660 * STEP)))
    runs = [
        RunFacts(f"run-{n}", flow, state, BEGIN + timedelta(days=DAYS - 1, hours=n), 12.5 * n)
        for n, (flow, state) in enumerate((("ingest", "Completed"), ("backfill", "Partial")), 1)
    ]
    facts = collect(
        look_into(make_store(str(folder))),
        now=datetime.now(UTC),
        noted={("coinbase", product): failed for product in ("ETH-USD", "ADA-USD")},
        runs=runs,
        checks=CheckRequest.checked(lake="x", last="1d"),
    )
    by_name = {each.product: each for each in facts.products}
    products = tuple(
        replace(by_name[_NAMES[n % len(stored)]], product=_name(n)) for n in range(count)
    )
    return replace(facts, location="s3://trades/lake", products=products)


def _name(n: int) -> str:
    return _NAMES[n] if n < len(_NAMES) else f"COIN{n:03d}-USD"
