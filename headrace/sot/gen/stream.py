"""Records by the million: a few realistic ones as patterns, their numbers filled in."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Final

from xxhash import xxh3_64_intdigest

from headrace.sot.encoding import encode
from headrace.sot.gen.faulty import with_faults
from headrace.sot.gen.spec import Made, StreamSpec
from headrace.sot.layout import HASH_BYTES, LENGTH_BYTES
from headrace.sot.record import (
    HASH_CARRIED,
    HASH_XXH3_V1,
    BalanceEvent,
    Input,
    OrderCompletion,
    OrderPlacement,
    OrderUpdate,
    Record,
    Trade,
)

_PATTERNS: Final = 64
#: Fewer patterns for a symbol where records are large or symbols many: they lie in memory.
_PATTERN_BYTES: Final = 256 * 1024 * 1024
#: output_seq, prev_hash and input_seq stand side by side in a body, from here on.
_NUMBERS_AT: Final = 16
_NUMBERS: Final = struct.Struct("<QQQ")
_NUMBERS_END: Final = _NUMBERS_AT + _NUMBERS.size
#: Bytes of the frame of a record with an order update, a trade and two balance events.
_UNIT_BYTES: Final = 280


def generate(spec: StreamSpec) -> Iterator[Made]:
    """The records of `spec` in order; those of several symbols are interleaved.

    Raises:
        ConfigurationError: see `StreamSpec.check`.
    """
    spec.check()
    if spec.faults:
        yield from with_faults(_sound(spec), spec)
        return
    yield from _sound(spec)


def _sound(spec: StreamSpec) -> Iterator[Made]:
    rng = random.Random(spec.seed)
    kinds = max(1, min(_PATTERNS, _PATTERN_BYTES // (spec.size_bytes * len(spec.ids))))
    patterns = {
        symbol_id: [_pattern(rng, spec, symbol_id) for _ in range(kinds)] for symbol_id in spec.ids
    }
    heads = dict.fromkeys(spec.ids, 0)
    seqs = dict.fromkeys(spec.ids, spec.first_seq)
    pack, xxh3 = _NUMBERS.pack, xxh3_64_intdigest
    zero = bytes(HASH_BYTES)
    for number, symbol_id in enumerate(_order(rng, spec)):
        seq = seqs[symbol_id]
        front, rest = patterns[symbol_id][seq % kinds]
        if spec.chained:
            covered = b"".join((front, pack(seq, heads[symbol_id], number + 1), rest))
            heads[symbol_id] = hash_ = xxh3(covered)
            body = hash_.to_bytes(HASH_BYTES, "little") + covered
        else:
            body = b"".join((zero, front, pack(seq, 0, number + 1), rest))
        seqs[symbol_id] = seq + 1
        yield Made(symbol_id, seq, body)


def _order(rng: random.Random, spec: StreamSpec) -> Iterator[int]:
    ids = spec.ids
    if spec.hot_share is None or len(ids) == 1:
        for number in range(spec.records):
            yield ids[number % len(ids)]
        return
    cold = ids[1:]
    for number in range(spec.records):
        yield ids[0] if rng.random() < spec.hot_share else cold[number % len(cold)]


def _pattern(rng: random.Random, spec: StreamSpec, symbol_id: int) -> tuple[bytes, bytes]:
    """What stands before and behind the numbers in a body of the size asked for."""
    units = (spec.size_bytes - LENGTH_BYTES) // _UNIT_BYTES
    empty = encode(_record(rng, spec, symbol_id, units, 0))
    missing = spec.size_bytes - LENGTH_BYTES - len(empty)
    if missing < 0:
        units = max(0, units - 1)
        missing = (
            spec.size_bytes - LENGTH_BYTES - len(encode(_record(rng, spec, symbol_id, units, 0)))
        )
    body = encode(_record(rng, spec, symbol_id, units, missing))
    return body[HASH_BYTES:_NUMBERS_AT], body[_NUMBERS_END:]


def _record(
    rng: random.Random, spec: StreamSpec, symbol_id: int, units: int, data_bytes: int
) -> Record:
    order, user, price = rng.getrandbits(40), rng.getrandbits(24), 6_000_000 + rng.randrange(10_000)
    client_id = f"c{rng.getrandbits(60):015x}"
    trades = tuple(
        Trade(
            trade_id=rng.getrandbits(40),
            symbol_id=symbol_id,
            taker_side=rng.randrange(2),
            price=price + number,
            quantity=rng.randrange(1, 10**8),
            maker_order_id=rng.getrandbits(40),
            taker_order_id=order,
            maker_user_id=rng.getrandbits(24),
            taker_user_id=user,
        )
        for number in range(units)
    )
    balances = tuple(
        BalanceEvent(
            user_id=user if number % 2 else rng.getrandbits(24),
            asset_id=1 + number % 2,
            kind=2,
            delta=rng.randrange(-(10**9), 10**9),
            available=rng.randrange(10**12),
            frozen=rng.randrange(10**9),
        )
        for number in range(2 * units)
    )
    return Record(
        output_seq=0,
        symbol_id=symbol_id,
        prev_hash=0,
        hash=0,
        hash_version=HASH_XXH3_V1 if spec.chained else HASH_CARRIED,
        input=Input(
            input_seq=0,
            crc=rng.getrandbits(32),
            symbol_id=symbol_id,
            data=rng.randbytes(data_bytes),
        ),
        order_update=OrderUpdate(
            order_id=order,
            user_id=user,
            symbol_id=symbol_id,
            side=rng.randrange(2),
            kind=0,
            status=2,
            price=price,
            quantity=10**8,
            filled=rng.randrange(10**8),
            client_order_id=client_id,
        )
        if units
        else None,
        trades=trades,
        balance_events=balances,
        order_placements=tuple(
            OrderPlacement(order, user, symbol_id, 0, 0, price, 10**8, client_id)
            for _ in range(units // 4)
        ),
        order_completions=tuple(
            OrderCompletion(rng.getrandbits(40), user, symbol_id, 1, 10**8)
            for _ in range(units // 2)
        ),
    )
