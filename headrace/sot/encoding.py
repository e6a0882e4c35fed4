"""The canonical encoding of a record, version 1: one record, one string of bytes.

Little endian, without padding, every count and length in the header, so that a body's size follows
from its header and its texts (docs/sot-format.md has the table, tests/vectors/sot the examples).
Equal records have equal bodies and the other way round: there is no second spelling of anything.
`headrace.sot.chain` decides the same as `check_body` in its fast loop; here is the message.

SQL and CQL have signed integers only: an unsigned value is stored as the signed one with the same
bits. A column sorted as signed has those from 2**63 on first, so a range over unsigned values is
read as two ranges (`signed_ranges`).
"""

from __future__ import annotations

import struct
from typing import Any, Final, NoReturn, get_type_hints

from msgspec import Struct
from msgspec.structs import astuple

from headrace.sot.exceptions import MalformedRecord
from headrace.sot.record import (
    I64,
    I64_MAX,
    I64_MIN,
    U8,
    U8_MAX,
    U32,
    U32_MAX,
    U64,
    U64_MAX,
    BalanceEvent,
    Input,
    OrderCompletion,
    OrderPlacement,
    OrderUpdate,
    Record,
    Trade,
    symbol_of,
)

ENCODING_VERSION: Final = 1

#: hash u64, encoding version u8, hash version u8, has order update u16 (0 or 1), symbol u32,
#: output_seq u64, prev_hash u64, input_seq u64, crc u32, input's symbol u32, bytes of data u32,
#: and the counts, u32 each: trades, balance events, placements, completions.
HEADER: Final = struct.Struct("<QBBHIQQQIIIIIII")
#: order_id, user_id, symbol, side, kind, status, price, quantity, filled
ORDER_UPDATE: Final = struct.Struct("<QQIBBBQQQ")
#: trade_id, symbol, taker_side, price, quantity, maker and taker order, maker and taker user
TRADE: Final = struct.Struct("<QIBQQQQQQ")
#: user_id, asset, kind, delta (signed), available, frozen
BALANCE_EVENT: Final = struct.Struct("<QIBqQQ")
#: order_id, user_id, symbol, side, kind, price, quantity
PLACEMENT: Final = struct.Struct("<QQIBBQQ")
#: order_id, user_id, symbol, reason, filled
COMPLETION: Final = struct.Struct("<QQIBQ")

#: The engine's hash stands first, so that what it covers lies behind it in one piece.
HASH_BYTES: Final = 8
#: Where `prev_hash` stands in a body.
PREV_HASH: Final = slice(24, 32)
#: Within the fixed part of an order update and of a trade.
SYMBOL_IN_ORDER_UPDATE: Final = 16
SYMBOL_IN_TRADE: Final = 8

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
MAX_TEXT_BYTES: Final = 2**16 - 1

#: A frame: length u32, then the body.
LENGTH: Final = struct.Struct("<I")
LENGTH_BYTES: Final = LENGTH.size
#: The length and what checking a link needs: length, hash, versions, has update, symbol, seq,
#: prev_hash, (input_seq and crc skipped), input's symbol, bytes of data, four counts.
FRAME_HEADER: Final = struct.Struct("<IQBBHIQQ12xIIIIII")
#: The length, symbol and sequence of a frame, for routing.
FRAME_ROUTE: Final = struct.Struct("<I12xIQ")
#: The same and the input's sequence, for ordering.
FRAME_ORDER: Final = struct.Struct("<I12xIQ8xQ")
MIN_FRAME_BYTES: Final = LENGTH_BYTES + HEADER.size


_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")


def check_body(body: bytes) -> None:
    """Return if `body` is canonical.

    Raises:
        MalformedRecord: with the first field that is wrong.
    """
    size = len(body)
    if size > MAX_BODY_BYTES:
        raise MalformedRecord("", f"{size} bytes, at most {MAX_BODY_BYTES} are allowed")
    if size < HEADER.size:
        raise MalformedRecord("", f"{size} bytes, a header alone has {HEADER.size}")
    (_, version, _, has_update, symbol_id, *_, input_symbol, data, trades, balances, placements,
     completions) = HEADER.unpack_from(body)  # fmt: skip
    if version != ENCODING_VERSION:
        raise MalformedRecord(
            "encoding_version",
            f"is {version}, this version knows {ENCODING_VERSION}",
            hint="Upgrade this installation of headrace" if version > ENCODING_VERSION else "",
        )
    if has_update > 1:
        raise MalformedRecord("has_order_update", f"is {has_update}, not 0 or 1")
    offset = HEADER.size
    sections = (
        ("order_update", has_update * ORDER_UPDATE.size),
        ("trades", trades * TRADE.size),
        ("balance_events", balances * BALANCE_EVENT.size),
        ("order_placements", placements * PLACEMENT.size),
        ("order_completions", completions * COMPLETION.size),
        ("input.data", data),
    )
    for field, length in sections:
        if offset + length > size:
            raise MalformedRecord(field, f"needs {length} bytes, {size - offset} are left")
        offset += length
    names = ["order_update"] * has_update
    for field in (*names, *(f"order_placements[{n}]" for n in range(placements))):
        offset = _check_text(body, offset, f"{field}.client_order_id")
    if offset != size:
        raise MalformedRecord("", f"{size - offset} bytes more than its counts account for")
    _check_symbol(body, symbol_id, has_update, trades, input_symbol)


