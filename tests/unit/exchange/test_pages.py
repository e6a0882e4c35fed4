"""From bodies to rows: exact, whole or refused."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.exchange.exceptions import StuckPage, ValueRefused
from headrace.exchange.pages import decode_outline, decode_page
from headrace.trades import RAW_SCHEMA
from headrace.wire.exceptions import BadAnswer


def row(trade_id, **other):
    return {
        "trade_id": trade_id,
        "time": "2024-01-01T00:00:00.5Z",
        "price": "1.50",
        "size": "0.1",
        "side": "sell",
        **other,
    }


def page_of(*rows, after=None):
    return decode_page(json.dumps(list(rows)).encode(), product="BTC-USD", after=after)


def test_rows_come_out_ascending_with_the_fixed_schema():
    page = page_of(row(3), row(2), row(1), after=4)
    assert page.trades.schema == RAW_SCHEMA
    assert page.trades.column("trade_id").to_pylist() == [1, 2, 3]
    assert (page.first_id, page.last_id, len(page)) == (1, 3, 3)


def test_an_empty_page_has_the_fixed_schema_too():
    page = page_of()
    assert len(page) == 0
    assert page.trades.schema == RAW_SCHEMA


def test_the_side_is_stored_as_sent():
    sides = page_of(row(3, side="sell"), row(2, side="BUY"), row(1, side="buy")).trades
    assert sides.column("side").to_pylist() == ["buy", "BUY", "sell"]


def test_trades_that_differ_by_their_id_only_are_two_trades():
    assert len(page_of(row(2), row(1))) == 2


def test_ids_are_64_bit_and_text_ids_are_taken():
    page = page_of(row(9_007_199_254_740_993), row("9007199254740992"), row("929248657"))
    assert page.trades.column("trade_id").to_pylist() == [
        929_248_657,
        9_007_199_254_740_992,
        9_007_199_254_740_993,
    ]


@pytest.mark.parametrize(
    "trade_id", [None, 0, -1, 2**63, "0", "-5", "1e3", " 7", "", 1.5, True, [1]]
)
def test_what_is_no_positive_64_bit_id_is_refused(trade_id):
    with pytest.raises(BadAnswer):
        page_of(row(trade_id))


EXACT = [
    "1E-8",
    "0.000000000000000001",
    "1E+10",
    "123456789012345678901.5",
    "0.0000000000000000001",
    "0.0000000100000000000000000000000000000000",
    "-1.5",
    "6225.32000000",
    "1.",
    ".5",
    "0",
    "00012.30",
]


@pytest.mark.parametrize("text", EXACT)
def test_decimals_are_kept_to_the_letter(text):
    trades = page_of(row(2, price=text, size=text), row(1)).trades
    assert trades.column("price").to_pylist() == ["1.50", text]
    assert Decimal(trades.column("size")[1].as_py()) == Decimal(text)


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_every_finite_decimal_survives(values):
    rows = [row(len(values) - at, price=str(value)) for at, value in enumerate(values)]
    prices = page_of(*rows).trades.column("price").to_pylist()
    assert [Decimal(price) for price in reversed(prices)] == values


@pytest.mark.parametrize("field", ["price", "size"])
@pytest.mark.parametrize(
    "text",
    ["NaN", "Infinity", "-inf", "1_000", " 1.0 ", "1,5", "", ".", "1e", "0x10", "1.2.3", "١"],
)
def test_what_is_no_finite_decimal_is_refused_with_product_trade_and_text(field, text):
    with pytest.raises(ValueRefused) as refused:
        page_of(row(42, **{field: text}), row(41), after=50)
    said = str(refused.value)
    assert "BTC-USD" in said
    assert "42" in said
    assert repr(text) in said


def test_a_bad_time_names_its_trade():
    with pytest.raises(ValueRefused, match=r"trade 7: .*'soon'"):
        page_of(row(8), row(7, time="soon"))


def test_many_trades_of_one_millisecond_and_times_against_the_order_keep_the_order_of_ids():
    rows = [row(i, time=f"2024-01-01T00:00:00.{(i * 7) % 50:03d}Z") for i in range(40, 0, -1)]
    assert page_of(*rows).trades.column("trade_id").to_pylist() == list(range(1, 41))


@pytest.mark.parametrize(
    "body",
    [
        b'{"message":"rate limit exceeded"}',
        b'["error"]',
        b"null",
        b"[null]",
        b'[{"trade_id":1,"time":"2024-01-01T00:00:00Z","size":"1","side":"buy"}]',
        b'[{"trade_id":1,"time":"2024-01-01T00:00:00Z","price":null,"size":"1","side":"buy"}]',
        b"<!DOCTYPE html><html><body>Bad gateway</body></html>",
        b"",
        b'[{"trade_id": 1, "ti',
        b"\xff\xfe",
    ],
)
def test_another_shape_is_refused_naming_product_and_cursor_in_few_words(body):
    with pytest.raises(BadAnswer) as refused:
        decode_page(body, product="BTC-USD", after=77)
    assert "BTC-USD after=77" in str(refused.value)
    assert len(str(refused.value)) < 300


LACKING = {"trade_id": 42, "time": "2024-01-01T00:00:00Z", "size": "1", "side": "buy"}


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (LACKING, "trade 42: .*`price`"),
        ({**LACKING, "price": None}, "trade 42: price .*`null`"),
        ({**LACKING, "trade_id": "42", "price": 1.5}, "trade 42: price .*`float`"),
        ({**LACKING, "price": "1", "side": ["buy"]}, "trade 42: side .*`array`"),
    ],
)
def test_one_row_of_another_shape_is_named_by_its_trade(odd, said):
    """The server has spoken: that is no failure of its, as HTML or half a body is."""
    with pytest.raises(ValueRefused, match=f"BTC-USD after=50: {said}"):
        page_of(row(43), odd, row(41), after=50)


def test_a_row_without_an_id_is_named_by_its_place():
    with pytest.raises(ValueRefused, match=r"BTC-USD after=50: row 1: .*`null`"):
        decode_page(json.dumps([row(43), None, row(41)]).encode(), product="BTC-USD", after=50)


def test_an_outline_has_the_ids_of_a_page_whatever_else_its_rows_hold():
    odd = [None, {"trade_id": None}, {"trade_id": 41.5}, {"trade_id": True}, {}]
    rows = [row(43, price="NaN"), LACKING, *odd, {"trade_id": "41"}]
    found = decode_outline(json.dumps(rows).encode(), product="BTC-USD", after=50)
    assert (found.ids, found.first_id, found.last_id, len(found)) == ([41, 42, 43], 41, 43, 3)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"<html>", BadAnswer),
        (b"[null]", BadAnswer),
        (b'["error"]', BadAnswer),
        (b'[{"trade_id":null},{"trade_id":1.5},{"trade_id":true},{}]', BadAnswer),
        (b'[{"trade_id":1},{"trade_id":2}]', BadAnswer),
        (b'[{"trade_id":50}]', StuckPage),
        (b'[{"trade_id":"x1"}]', ValueRefused),
        (b'[{"trade_id":0}]', ValueRefused),
    ],
)
def test_an_outline_is_as_strict_about_ids_as_a_page(body, error):
    with pytest.raises(error, match="BTC-USD after=50"):
        decode_outline(body, product="BTC-USD", after=50)


@pytest.mark.parametrize(
    ("cursor", "expected"),
    [(15, None), (14, None), (13, None), (12, [10, 11]), (11, [10]), (10, None), (1, None)],
)
def test_a_page_shows_what_lies_below_a_cursor_where_no_id_is_free(cursor, expected):
    page = page_of(row(13), row(11), row(10), after=20)
    below = page.below(cursor)
    assert (below and below.trades.column("trade_id").to_pylist()) == expected
    assert below is None or below.after == cursor


def test_a_body_cut_anywhere_is_refused():
    whole = json.dumps([row(3), row(2), row(1)]).encode()
    for cut in range(len(whole)):
        with pytest.raises(BadAnswer):
            decode_page(whole[:cut], product="BTC-USD", after=None)


def test_ids_that_are_not_below_the_cursor_are_a_stuck_page():
    with pytest.raises(StuckPage, match="BTC-USD after=3000"):
        page_of(row(5000), row(4999), after=3000)


@pytest.mark.parametrize("ids", [(1, 2, 3), (3, 1, 2), (2, 2, 1)])
def test_a_page_that_is_not_newest_first_is_refused(ids):
    with pytest.raises(BadAnswer, match="not ordered"):
        page_of(*map(row, ids))


def test_a_lone_surrogate_in_a_side_is_refused_not_crashed_on():
    body = json.dumps([row(1)]).replace('"sell"', '"\\ud83d"').encode()
    with pytest.raises(BadAnswer):
        decode_page(body, product="BTC-USD", after=None)


def test_a_page_is_read_without_loss_however_its_times_and_numbers_are_written():
    """Indented, with three digits of a second or fewer or six, and zeros at the end of numbers."""
    times = ["16.353", "16.35", "16.3", "16", "12.907123", "12.000001"]
    sent = [
        row(
            24_169_717 - place,
            time=f"2020-02-17T07:23:{second}Z",
            price=f"9042.8800000{place}",
            size="0.00846510",
            side=("buy", "sell")[place % 2],
        )
        for place, second in enumerate(times)
    ]
    body = json.dumps(sent, indent=2).encode()
    trades = decode_page(body, product="BTC-EUR", after=None).trades.to_pylist()
    by_id = {trade["trade_id"]: trade for trade in trades}
    assert by_id.keys() == {trade["trade_id"] for trade in sent}
    for original, second in zip(sent, times, strict=True):
        read = by_id[original["trade_id"]]
        assert {key: read[key] for key in ("price", "size", "side")} == {
            key: original[key] for key in ("price", "size", "side")
        }
        whole, _, digits = second.partition(".")
        assert f"{read['time']:%S.%f}" == f"{whole}.{digits.ljust(6, '0')}"


@pytest.mark.parametrize("text", ["1e-99999999", "1e9999", "-1E-401", "0e-9999999999"])
def test_an_exponent_that_no_reader_could_write_out_is_refused_with_its_trade(text):
    with pytest.raises(ValueRefused, match="BTC-USD after=50: trade 42: price '"):
        page_of(row(42, price=text), row(41), after=50)


@pytest.mark.parametrize("text", ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"])
def test_a_time_outside_the_calendar_is_refused_with_its_trade(text):
    with pytest.raises(ValueRefused, match="trade 7: not a time"):
        page_of(row(8), row(7, time=text))


def test_a_body_nested_without_end_is_a_bad_answer():
    body = b'[{"trade_id":1,"note":' + b"[" * 200_000
    with pytest.raises(BadAnswer, match="BTC-USD after=77"):
        decode_page(body, product="BTC-USD", after=77)


@pytest.mark.parametrize("long", [row("9" * 5000), row(int("9" * 4000)), row(1, size="x" * 5000)])
def test_what_is_refused_is_quoted_in_part(long):
    with pytest.raises(ValueRefused) as refused:
        page_of(long)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf[]",
        b"[]x",
        b"[][]",
        b"[NaN]",
        json.dumps([row(1)]).encode("utf-16"),
        json.dumps([row(1, price=1.5)]).encode(),
        json.dumps([row(1)]).replace('"trade_id": 1', '"trade_id": 9007199254740993.0').encode(),
        json.dumps([row(1)]).replace('"trade_id": 1', '"trade_id": 1e3').encode(),
    ],
)
def test_what_only_a_lenient_reader_would_take_is_refused(body):
    with pytest.raises(BadAnswer):
        decode_page(body, product="BTC-USD", after=None)
