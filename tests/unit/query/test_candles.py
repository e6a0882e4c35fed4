"""`candles`: exact whatever the values, by trade id, and gaps are counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from headrace.lake import Lake
from headrace.query.exceptions import QueryRefused
from tests.support.queries import Trade, ask, unified_lake

START = datetime(2024, 3, 9, 23, 58, tzinfo=UTC)
GREATEST_PRICE, GREATEST_SIZE = "99999999999999.99999999999999", "999999999999999999.9999999999"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def lake_of(folder: Path, *trades: Trade) -> Lake:
    return unified_lake(folder, {"BTC-USD": trades})


def exact_vwap(trades: list[Trade]) -> Decimal:
    notional = sum(Fraction(price) * Fraction(size) for _, _, price, size in trades)
    ratio = notional / sum(Fraction(size) for *_, size in trades)
    exact = Context(prec=200)
    quotient = exact.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    return quotient.quantize(Decimal("1e-14"), ROUND_HALF_EVEN, exact)


def test_a_candle_goes_by_trade_id(tmp_path: Path) -> None:
    lake = lake_of(
        tmp_path,
        (1, at(30), "10", "1"),
        (2, at(5), "12.5", "2"),  # earlier than the trade before it
        (3, at(40), "9.5", "0.5"),
    )

    (candle,) = ask(lake, "FROM candles('1 minute')")

    assert candle == {
        "exchange": "coinbase",
        "symbol": "BTC-USD",
        "start_ts": START,
        "open": Decimal(10),
        "high": Decimal("12.5"),
        "low": Decimal("9.5"),
        "close": Decimal("9.5"),
        "volume": Decimal("3.5"),
        "count": 3,
        "vwap": exact_vwap(
            [(1, START, "10", "1"), (2, START, "12.5", "2"), (3, START, "9.5", "0.5")]
        ),
        "gap": 0,
    }


@pytest.mark.parametrize(
    "values",
    [
        [("67123.45", "0.00012345"), ("67123.46", "1.5"), ("67123.44", "3")],
        [("0.00001234", "123456789012.5"), ("0.00001235", "7")],
        [("0.00000000000001", "0.0000000001")],
        [("1", "1"), ("2", "1"), ("2", "1")],  # repeats for ever
        [("0.00000000000001", "1"), ("0.00000000000002", "1")],  # a half: to even
        [("0.00000000000003", "1"), ("0.00000000000002", "1")],
        [(GREATEST_PRICE, GREATEST_SIZE)] * 5,
        [(GREATEST_PRICE, GREATEST_SIZE), ("0.00000000000001", "0.0000000001")],
        [("1000000000", "10000"), ("1000000000.5", "20000.25")],  # 3 x 10^13 of the quote currency
        [("0", "5"), ("1", "5")],
    ],
)
def test_a_vwap_is_exact(tmp_path: Path, values: list[tuple[str, str]]) -> None:
    trades = [(n, START, price, size) for n, (price, size) in enumerate(values, start=1)]

    (candle,) = ask(lake_of(tmp_path, *trades), "FROM candles('1 day')")

    assert candle["vwap"] == exact_vwap(trades)
    assert Fraction(candle["volume"]) == sum(Fraction(size) for _, size in values)


def test_gaps_are_counted(tmp_path: Path) -> None:
    seconds = (0, 59, 60, 180, 60 * 60 * 24 * 60)
    lake = lake_of(tmp_path, *((n, at(s), "1", "1") for n, s in enumerate(seconds, start=1)))

    def gaps(step: str) -> list[int]:
        return [row["gap"] for row in ask(lake, f"FROM candles('{step}') ORDER BY start_ts")]

    assert gaps("1 minute") == [0, 0, 1, 60 * 24 * 60 - 4]
    assert gaps("1 day") == [0, 0, 58]
    assert gaps("1 month") == [0, 1]
    assert gaps("1 year") == [0]


def test_since_and_until_keep_whole_candles(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, *((n, at(20 * n), "1", "1") for n in range(1, 31)))

    def starts(arguments: str) -> list[tuple[datetime, int]]:
        found = ask(lake, f"FROM candles('1 minute', {arguments}) ORDER BY start_ts")
        return [(row["start_ts"], row["count"]) for row in found]

    everything = starts("product := 'btc-usd'")
    assert [count for _, count in everything] == [2, *[3] * 9, 1]
    assert starts("since := '2024-03-10', until := '2024-03-10 00:03:00Z'") == everything[2:5]
    assert (
        starts("since := '2024-03-09 23:59:10', until := '2024-03-10 00:02:10'")
        == (everything[2:5])
    )
    assert starts("product := 'ETH-USD'") == []


def test_products_have_candles_of_their_own(tmp_path: Path) -> None:
    lake = unified_lake(
        tmp_path,
        {"BTC-USD": [(1, at(0), "10", "1")], "ETH-USD": [(1, at(600), "20", "1")]},
    )

    rows = ask(lake, "FROM candles('1 minute') ORDER BY symbol")

    assert [(row["symbol"], row["open"], row["gap"]) for row in rows] == [
        ("BTC-USD", Decimal(10), 0),
        ("ETH-USD", Decimal(20), 0),
    ]


def test_a_trade_of_1970_is_in_a_candle_of_its_day(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, (1, datetime(1970, 1, 1, 12, tzinfo=UTC), "1", "1"))

    (candle,) = ask(lake, "FROM candles('1 day')")

    assert candle["start_ts"] == datetime(1970, 1, 1, tzinfo=UTC)


def test_a_step_that_is_no_length_of_time_is_refused(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, (1, START, "1", "1"))

    with pytest.raises(QueryRefused, match="INTERVAL"):
        ask(lake, "FROM candles('often')")
