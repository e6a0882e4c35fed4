"""One output of an exchange engine, field by field.

All amounts, prices and codes are the engine's integers, carried as they are: the log keeps what the
engine said and does not interpret it. Ranges are those of the canonical encoding
(`headrace.sot.encoding`, docs/sot-format.md); a value outside them cannot be encoded.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

U8_MAX: Final = 2**8 - 1
U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1
I64_MIN: Final = -(2**63)
I64_MAX: Final = 2**63 - 1

U8 = Annotated[int, Meta(ge=0, le=U8_MAX)]
U32 = Annotated[int, Meta(ge=0, le=U32_MAX)]
#: msgspec bounds integers by 64 bits signed only: the upper bound is checked by the encoder.
U64 = Annotated[int, Meta(ge=0)]
I64 = int

#: The hash is the engine's own: carried, and its links are checked, but it cannot be recomputed.
HASH_CARRIED: Final = 0
#: xxh3-64 over the canonical body without the hash itself.
HASH_XXH3_V1: Final = 1

#: The symbol of what belongs to none or to several.
SYSTEM_SYMBOL: Final = 0


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    """What the engine was given.

    Attributes:
        input_seq: the engine's global sequence over all symbols; replay merges by it.
        crc: the engine's checksum of `data`, carried as it is.
        symbol_id: the symbol the input names, or 0.
        data: the input itself, opaque (base64 in JSON).
    """

    input_seq: U64
    crc: U32 = 0
    symbol_id: U32 = SYSTEM_SYMBOL
    data: bytes = b""


class OrderUpdate(Struct, frozen=True, forbid_unknown_fields=True):
    """What became of the order that the input is about."""

    order_id: U64
    user_id: U64
    symbol_id: U32
    side: U8
    kind: U8
    status: U8
    price: U64
    quantity: U64
    filled: U64
    client_order_id: str = ""


class Trade(Struct, frozen=True, forbid_unknown_fields=True):
    """One match of two orders."""

    trade_id: U64
    symbol_id: U32
    taker_side: U8
    price: U64
    quantity: U64
    maker_order_id: U64
    taker_order_id: U64
    maker_user_id: U64
    taker_user_id: U64


class BalanceEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """A change of one user's balance in one asset, and what it is afterwards."""

    user_id: U64
    asset_id: U32
    kind: U8
    delta: I64
    available: U64
    frozen: U64


class OrderPlacement(Struct, frozen=True, forbid_unknown_fields=True):
    """An order that entered the book."""

    order_id: U64
    user_id: U64
    symbol_id: U32
    side: U8
    kind: U8
    price: U64
    quantity: U64
    client_order_id: str = ""


class OrderCompletion(Struct, frozen=True, forbid_unknown_fields=True):
    """An order that left the book."""

    order_id: U64
    user_id: U64
    symbol_id: U32
    reason: U8
    filled: U64


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """One output: a link of its symbol's chain.

    Attributes:
        output_seq: per symbol, without gaps.
        symbol_id: see `symbol_of`; part of the encoding, and checked against the content.
        prev_hash: `hash` of the symbol's record before this one; 0 for the first.
        hash: the engine's 64-bit hash of this record.
        hash_version: how `hash` was computed: `HASH_CARRIED` or `HASH_XXH3_V1`.
    """

    output_seq: U64
    symbol_id: U32
    prev_hash: U64
    hash: U64
    input: Input
    hash_version: U8 = HASH_XXH3_V1
    order_update: OrderUpdate | None = None
    trades: tuple[Trade, ...] = ()
    balance_events: tuple[BalanceEvent, ...] = ()
    order_placements: tuple[OrderPlacement, ...] = ()
    order_completions: tuple[OrderCompletion, ...] = ()


def symbol_of(
    input_: Input, order_update: OrderUpdate | None = None, trades: tuple[Trade, ...] = ()
) -> int:
    """The symbol an output belongs to: its first trade's, else its order's, else its input's."""
    if trades:
        return trades[0].symbol_id
    if order_update is not None:
        return order_update.symbol_id
    return input_.symbol_id
