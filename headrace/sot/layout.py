"""Where each field of a body and of a frame stands, and which field of a body is malformed.

Little endian, no padding. `headrace.sot.chain` decides the same as `check_body` in its fast loop
and comes here for the words.
"""

from __future__ import annotations

import struct
from typing import Final

from headrace.sot.exceptions import MalformedRecord

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

#: The engine's hash stands first, so that what it covers is one stretch behind it.
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
