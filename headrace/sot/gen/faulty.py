"""Faults in a stream that was sound."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from xxhash import xxh3_64_intdigest

from headrace.sot.gen.spec import Made, StreamSpec
from headrace.sot.layout import HASH_BYTES

#: In a body: the lowest byte of the input's checksum, which any engine may set as it likes.
_CRC_AT: Final = 40
_PREV_HASH_AT: Final = 24


def with_faults(records: Iterator[Made], spec: StreamSpec) -> Iterator[Made]:
    """The same records with the faults asked for, at places that do not touch."""
    rng = random.Random(spec.seed + 1)
    kinds = [kind for kind, count in sorted(spec.faults.items()) for _ in range(count)]
    rng.shuffle(kinds)
    # One place in each stretch of equal length, none at its end: what a fault delays comes before
    # the next one.
    stretch = spec.records // max(1, len(kinds))
    places = {
        number * stretch + rng.randrange(max(1, stretch // 2)): kind
        for number, kind in enumerate(kinds)
    }
    delayed: Made | None = None
    for number, made in enumerate(records):
        kind = places.get(number, "")
        if kind == "swap":
            if delayed is not None:
                yield delayed
            delayed = Made(made.symbol_id, made.seq, made.body, kind)
            continue
        if kind != "gap":
            yield from _spoilt(made, kind)
        if delayed is not None and delayed.symbol_id == made.symbol_id:
            yield delayed
            delayed = None
    if delayed is not None:
        yield delayed


def _spoilt(made: Made, kind: str) -> Iterator[Made]:
    if kind == "link":
        yield _changed(made, _PREV_HASH_AT, kind, hashed=True)
        return
    if kind == "hash":
        yield _changed(made, _CRC_AT, kind, hashed=False)
        return
    yield made
    if kind == "duplicate":
        yield Made(made.symbol_id, made.seq, made.body, kind)
    elif kind == "fork":
        yield _changed(made, _CRC_AT, kind, hashed=True)


def _changed(made: Made, at: int, kind: str, *, hashed: bool) -> Made:
    body = bytearray(made.body)
    body[at] ^= 1
    if hashed:
        body[:HASH_BYTES] = xxh3_64_intdigest(bytes(body[HASH_BYTES:])).to_bytes(8, "little")
    return Made(made.symbol_id, made.seq, bytes(body), kind)
