"""Ready-made pieces of trades, from which a history is put together at the speed of a join.

A block of 1,000 ids takes a stretch of each table, at a place that depends on the block's key. The
tables' lengths share no factor, so combinations do not repeat within any history that fits in 64
bits, while no row needs arithmetic on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

#: Ids per block.
BLOCK = 1000
#: How many shapes a block's times (and its existing ids) can have.
SHAPES = 16

_PRICES = 4093
_SIZES = 8191
_TRIMMED_DIGITS = (0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 4, 5, 6, 6, 6, 6)
_BURST = range(400, 440)

#: Time of day, `T00:00:00` to `T23:59:59`, by second of the day.
TIMES_OF_DAY = tuple(
    f"T{hour:02}:{minute:02}:{second:02}"
    for hour in range(24)
    for minute in range(60)
    for second in range(60)
)


@dataclass(frozen=True, slots=True)
class Times:
    """One shape of a block's times: microseconds since its start, also as pieces of text."""

    micros: tuple[int, ...]
    seconds: tuple[int, ...]
    fractions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Values:
    """Sizes and sides, and the end of a row that they make; all of one length."""

    sizes: tuple[str, ...]
    sides: tuple[str, ...]
    endings: tuple[str, ...]
    period: int = _SIZES


@lru_cache(maxsize=8)
def price_endings(seed: int, *, whole: bool) -> tuple[str, ...]:
    """Last digits of prices, of varying scale: after a whole number, or after more digits."""
    random = Random(f"{seed}:prices")
    point = "." if whole else ""
    endings = []
    for _ in range(_PRICES):
        cents = int(random.random() * 100)
        kind = random.random()
        if kind < 0.1:
            endings.append("")
        elif kind < 0.5:
            endings.append(f"{point}{cents:02}000000")
        else:
            endings.append(f"{point}{cents:02}".rstrip("0") if cents else "")
    return _wrapped(endings)


PRICE_PERIOD = _PRICES


@lru_cache(maxsize=8)
def values(seed: int) -> Values:
    """Sizes (decimal strings of varying scale) with sides."""
    random = Random(f"{seed}:sizes")
    sizes, sides = [], []
    for _ in range(_SIZES):
        atoms = int(10 ** (random.random() * 10)) + 1
        kind = random.random()
        if kind < 0.2:
            sizes.append(str(atoms % 1000 + 1))
        elif kind < 0.6:
            sizes.append(f"{atoms // 100_000_000}.{atoms % 100_000_000:08}")
        else:
            exact = f"{atoms // 100_000_000}.{atoms % 100_000_000:08}"
            sizes.append(exact.rstrip("0").rstrip("."))
        sides.append("buy" if random.random() < 0.5 else "sell")
    endings = [
        f'","size":"{size}","side":"{side}"}}' for size, side in zip(sizes, sides, strict=True)
    ]
    return Values(_wrapped(sizes), _wrapped(sides), _wrapped(endings))


@lru_cache(maxsize=64)
def times(seed: int, duration_s: int) -> tuple[Times, ...]:
    """Shapes of the times of a block that lasts `duration_s` seconds.

    Times mostly rise with the id. One in fifty is up to 40 ms before its predecessor, one in
    twenty equals it, and in the middle of each block 40 trades share one millisecond.
    """
    random = Random(f"{seed}:times:{duration_s}")
    return tuple(_times(random, duration_s) for _ in range(SHAPES))


def _times(random: Random, duration_s: int) -> Times:
    span = duration_s * 1_000_000
    rising = sorted(int(random.random() * span) for _ in range(BLOCK))
    micros: list[int] = []
    fractions: list[str] = []
    for place, drawn in enumerate(rising):
        unit = 10 ** (6 - _TRIMMED_DIGITS[int(random.random() * len(_TRIMMED_DIGITS))])
        at = drawn // unit * unit
        if micros and at < micros[-1]:
            at = drawn  # a trimmed time must not fall behind the trades before it
        chance = random.random()
        if place in _BURST:
            burst_start = rising[_BURST.start] // 1000 * 1000
            at = min(burst_start + int(random.random() * 1000), span - 1)
        elif place and chance < 0.02:
            at = max(0, micros[-1] - 1000 * (1 + int(random.random() * 40)))
        elif place and chance < 0.07:
            at = micros[-1]
        micros.append(at)
        fraction = f".{at % 1_000_000:06}".rstrip("0").rstrip(".")
        fractions.append(f"{fraction}Z")
    return Times(tuple(micros), tuple(at // 1_000_000 for at in micros), tuple(fractions))


@lru_cache(maxsize=64)
def existing(seed: int, density: float) -> tuple[Sequence[int], ...]:
    """Shapes of which places of a block exist, ascending; at least one of them always does."""
    if density == 1.0:
        return (range(BLOCK),) * SHAPES
    random = Random(f"{seed}:existing:{density!r}")
    shapes = []
    for _ in range(SHAPES):
        places = tuple(place for place in range(BLOCK) if random.random() < density)
        shapes.append(places or (int(random.random() * BLOCK),))
    return tuple(shapes)


def _wrapped(items: list[str]) -> tuple[str, ...]:
    """Append the beginning again, so that a stretch of a block never runs over the end."""
    return tuple(items + items[:BLOCK])
