"""One record, one body: exact both ways, and nothing else is accepted."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.sot.encoding import decode, encode
from headrace.sot.exceptions import MalformedRecord
from headrace.sot.record import (
    BalanceEvent,
    Input,
    OrderCompletion,
    OrderPlacement,
    OrderUpdate,
    Record,
    Trade,
    symbol_of,
)

U8 = st.integers(0, 2**8 - 1)
U32 = st.one_of(st.sampled_from([0, 1, 2**31, 2**32 - 1]), st.integers(0, 2**32 - 1))
U64 = st.one_of(st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))
I64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

INPUTS = st.builds(Input, input_seq=U64, crc=U32, symbol_id=U32, data=st.binary(max_size=40))
UPDATES = st.builds(
    OrderUpdate, order_id=U64, user_id=U64, symbol_id=U32, side=U8, kind=U8, status=U8, price=U64,
    quantity=U64, filled=U64, client_order_id=TEXT,
)  # fmt: skip
TRADES = st.builds(
    Trade, trade_id=U64, symbol_id=U32, taker_side=U8, price=U64, quantity=U64, maker_order_id=U64,
    taker_order_id=U64, maker_user_id=U64, taker_user_id=U64,
)  # fmt: skip
BALANCES = st.builds(
    BalanceEvent, user_id=U64, asset_id=U32, kind=U8, delta=I64, available=U64, frozen=U64
)
PLACEMENTS = st.builds(
    OrderPlacement, order_id=U64, user_id=U64, symbol_id=U32, side=U8, kind=U8, price=U64,
    quantity=U64, client_order_id=TEXT,
)  # fmt: skip
COMPLETIONS = st.builds(
    OrderCompletion, order_id=U64, user_id=U64, symbol_id=U32, reason=U8, filled=U64
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    given_, update = draw(INPUTS), draw(st.none() | UPDATES)
    trades = tuple(draw(st.lists(TRADES, max_size=2)))
    return Record(
        output_seq=draw(U64),
        symbol_id=symbol_of(given_, update, trades),
        prev_hash=draw(U64),
        hash=draw(U64),
        hash_version=draw(U8),
        input=given_,
        order_update=update,
        trades=trades,
        balance_events=tuple(draw(st.lists(BALANCES, max_size=2))),
        order_placements=tuple(draw(st.lists(PLACEMENTS, max_size=2))),
        order_completions=tuple(draw(st.lists(COMPLETIONS, max_size=2))),
    )


SMALL = Record(7, 5, 1, 2, Input(3, 0, 5, b"x"))
FULL = Record(
    2**64 - 1, 9, 2**63, 2**64 - 1, Input(1, 2, 3, b"data"),
    order_update=OrderUpdate(1, 2, 4, 0, 1, 2, 3, 4, 5, "größe"),
    trades=(Trade(1, 9, 1, 2, 3, 4, 5, 6, 7),),
    balance_events=(BalanceEvent(1, 2, 3, -(2**63), 5, 6),),
    order_placements=(OrderPlacement(1, 2, 9, 0, 1, 2, 3, "ид"),),
    order_completions=(OrderCompletion(1, 2, 9, 4, 5),),
)  # fmt: skip


@given(records())
def test_what_is_encoded_is_decoded_exactly(record: Record) -> None:
    assert decode(encode(record)) == record


@given(records(), st.data())
@settings(max_examples=300)
def test_no_bytes_are_a_second_spelling(record: Record, data: st.DataObject) -> None:
    body = bytearray(encode(record))
    kind = data.draw(st.sampled_from(["flip", "cut", "grow"]))
    if kind == "flip":
        body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del body[data.draw(st.integers(0, len(body) - 1)) :]
    else:
        body += data.draw(st.binary(min_size=1, max_size=4))
    try:
        other = decode(bytes(body))
    except MalformedRecord:
        return
    assert other != record
    assert encode(other) == bytes(body)


@given(records())
def test_every_field_is_covered(record: Record) -> None:
    """Two records that differ anywhere have different bodies; here: in any one integer."""
    body = encode(record)
    assert encode(msgspec.structs.replace(record, output_seq=record.output_seq ^ 1)) != body
    swapped = msgspec.structs.replace(record.input, crc=record.input.crc ^ 1)
    assert encode(msgspec.structs.replace(record, input=swapped)) != body


@pytest.mark.parametrize(
    ("field", "value"),
    [("output_seq", 2**64), ("prev_hash", -1), ("hash", 2**64), ("hash_version", 256)],
)
def test_a_value_out_of_range_is_named(field: str, value: int) -> None:
    record = msgspec.structs.replace(SMALL, **{field: value})
    with pytest.raises(MalformedRecord) as raised:
        encode(record)
    assert raised.value.field == field
    assert str(value) in raised.value.reason


def test_a_value_deep_inside_is_named() -> None:
    trade = msgspec.structs.replace(FULL.trades[0], price=2**64)
    record = msgspec.structs.replace(FULL, trades=(FULL.trades[0], trade))
    with pytest.raises(MalformedRecord) as raised:
        encode(record)
    assert raised.value.field == "trades[1].price"


@pytest.mark.parametrize("text", ["\ud83d", "x" * 70_000])
def test_text_that_cannot_be_written_is_named(text: str) -> None:
    update = msgspec.structs.replace(FULL.order_update, client_order_id=text)
    with pytest.raises(MalformedRecord) as raised:
        encode(msgspec.structs.replace(FULL, order_update=update))
    assert raised.value.field == "order_update.client_order_id"


def test_the_symbol_has_to_be_that_of_the_content() -> None:
    with pytest.raises(MalformedRecord, match="its content belongs to 9"):
        encode(msgspec.structs.replace(FULL, symbol_id=4))
    body = bytearray(encode(FULL))
    body[12] ^= 1
    with pytest.raises(MalformedRecord, match="belongs to 9"):
        decode(bytes(body))


def test_another_version_is_named() -> None:
    body = bytearray(encode(SMALL))
    body[8] = 2
    with pytest.raises(MalformedRecord, match="is 2, this version knows 1") as raised:
        decode(bytes(body))
    assert raised.value.field == "encoding_version"


@pytest.mark.parametrize("kept", range(0, 150, 7))
def test_every_cut_is_found(kept: int) -> None:
    with pytest.raises(MalformedRecord):
        decode(encode(FULL)[:kept])
