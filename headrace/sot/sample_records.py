"""Streams to try the log with: any number of symbols, any skew, any size, and faults on demand.

Records by the million: a few realistic ones as patterns, their numbers filled in.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec
from xxhash import xxh3_64_intdigest

from headrace.errors import ConfigurationError
from headrace.sot.encoding import HASH_BYTES, LENGTH_BYTES, MAX_BODY_BYTES, MIN_FRAME_BYTES, encode
from headrace.sot.record import (
    HASH_CARRIED,
    HASH_XXH3_V1,
    U32_MAX,
    U64_MAX,
    BalanceEvent,
    Input,
    OrderCompletion,
    OrderPlacement,
    OrderUpdate,
    Record,
    Trade,
)

#: Faults that can be asked for, and what they do to a stream.
FAULTS: Final = {
    "gap": "leave a record out",
    "duplicate": "say a record twice",
    "fork": "say a record, then another one at the same sequence",
    "swap": "say a record after the next one of its symbol",
    "link": "give a record another prev_hash",
    "hash": "change a record's content, not its hash",
}


class StreamSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stream, the same every time for the same values.

    Attributes:
        records: in all, before faults.
        symbols: ids 1 to this many, or `symbol_ids`.
        symbol_ids: the ids themselves.
        size_bytes: of a frame.
        hot_share: of the records that go to the first symbol; the rest is even. None: all even.
        chained: whether records carry hashes and links.
        first_seq: of every symbol.
        seed: of everything that is random.
        faults: how many of which of `FAULTS`.
    """

    records: int
    symbols: int = 8
    symbol_ids: tuple[int, ...] = ()
    size_bytes: int = 300
    hot_share: float | None = None
    chained: bool = True
    first_seq: int = 1
    seed: int = 1
    faults: dict[str, int] = {}

    @property
    def ids(self) -> tuple[int, ...]:
        """The symbols."""
        return self.symbol_ids or tuple(range(1, self.symbols + 1))

    def check(self) -> None:
        """Return if such a stream can be made.

        Raises:
            ConfigurationError: if not; says which value is wrong.
        """
        largest = MAX_BODY_BYTES
        for name, value, low, high in (
            ("records", self.records, 0, U64_MAX),
            ("symbols", len(self.ids), 1, 1_000_000),
            ("size_bytes", self.size_bytes, MIN_FRAME_BYTES, largest),
            ("first_seq", self.first_seq, 0, U64_MAX + 1 - self.records),
            ("hot_share", self.hot_share or 0, 0, 1),
            ("the greatest symbol", max(self.ids), 0, U32_MAX),
        ):
            if not low <= value <= high:
                raise ConfigurationError(f"{name} is {value}, it has to be within {low} and {high}")
        unknown = set(self.faults) - set(FAULTS)
        if unknown:
            raise ConfigurationError(
                f"there is no fault {sorted(unknown)[0]!r}", hint=f"There are: {', '.join(FAULTS)}"
            )
        if sum(self.faults.values()) * 4 > self.records:
            raise ConfigurationError(
                f"{sum(self.faults.values())} faults are too many for {self.records} records",
                hint="At most one record in four can have one",
            )


@dataclass(frozen=True, slots=True)
class GeneratedRecord:
    """One record of a stream; `fault` says what was done to it, "" for nothing."""

    symbol_id: int
    seq: int
    body: bytes
    fault: str = ""


#: In a body: the lowest byte of the input's checksum, which any engine may set as it likes.
_CRC_AT: Final = 40
_PREV_HASH_AT: Final = 24


def add_faults(records: Iterator[GeneratedRecord], spec: StreamSpec) -> Iterator[GeneratedRecord]:
    """The same records with the faults asked for, at places that do not touch."""
    rng = random.Random(spec.seed + 1)
    kinds = [kind for kind, count in sorted(spec.faults.items()) for _ in range(count)]
    rng.shuffle(kinds)
    # One place in each part of equal length, none at its end: what a fault delays comes before
    # the next one.
    part = spec.records // max(1, len(kinds))
    places = {
        number * part + rng.randrange(max(1, part // 2)): kind for number, kind in enumerate(kinds)
    }
    delayed: GeneratedRecord | None = None
    for number, made in enumerate(records):
        kind = places.get(number, "")
        if kind == "swap":
            if delayed is not None:
                yield delayed
            delayed = GeneratedRecord(made.symbol_id, made.seq, made.body, kind)
            continue
        if kind != "gap":
            yield from _faulty(made, kind)
        if delayed is not None and delayed.symbol_id == made.symbol_id:
            yield delayed
            delayed = None
    if delayed is not None:
        yield delayed


def _faulty(made: GeneratedRecord, kind: str) -> Iterator[GeneratedRecord]:
    if kind == "link":
        yield _changed(made, _PREV_HASH_AT, kind, hashed=True)
        return
    if kind == "hash":
        yield _changed(made, _CRC_AT, kind, hashed=False)
        return
    yield made
    if kind == "duplicate":
        yield GeneratedRecord(made.symbol_id, made.seq, made.body, kind)
    elif kind == "fork":
        yield _changed(made, _CRC_AT, kind, hashed=True)


def _changed(made: GeneratedRecord, at: int, kind: str, *, hashed: bool) -> GeneratedRecord:
    body = bytearray(made.body)
    body[at] ^= 1
    if hashed:
        body[:HASH_BYTES] = xxh3_64_intdigest(bytes(body[HASH_BYTES:])).to_bytes(8, "little")
    return GeneratedRecord(made.symbol_id, made.seq, bytes(body), kind)


_PATTERNS: Final = 64
#: Fewer patterns for a symbol where records are large or symbols many: they lie in memory.
_PATTERN_BYTES: Final = 256 * 1024 * 1024
#: output_seq, prev_hash and input_seq stand side by side in a body, from here on.
_NUMBERS_AT: Final = 16
_NUMBERS: Final = struct.Struct("<QQQ")
_NUMBERS_END: Final = _NUMBERS_AT + _NUMBERS.size
#: Bytes of the frame of a record with an order update, a trade and two balance events.
_UNIT_BYTES: Final = 280


def generate(spec: StreamSpec) -> Iterator[GeneratedRecord]:
    """The records of `spec` in order; those of several symbols are interleaved.

    Raises:
        ConfigurationError: see `StreamSpec.check`.
    """
    spec.check()
    if spec.faults:
        yield from add_faults(_sound(spec), spec)
        return
    yield from _sound(spec)


def _sound(spec: StreamSpec) -> Iterator[GeneratedRecord]:
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
        yield GeneratedRecord(symbol_id, seq, body)


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
