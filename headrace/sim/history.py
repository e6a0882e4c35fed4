"""The truth behind a simulated product: its trades as a pure function of (seed, product, id).

Nothing is stored. A page of a history of a billion trades costs what a page costs, and a test can
ask for the rows that the exchange ought to have served.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple, TypeVar

from headrace.sim import tables
from headrace.sim.catalogue import ProductSpec
from headrace.sim.randomness import key_of, mix
from headrace.sim.tables import BLOCK, SHAPES, TIMES_OF_DAY

_T = TypeVar("_T")
_GAP_BLOCKS = 3
_EPOCH = date(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_S = 86_400
_GAP_SALT = 1 << 62
_PRICE_SALT = 1 << 61
_PRICE_STEP_BLOCKS = 64


class SimTrade(NamedTuple):
    """A trade as the exchange words it: time in UTC microseconds and as text, the rest as text."""

    trade_id: int
    time_us: int
    time: str
    price: str
    size: str
    side: str

    @property
    def at(self) -> datetime:
        """The time as an aware datetime."""
        return _EPOCH_UTC + timedelta(microseconds=self.time_us)


class Columns(NamedTuple):
    """Trades of an id range by column, ascending by id."""

    trade_id: list[int]
    time_us: list[int]
    price: list[str]
    size: list[str]
    side: list[str]


class History:
    """All trades of one product, past its newest id too (which ids are out yet, the market knows).

    Args:
        spec: the product.
        seed: the exchange's seed.
        now_s: Unix seconds at which `spec.last_id` was traded, give or take a second.
    """

    def __init__(self, spec: ProductSpec, *, seed: int, now_s: int) -> None:
        self.spec = spec
        self._key = key_of(seed, spec.id)
        self._duration_s = max(1, round(BLOCK / spec.trades_per_s))
        self._times = tables.times(seed, self._duration_s)
        self._existing = tables.existing(seed, spec.density)
        self._values = tables.values(seed)
        self._price_units, self._price_places = _scaled(spec.price)
        self._price_endings = tables.price_endings(seed, whole=self._price_places == 0)
        newest_block, place = divmod(max(spec.last_id, spec.first_id) - 1, BLOCK)
        offset_us = self._times[self._shape(newest_block)].micros[place]
        self._origin_s = now_s - math.ceil(offset_us / 1e6) - newest_block * self._duration_s

    def exists(self, trade_id: int) -> bool:
        """Whether the exchange ever gave this id to a trade."""
        return any(True for _ in self.ids(trade_id, trade_id))

    def trade(self, trade_id: int) -> SimTrade:
        """The trade with this id.

        Raises:
            KeyError: the id is one of the exchange's holes.
        """
        if not self.exists(trade_id):
            raise KeyError(trade_id)
        block, place = divmod(trade_id - 1, BLOCK)
        shape, price_at, value_at = self._places(block)
        shape_times = self._times[shape]
        seconds = self._start_s(block) + shape_times.seconds[place]
        return SimTrade(
            trade_id,
            self._start_s(block) * 1_000_000 + shape_times.micros[place],
            f"{_second_text(seconds)}{shape_times.fractions[place]}",
            f"{self._price_head(block)}{self._price_endings[price_at + place]}",
            self._values.sizes[value_at + place],
            self._values.sides[value_at + place],
        )

    def ids(self, lo: int, hi: int) -> Iterator[int]:
        """The ids that exist in `lo..hi` (inclusive), ascending."""
        for block, places in self._ascending(lo, hi):
            first = block * BLOCK + 1
            for place in places:
                yield first + place

    def count(self, lo: int, hi: int) -> int:
        """How many trades `lo..hi` (inclusive) holds."""
        if self.spec.density == 1.0 and not self.spec.gaps:
            return max(0, hi - max(lo, self.spec.first_id) + 1)
        return sum(len(places) for _, places in self._ascending(lo, hi))

    def columns(self, lo: int, hi: int) -> Columns:
        """Every trade of `lo..hi` (inclusive) by column: millions of rows a second."""
        columns = Columns([], [], [], [], [])
        for block, places in self._ascending(lo, hi):
            shape, price_at, value_at = self._places(block)
            start_us = self._start_s(block) * 1_000_000
            head, values = self._price_head(block), self._values
            columns.trade_id.extend(map((block * BLOCK + 1).__add__, places))
            columns.time_us.extend(
                map(start_us.__add__, _pick(self._times[shape].micros, 0, places))
            )
            columns.price.extend(map(head.__add__, _pick(self._price_endings, price_at, places)))
            columns.size.extend(_pick(values.sizes, value_at, places))
            columns.side.extend(_pick(values.sides, value_at, places))
        return columns

    def rows_below(self, top: int, limit: int) -> tuple[list[int], list[str]]:
        """The newest `limit` trades up to id `top`: ids and JSON rows, newest first."""
        ids: list[int] = []
        rows: list[str] = []
        block = (top - 1) // BLOCK
        while len(ids) < limit and (block + 1) * BLOCK >= self.spec.first_id and block >= 0:
            places = self._existing_places(block, self.spec.first_id, top)
            wanted = places[::-1][: limit - len(ids)]
            if wanted:
                ids += map((block * BLOCK + 1).__add__, wanted)
                rows += self._rows(block, wanted)
            block -= 1
        return ids, rows

    def _rows(self, block: int, places: Sequence[int]) -> list[str]:
        shape, price_at, value_at = self._places(block)
        start_s = self._start_s(block)
        day, second = divmod(start_s, _DAY_S)
        seconds = _pick(self._times[shape].seconds, 0, places)
        if second + self._duration_s <= _DAY_S:
            date_text = _date_text(day)
            stamps = [date_text + TIMES_OF_DAY[second + later] for later in seconds]
        else:
            stamps = [_second_text(start_s + later) for later in seconds]
        fractions = _pick(self._times[shape].fractions, 0, places)
        prices = _pick(self._price_endings, price_at, places)
        endings = _pick(self._values.endings, value_at, places)
        first, head = block * BLOCK + 1, self._price_head(block)
        return [
            f'{{"time":"{stamp}{fraction}","trade_id":{first + place},'
            f'"price":"{head}{price}{ending}'
            for place, stamp, fraction, price, ending in zip(
                places, stamps, fractions, prices, endings, strict=True
            )
        ]

    def _ascending(self, lo: int, hi: int) -> Iterator[tuple[int, Sequence[int]]]:
        lo = max(lo, self.spec.first_id)
        for block in range((lo - 1) // BLOCK, (hi - 1) // BLOCK + 1):
            if places := self._existing_places(block, lo, hi):
                yield block, places

    def _existing_places(self, block: int, lo: int, hi: int) -> Sequence[int]:
        """The places of a block that exist and whose ids are within `lo..hi`."""
        if self._in_gap(block):
            return ()
        places = self._existing[self._shape(block)]
        first = block * BLOCK + 1
        if lo > first:
            places = places[bisect_left(places, lo - first) :]
        if hi < first + BLOCK - 1:
            places = places[: bisect_right(places, hi - first)]
        return places

    def _in_gap(self, block: int) -> bool:
        if not self.spec.gaps:
            return False
        drawn = mix(self._key, _GAP_SALT + block // _GAP_BLOCKS)
        return drawn < int(self.spec.gaps * (1 << 64))

    def _shape(self, block: int) -> int:
        return mix(self._key, block) % SHAPES

    def _places(self, block: int) -> tuple[int, int, int]:
        """Which shape a block has, and where its stretches of prices and of values begin."""
        drawn = mix(self._key, block)
        return (
            drawn % SHAPES,
            (drawn >> 8) % tables.PRICE_PERIOD,
            (drawn >> 24) % self._values.period,
        )

    def _start_s(self, block: int) -> int:
        return self._origin_s + block * self._duration_s

    def _price_head(self, block: int) -> str:
        """The leading digits of a block's prices: they drift by up to 30 % around the spec's."""
        step, part = divmod(block, _PRICE_STEP_BLOCKS)
        here = mix(self._key, _PRICE_SALT + step) % 601
        there = mix(self._key, _PRICE_SALT + step + 1) % 601
        permille = 700 + (here * (_PRICE_STEP_BLOCKS - part) + there * part) // _PRICE_STEP_BLOCKS
        digits = str(max(1, self._price_units * permille // 1000))
        if not self._price_places:
            return digits
        digits = digits.zfill(self._price_places + 1)
        return f"{digits[: -self._price_places]}.{digits[-self._price_places :]}"


def _pick(table: Sequence[_T], start: int, places: Sequence[int]) -> Sequence[_T]:
    """What a table holds at `start + place`, place by place; one slice where none is missing."""
    if isinstance(places, range):
        lo, hi = sorted((places[0], places[-1]))
        stretch = table[start + lo : start + hi + 1]
        return stretch if places.step == 1 else stretch[::-1]
    return [table[start + place] for place in places]


def _scaled(price: Decimal) -> tuple[int, int]:
    """A price as at least four digits, and how many of them stand behind the point."""
    places = 0
    while price.scaleb(places) < 1000 and places < 12:
        places += 1
    return int(price.scaleb(places)), places


def _second_text(unix_s: int) -> str:
    day, second = divmod(unix_s, _DAY_S)
    return _date_text(day) + TIMES_OF_DAY[second]


@lru_cache(maxsize=1024)
def _date_text(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).isoformat()
