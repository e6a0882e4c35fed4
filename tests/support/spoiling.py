"""Harm done to a lake, for a healing to mend."""

from __future__ import annotations

import random

from headrace.lake import Part, RawLake
from headrace.lake.exceptions import ObjectMissing, PartUnreadable
from headrace.lake.grid import PAGE_IDS
from tests.lake_samples import FETCHED_AT

HALF = b"half of a file"


def spoil(raw: RawLake, product: str) -> None:
    """Of 9,000 ids or more: 1 to 3,000 gone, 3,001 to 4,000 half a file, the rest in two parts
    that overlap, with a piece beside the first."""
    damaged = _store(raw, product, 3_001, 4_000)
    later = [
        _store(raw, product, lo, hi) for lo, hi in ((4_001, 6_000), (5_501, 8_000), (4_001, 5_000))
    ]
    for part in raw.parts(product).parts:
        if part.lo <= 8_000 and part.key not in (damaged, *later):
            raw.store.delete(part.key)
    raw.store.put(damaged, HALF)


def spoil_at_random(raw: RawLake, product: str, dice: random.Random) -> None:
    """A part gone, a part cut, a piece left over and two parts that overlap, where they fall."""
    parts = [part for part in raw.parts(product).parts if _ids(raw, part)]
    dice.shuffle(parts)
    for part in parts[:1]:
        raw.store.delete(part.key)
    for part in parts[1:2]:
        content = raw.store.get(part.key)
        raw.store.put(part.key, content[: dice.randrange(len(content))])
    for part in parts[2:]:
        if _half(part):
            _store(raw, product, part.lo, part.lo + _half(part) - 1)
            break
    _double_over_a_border(raw, product, parts[2:])


def readable(raw: RawLake, product: str) -> set[int]:
    """Every id that stands in a file under a part's name, as a reader of the files finds it."""
    listing = raw.parts(product)
    return {trade_id for part in (*listing.parts, *listing.hidden) for trade_id in _ids(raw, part)}


def _ids(raw: RawLake, part: Part) -> list[int]:
    """The ids in one part; none if it is no whole file, or was merged away since it was listed."""
    try:
        ids: list[int] = raw.read_part(part)[0].column("trade_id").to_pylist()
    except (PartUnreadable, ObjectMissing):
        return []
    return ids


def _half(part: Part) -> int:
    """How many ids the whole pages of its first half are; pieces of ours begin and end so."""
    return (part.hi - part.lo + 1) // (2 * PAGE_IDS) * PAGE_IDS


def _double_over_a_border(raw: RawLake, product: str, sound: list[Part]) -> None:
    """A part over the second half of one and the first half of the next, if there are such."""
    by_begin = {part.lo: part for part in sound}
    for left in sound:
        right = by_begin.get(left.hi + 1)
        if right and _half(left) and _half(right) and raw.grid.same_cell(left.lo, right.hi):
            _store(raw, product, left.lo + _half(left), right.lo + _half(right) - 1)
            return


def _store(raw: RawLake, product: str, lo: int, hi: int) -> str:
    rows = raw.read(product, lo, hi)
    kept = raw.write(product, lo, hi, rows, source="localhost", fetched_at=FETCHED_AT, replace=True)
    return kept.part.key
