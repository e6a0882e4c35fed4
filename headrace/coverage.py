"""Coverage arithmetic: which ids are answered for, as a set of inclusive ranges.

Everything that says "this is stored" or "this is missing" is an `IntervalSet`: the names in the
lake, the checkpoint, what a run was asked for, what it failed to get. The sets are immutable and
normalised (sorted, disjoint, touching ranges joined), so two sets are equal exactly when they
cover the same ids, whatever the order in which they came to be.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: An inclusive range of ids.
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """An immutable set of ids, held as sorted, disjoint, inclusive ranges.

    Build it with `IntervalSet.of((1, 10), (20, 30))` or `IntervalSet.from_ranges(iterable)`; the
    constructor trusts its argument to be normalised.
    """

    ranges: tuple[Range, ...] = ()

    @classmethod
    def of(cls, *ranges: Range) -> IntervalSet:
        """The set of the given inclusive ranges, in any order, overlapping or not."""
        return cls.from_ranges(ranges)

    @classmethod
    def from_ranges(cls, ranges: Iterable[Range]) -> IntervalSet:
        """The union of `ranges`.

        Raises:
            ValueError: if a range ends before it begins.
        """
        joined: list[Range] = []
        for lo, hi in sorted(ranges):
            if hi < lo:
                raise ValueError(f"a range must not end before it begins: [{lo}, {hi}]")
            if joined and lo <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(joined[-1][1], hi))
            else:
                joined.append((lo, hi))
        return cls(tuple(joined))

    def words(self, limit: int = 3) -> str:
        """The ranges for people, the first few of them spelled out."""
        shown = ", ".join(f"{lo}-{hi}" for lo, hi in self.ranges[:limit])
        more = len(self.ranges) - limit
        return shown + (f" and {more} more" if more > 0 else "")

    def __iter__(self) -> Iterator[Range]:
        return iter(self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __or__(self, other: IntervalSet) -> IntervalSet:
        large, small = sorted((self.ranges, other.ranges), key=len, reverse=True)
        if len(small) > _FEW:
            return IntervalSet.from_ranges((*large, *small))
        for lo, hi in small:
            large = _with(large, lo, hi)
        return IntervalSet(large)

    def __and__(self, other: IntervalSet) -> IntervalSet:
        met: list[Range] = []
        for lo, hi in self.ranges:
            met.extend(
                (max(lo, other_lo), min(hi, other_hi))
                for other_lo, other_hi in other._meeting(lo, hi)
            )
        return IntervalSet.from_ranges(met)

    def __sub__(self, other: IntervalSet) -> IntervalSet:
        left: list[Range] = []
        for lo, hi in self.ranges:
            left.extend(other.gaps(lo, hi))
        return IntervalSet(tuple(left))

    @property
    def count(self) -> int:
        """How many ids the set covers."""
        return sum(hi - lo + 1 for lo, hi in self.ranges)

    @property
    def first(self) -> int | None:
        """The lowest id, or None for the empty set."""
        return self.ranges[0][0] if self.ranges else None

    @property
    def last(self) -> int | None:
        """The highest id, or None for the empty set."""
        return self.ranges[-1][1] if self.ranges else None

    def contains(self, lo: int, hi: int | None = None) -> bool:
        """Whether the id `lo`, or every id of [`lo`, `hi`], is in the set."""
        end = lo if hi is None else hi
        at = bisect_right(self.ranges, (lo, 1 << 64)) - 1
        return at >= 0 and self.ranges[at][1] >= end

    def gaps(self, lo: int, hi: int) -> IntervalSet:
        """The ids of [`lo`, `hi`] that are not in the set (empty if `hi` < `lo`)."""
        missing: list[Range] = []
        cursor = lo
        for start, end in self._meeting(lo, hi):
            if start > cursor:
                missing.append((cursor, start - 1))
            cursor = max(cursor, end + 1)
        if cursor <= hi:
            missing.append((cursor, hi))
        return IntervalSet(tuple(missing))

    def watermark(self, first: int = 1) -> int:
        """The highest id below or at which nothing is missing from `first` on.

        `first - 1` if `first` itself is missing.
        """
        at = bisect_right(self.ranges, (first, 1 << 64)) - 1
        if at >= 0 and self.ranges[at][1] >= first:
            return self.ranges[at][1]
        return first - 1

    def as_lists(self) -> list[list[int]]:
        """The ranges as JSON-ready lists: [[lo, hi], ...]."""
        return [[lo, hi] for lo, hi in self.ranges]

    def _meeting(self, lo: int, hi: int) -> tuple[Range, ...]:
        """The ranges that share at least one id with [lo, hi]."""
        begin = bisect_right(self.ranges, (lo, 1 << 64)) - 1
        if begin < 0 or self.ranges[begin][1] < lo:
            begin += 1
        end = bisect_left(self.ranges, (hi + 1,), begin)
        return self.ranges[begin:end]


#: So many ranges are put into a set one by one; more are sorted together with it.
_FEW = 8


def _with(ranges: tuple[Range, ...], lo: int, hi: int) -> tuple[Range, ...]:
    """The ranges with one more, without looking at those that it does not touch.

    A run notes chunk after chunk; sorting a set of 50,000 ranges for each took minutes of CPU.
    """
    begin = bisect_left(ranges, (lo,))
    if begin and ranges[begin - 1][1] >= lo - 1:
        begin -= 1
    end = bisect_left(ranges, (hi + 2,), begin)
    if begin < end:
        lo, hi = min(lo, ranges[begin][0]), max(hi, ranges[end - 1][1])
    return (*ranges[:begin], (lo, hi), *ranges[end:])


EMPTY = IntervalSet()
