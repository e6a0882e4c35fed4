"""Where each field of a body and of a frame stands. Little endian, no padding."""

from __future__ import annotations

import struct
from typing import Final

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