def _check_text(body: bytes, offset: int, field: str) -> int:
    left = len(body) - offset
    length = _U16.unpack_from(body, offset)[0] if left >= _U16.size else 0
    if left < _U16.size + length:
        raise MalformedRecord(field, f"needs {_U16.size + length} bytes, {left} are left")
    start = offset + _U16.size
    try:
        body[start : start + length].decode()
    except UnicodeDecodeError as error:
        raise MalformedRecord(field, f"is not UTF-8: {error.reason}") from error
    return start + length


def _check_symbol(
    body: bytes, symbol_id: int, has_update: int, trades: int, input_symbol: int
) -> None:
    expected = input_symbol
    if trades:
        start = HEADER.size + has_update * ORDER_UPDATE.size + SYMBOL_IN_TRADE
        expected = _U32.unpack_from(body, start)[0]
    elif has_update:
        expected = _U32.unpack_from(body, HEADER.size + SYMBOL_IN_ORDER_UPDATE)[0]
    if symbol_id != expected:
        raise MalformedRecord("symbol_id", f"is {symbol_id}, but its content belongs to {expected}")


def encode(record: Record) -> bytes:
    """The body of `record`.

    Raises:
        MalformedRecord: a value outside its range, or a symbol that is not the content's.
    """
    update = record.order_update
    expected = symbol_of(record.input, update, record.trades)
    if record.symbol_id != expected:
        raise MalformedRecord(
            "symbol_id", f"is {record.symbol_id}, but its content belongs to {expected}"
        )
    given = record.input
    texts: list[str] = []
    try:
        pieces = [
            HEADER.pack(
                record.hash,
                ENCODING_VERSION,
                record.hash_version,
                0 if update is None else 1,
                record.symbol_id,
                record.output_seq,
                record.prev_hash,
                given.input_seq,
                given.crc,
                given.symbol_id,
                len(given.data),
                len(record.trades),
                len(record.balance_events),
                len(record.order_placements),
                len(record.order_completions),
            )
        ]
        if update is not None:
            *numbers, text = astuple(update)
            pieces.append(ORDER_UPDATE.pack(*numbers))
            texts.append(text)
        # Loops: these are empty or short, and a generator costs more than its rounds.
        for trade in record.trades:
            pieces.append(TRADE.pack(*astuple(trade)))  # noqa: PERF401
        for event in record.balance_events:
            pieces.append(BALANCE_EVENT.pack(*astuple(event)))  # noqa: PERF401
        for order in record.order_placements:
            *numbers, text = astuple(order)
            pieces.append(PLACEMENT.pack(*numbers))
            texts.append(text)
        for done in record.order_completions:
            pieces.append(COMPLETION.pack(*astuple(done)))  # noqa: PERF401
        pieces.append(given.data)
        for text in texts:
            content = text.encode()
            pieces.append(_U16.pack(len(content)))
            pieces.append(content)
    except (struct.error, UnicodeEncodeError) as error:
        _refuse(record, error)
    body = b"".join(pieces)
    if len(body) > MAX_BODY_BYTES:
        raise MalformedRecord("", f"{len(body)} bytes, at most {MAX_BODY_BYTES} are allowed")
    return body


