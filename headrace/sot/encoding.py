"""The canonical encoding of a record, version 1: one record, one string of bytes.

Little endian, without padding, every count and length in the header, so that a body's size follows
from its header and its texts (docs/sot-format.md has the table, tests/vectors/sot the examples).
Equal records have equal bodies and the other way round: there is no second spelling of anything.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from msgspec import Struct

from headrace.sot.exceptions import MalformedRecord
from headrace.sot.layout import (
    BALANCE_EVENT,
    COMPLETION,
    ENCODING_VERSION,
    HEADER,
    MAX_BODY_BYTES,
    MAX_TEXT_BYTES,
    ORDER_UPDATE,
    PLACEMENT,
    TRADE,
    check_body,
)
from headrace.sot.record import (
    I64_MAX,
    I64_MIN,
    U8_MAX,
    U32_MAX,
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

_TEXT_LENGTH: Final = struct.Struct("<H")


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
            pieces.append(
                ORDER_UPDATE.pack(
                    update.order_id,
                    update.user_id,
                    update.symbol_id,
                    update.side,
                    update.kind,
                    update.status,
                    update.price,
                    update.quantity,
                    update.filled,
                )
            )
            texts.append(update.client_order_id)
        # Loops: these are empty or short, and a generator costs more than its rounds.
        for trade in record.trades:
            packed = TRADE.pack(
                trade.trade_id,
                trade.symbol_id,
                trade.taker_side,
                trade.price,
                trade.quantity,
                trade.maker_order_id,
                trade.taker_order_id,
                trade.maker_user_id,
                trade.taker_user_id,
            )
            pieces.append(packed)
        for event in record.balance_events:
            packed = BALANCE_EVENT.pack(
                event.user_id,
                event.asset_id,
                event.kind,
                event.delta,
                event.available,
                event.frozen,
            )
            pieces.append(packed)
        for order in record.order_placements:
            pieces.append(
                PLACEMENT.pack(
                    order.order_id,
                    order.user_id,
                    order.symbol_id,
                    order.side,
                    order.kind,
                    order.price,
                    order.quantity,
                )
            )
            texts.append(order.client_order_id)
        for done in record.order_completions:
            packed = COMPLETION.pack(
                done.order_id, done.user_id, done.symbol_id, done.reason, done.filled
            )
            pieces.append(packed)
        pieces.append(given.data)
        for text in texts:
            content = text.encode()
            pieces.append(_TEXT_LENGTH.pack(len(content)))
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
        (size,) = _TEXT_LENGTH.unpack(self.take(_TEXT_LENGTH.size))
        return self.take(size).decode()


def _refuse(record: Record, error: Exception) -> NoReturn:
    """Name the value that did not fit; looking for it costs nothing until there is one."""
    explain_values(record, max_text_bytes=MAX_TEXT_BYTES)
    raise MalformedRecord("", f"cannot be encoded: {error}") from error


_U8 = {"side", "kind", "status", "taker_side", "reason", "hash_version"}
_U32 = {"symbol_id", "asset_id", "crc"}
_I64 = {"delta"}


def explain_values(record: Record, *, max_text_bytes: int) -> None:
    """Raise for the first value out of range; return if all are within.

    Raises:
        MalformedRecord: with the path of the field, as in `trades[2].price`.
    """
    for path, name, value in _values(record, ""):
        if isinstance(value, str):
            _check_text(path, value, max_text_bytes)
        elif isinstance(value, int):
            low, high = _bounds(name)
            if not low <= value <= high:
                raise MalformedRecord(path, f"{value} is not within {low} to {high}")


def _values(item: Struct, prefix: str) -> Iterator[tuple[str, str, object]]:
    for name in item.__struct_fields__:
        value = getattr(item, name)
        path = f"{prefix}{name}"
        if isinstance(value, Struct):
            yield from _values(value, f"{path}.")
        elif isinstance(value, tuple):
            for index, element in enumerate(value):
                yield from _values(element, f"{path}[{index}].")
        else:
            yield path, name, value


def _bounds(name: str) -> tuple[int, int]:
    if name in _U8:
        return 0, U8_MAX
    if name in _U32:
        return 0, U32_MAX
    return (I64_MIN, I64_MAX) if name in _I64 else (0, U64_MAX)


def _check_text(path: str, value: str, max_bytes: int) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise MalformedRecord(path, f"cannot be written as UTF-8: {error.reason}") from error
    if size > max_bytes:
        raise MalformedRecord(path, f"{size} bytes of text, at most {max_bytes} are allowed")
