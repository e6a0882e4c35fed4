"""The content digest: what rows are in a set of trades, in 128 bits, free of order and addable.

Definition, for who wants to compute it elsewhere; all arithmetic is on unsigned 64-bit words. A row
is eight words: two of its side (its ASCII letters, little-endian, filled up with zeros), trade_id,
microseconds since 1970-01-01 UTC, two of its price and two of its size (`headrace.lake.decimals`).
They are mixed into a low and a high word, each by

    state = seed
    for word in words:
        mixed = (state ^ word) * multiplier
        state = mixed ^ (mixed >> shift)

and the finish of MurmurHash3 (`_FINISH`). The row's hash is high * 2^64 + low. The digest is the
sum of the rows' hashes modulo 2^128, written as 32 hexadecimal digits; that of no rows is zero.

A lost, a doubled and a changed row all change it (a sum, unlike XOR, also counts). Rows that differ
in one word never have the same hash, since every step can be undone; others do by chance alone. It
finds accidents; it is no proof against someone who makes rows up to fit.

The function was made for Arrow's vectorised arithmetic: a good hash of each row's text took four
times as long (docs/benchmarks.md).
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from headrace.lake.decimals import NotADecimal, column_words, words_of, words_of_decimals
from headrace.lake.exceptions import InvalidTrades

_MODULUS = 1 << 128
_MASK = (1 << 64) - 1
#: Rows mixed at a time: few calls into Arrow, and an eighth of a megabyte per column of words.
_BATCH_ROWS = 16_384
_SIDE = re.compile(r"[A-Za-z]{1,16}")


@dataclass(frozen=True, slots=True)
class _Lane:
    """One of the two words of a row's hash."""

    seed: int
    multiplier: int
    shift: int


#: The multipliers are odd, so that each step can be undone. (The finish's and the low lane's are
#: those of MurmurHash3 and of the golden ratio, the others primes of xxHash.)
_LOW = _Lane(0x27D4EB2F165667C5, 0x9E3779B97F4A7C15, 32)
_HIGH = _Lane(0x85EBCA77C2B2AE63, 0xC2B2AE3D27D4EB4F, 29)
_FINISH = ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53), (33, 1))


@dataclass(frozen=True, slots=True)
class ContentDigest:
    """A sum of row hashes modulo 2^128. Add the digests of parts to get that of their union."""

    value: int = 0

    def __add__(self, other: ContentDigest) -> ContentDigest:
        return ContentDigest((self.value + other.value) % _MODULUS)

    def __sub__(self, other: ContentDigest) -> ContentDigest:
        return ContentDigest((self.value - other.value) % _MODULUS)

    def __str__(self) -> str:
        return f"{self.value:032x}"

    @classmethod
    def parse(cls, text: str) -> ContentDigest:
        """The digest written as 32 hexadecimal digits.

        Raises:
            ValueError: if it is not written so.
        """
        value = int(text, 16)
        if text != f"{value:032x}":
            raise ValueError(f"{text!r} is not a digest of 32 hexadecimal digits")
        return cls(value)


def row_digest(trade_id: int, time_us: int, price: str, size: str, side: str) -> ContentDigest:
    """The digest of one row: the definition, one row at a time.

    Raises:
        ValueError: if price or size is not a decimal, or side not a word.
    """
    words = (trade_id, time_us & _MASK, *words_of(price), *words_of(size))
    low, high = (_finished(_mixed(_after_side(lane, side), words, lane)) for lane in (_LOW, _HIGH))
    return ContentDigest(high << 64 | low)


def content_digest(table: pa.Table) -> ContentDigest:
    """The digest of a table of raw trades (schema `RAW_SCHEMA`), about 0.2 CPU s per million rows.

    Raises:
        InvalidTrades: if a price or size is not a decimal or a side not a word; names the row.
    """
    return _digest_of(table, "time", "price", "size")


def typed_digest(table: pa.Table) -> ContentDigest:
    """The digest of trades whose price and quantity are decimals: that of the same trades as text.

    Args:
        table: with trade_id, trade_ts (microseconds, UTC), price, quantity and side, not null.
    """
    return _digest_of(table, "trade_ts", "price", "quantity")


def _digest_of(table: pa.Table, time: str, price: str, size: str) -> ContentDigest:
    if table.num_rows and table.column(0).num_chunks > 1:
        table = table.combine_chunks()
    batches = table.to_batches(max_chunksize=_BATCH_ROWS)
    return ContentDigest(
        sum(_batch_digest(batch, time, price, size) for batch in batches) % _MODULUS
    )