def decode(body: bytes) -> Record:
    """The record whose body this is.

    Raises:
        MalformedRecord: not a body in canonical form; says which field is wrong.
    """
    check_body(body)
    (
        hash_,
        _,
        hash_version,
        has_update,
        symbol_id,
        output_seq,
        prev_hash,
        input_seq,
        crc,
        input_symbol,
        data_bytes,
        trades,
        balance_events,
        placements,
        completions,
    ) = HEADER.unpack_from(body)
    cursor = _Cursor(body, HEADER.size)
    update = cursor.items(ORDER_UPDATE, has_update)
    matched = cursor.items(TRADE, trades)
    balances = cursor.items(BALANCE_EVENT, balance_events)
    placed = cursor.items(PLACEMENT, placements)
    completed = cursor.items(COMPLETION, completions)
    data = cursor.take(data_bytes)
    return Record(
        output_seq=output_seq,
        symbol_id=symbol_id,
        prev_hash=prev_hash,
        hash=hash_,
        hash_version=hash_version,
        input=Input(input_seq, crc, input_symbol, data),
        order_update=OrderUpdate(*(*update[0], cursor.text())) if update else None,
        trades=tuple(Trade(*values) for values in matched),
        balance_events=tuple(BalanceEvent(*values) for values in balances),
        order_placements=tuple(OrderPlacement(*(*values, cursor.text())) for values in placed),
        order_completions=tuple(OrderCompletion(*values) for values in completed),
    )


class _Cursor:
    """Walks a body that was checked."""

    def __init__(self, body: bytes, offset: int) -> None:
        self._body = body
        self._offset = offset

    def items(self, layout: struct.Struct, count: int) -> list[tuple[Any, ...]]:
        return list(layout.iter_unpack(self.take(layout.size * count))) if count else []

    def take(self, size: int) -> bytes:
        start = self._offset
        self._offset += size
        return self._body[start : self._offset]

    def text(self) -> str:
        (size,) = _U16.unpack(self.take(_U16.size))
        return self.take(size).decode()


def _refuse(record: Record, error: Exception) -> NoReturn:
    """Name the value that did not fit; looking for it costs nothing until there is one."""
    _refuse_value_out_of_range(record)
    raise MalformedRecord("", f"cannot be encoded: {error}") from error


_RANGES: Final = {U8: (0, U8_MAX), U32: (0, U32_MAX), U64: (0, U64_MAX), I64: (I64_MIN, I64_MAX)}


def _refuse_value_out_of_range(item: Struct, prefix: str = "") -> None:
    """Raise for the first value out of range, with its path as in `trades[2].price`."""
    kinds = get_type_hints(type(item), include_extras=True)
    for name, value in zip(item.__struct_fields__, astuple(item), strict=True):
        path = f"{prefix}{name}"
        if isinstance(value, Struct):
            _refuse_value_out_of_range(value, f"{path}.")
        elif isinstance(value, tuple):
            for index, element in enumerate(value):
                _refuse_value_out_of_range(element, f"{path}[{index}].")
        elif isinstance(value, str):
            _refuse_text(path, value)
        elif isinstance(value, int):
            low, high = _RANGES[kinds[name]]
            if not low <= value <= high:
                raise MalformedRecord(path, f"{value} is not within {low} to {high}")


def _refuse_text(path: str, value: str) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise MalformedRecord(path, f"cannot be written as UTF-8: {error.reason}") from error
    if size > MAX_TEXT_BYTES:
        raise MalformedRecord(path, f"{size} bytes of text, at most {MAX_TEXT_BYTES} are allowed")


_SIGN: Final = 2**63
_MODULUS: Final = 2**64


def to_signed(value: int) -> int:
    """The signed 64-bit integer with the same bits.

    Raises:
        OverflowError: if `value` is not within 0 to 2**64 - 1.
    """
    if not 0 <= value <= U64_MAX:
        raise OverflowError(f"{value} is not an unsigned 64-bit integer")
    return value - _MODULUS if value >= _SIGN else value


def from_signed(value: int) -> int:
    """The unsigned integer with the same 64 bits."""
    return value % _MODULUS


def to_signed32(value: int) -> int:
    """The signed 32-bit integer with the same bits, for a symbol in an `int` column.

    Raises:
        OverflowError: if `value` is not within 0 to 2**32 - 1.
    """
    if not 0 <= value <= U32_MAX:
        raise OverflowError(f"{value} is not an unsigned 32-bit integer")
    return value - 2**32 if value >= 2**31 else value


def from_signed32(value: int) -> int:
    """The unsigned integer with the same 32 bits."""
    return value % 2**32


def signed_ranges(low: int, high: int) -> list[tuple[int, int]]:
    """The unsigned range `low` to `high` (inclusive) as ranges of signed values, in order."""
    if low > high:
        return []
    if low < _SIGN <= high:
        return [(low, _SIGN - 1), (-_SIGN, to_signed(high))]
    return [(to_signed(low), to_signed(high))]