def _batch_digest(batch: pa.RecordBatch, time: str, price: str, size: str) -> int:
    sides = batch.column("side").dictionary_encode()
    words = (
        batch.column("trade_id").view(pa.uint64()),
        batch.column(time).view(pa.uint64()),
        *_decimals(batch, price),
        *_decimals(batch, size),
    )
    low, high = (_total(_batch_lane(batch, sides, words, lane)) for lane in (_LOW, _HIGH))
    return (high << 64) + low


def _batch_lane(
    batch: pa.RecordBatch, sides: pa.DictionaryArray, words: Iterable[pa.UInt64Array], lane: _Lane
) -> pa.UInt64Array:
    """One word of the hash of every row."""
    begun = []
    for code, side in enumerate(sides.dictionary.to_pylist()):
        try:
            begun.append(_after_side(lane, side))
        except ValueError as error:
            row = pc.index(sides.indices, code).as_py()
            raise _refused(batch.column("trade_id"), row, str(error)) from error
    states = pa.array(begun, pa.uint64()).take(sides.indices)
    multiplier, shift = _word(lane.multiplier), _word(lane.shift)
    for word in words:
        mixed = pc.multiply(pc.bit_wise_xor(states, word), multiplier)
        states = pc.bit_wise_xor(mixed, pc.shift_right(mixed, shift))
    for bits, factor in _FINISH:
        states = pc.bit_wise_xor(states, pc.shift_right(states, _word(bits)))
        states = pc.multiply(states, _word(factor))
    return states


def _total(words: pa.UInt64Array) -> int:
    """The exact sum; Arrow's own would wrap around."""
    low = pc.sum(pc.bit_wise_and(words, _word(0xFFFFFFFF))).as_py() or 0
    high = pc.sum(pc.shift_right(words, _word(32))).as_py() or 0
    return int((high << 32) + low)


def _after_side(lane: _Lane, side: str) -> int:
    """The state of a lane once the two words of a side are mixed in."""
    if not _SIDE.fullmatch(side):
        raise ValueError(f"side {side!r} is not a word")
    letters = int.from_bytes(side.encode(), "little")
    return _mixed(lane.seed, (letters & _MASK, letters >> 64), lane)


def _mixed(state: int, words: Iterable[int], lane: _Lane) -> int:
    for word in words:
        mixed = (state ^ word) * lane.multiplier & _MASK
        state = mixed ^ (mixed >> lane.shift)
    return state


def _finished(state: int) -> int:
    for bits, factor in _FINISH:
        state = (state ^ state >> bits) * factor & _MASK
    return state


_word = partial(pa.scalar, type=pa.uint64())


def _decimals(batch: pa.RecordBatch, name: str) -> tuple[pa.UInt64Array, pa.UInt64Array]:
    column = batch.column(name)
    if pa.types.is_decimal(column.type):
        return words_of_decimals(column)
    try:
        return column_words(column)
    except NotADecimal as error:
        raise _refused(batch.column("trade_id"), error.row, f"{name} {error.reason}") from error


def _refused(ids: pa.Int64Array, row: int, reason: str) -> InvalidTrades:
    trade_id = ids[row].as_py()
    return InvalidTrades(f"trade {trade_id}: {reason}", trade_id=trade_id)


def rows_sha256(table: pa.Table) -> str:
    """The SHA-256 of raw trades that are sorted by id, as lines of text that any tool can write.

    A row is `trade_id,time,price,size,side` and a line feed, its time in microseconds since 1970
    UTC, everything else as it is stored; rows stand by rising ids. So the rows of a range have one
    digest, 64 hexadecimal digits, however they are divided into parts. Other rows that have it
    cannot be made, as they can for the content digest, which counts prices by their value and can
    be added. 0.2 CPU s a million.

    Args:
        table: schema `RAW_SCHEMA`, without nulls.
    """
    digest = hashlib.sha256()
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        if batch.num_rows:
            digest.update(_lines(batch))
    return digest.hexdigest()


def _lines(batch: pa.RecordBatch) -> memoryview:
    ids, times, price, size, side = batch.columns
    lines = pc.binary_join_element_wise(
        ids.cast(pa.string()),
        times.cast(pa.int64()).cast(pa.string()),
        price,
        size,
        pc.binary_join_element_wise(side, "", "\n"),
        ",",
    )
    _, offsets, text = lines.buffers()
    begin, end = (
        struct.unpack_from("<i", offsets, 4 * (lines.offset + at))[0] for at in (0, len(lines))
    )
    return memoryview(text)[begin:end]
