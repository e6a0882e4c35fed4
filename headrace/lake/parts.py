"""The parts of a product, from their names alone: what is covered, hidden, doubled, foreign."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from headrace.coverage import IntervalSet
from headrace.lake.encoding import PartFooter
from headrace.lake.grid import Grid
from headrace.lake.names import FORMER_SET_ASIDE, PartName
from headrace.lake.store import StoredObject


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A part of one product, as its name and the listing say.

    Args:
        name: the range of ids that it answers for.
        key: where it is in the store.
        size_bytes: size of its file.
        rows_may_be: False if its range crosses a border between cells, which only a range proven
            empty does; True says nothing.
        changed_us: see `StoredObject`.
    """

    name: PartName
    key: str
    size_bytes: int
    rows_may_be: bool = True
    changed_us: int = field(default=0, compare=False)

    @property
    def lo(self) -> int:
        """First id of the answered range."""
        return self.name.lo

    @property
    def hi(self) -> int:
        """Last id of the answered range."""
        return self.name.hi


@dataclass(frozen=True, slots=True)
class PartReceipt:
    """What a write left behind. `written` is False if the same part was there already."""

    part: Part
    footer: PartFooter
    written: bool


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two parts that share ids and neither contains the other: no step of ours leaves this."""

    left: Part
    right: Part

    @property
    def shared(self) -> tuple[int, int]:
        """The ids that both answer for, inclusive."""
        return self.right.lo, min(self.left.hi, self.right.hi)


@dataclass(frozen=True, slots=True)
class PartListing:
    """All that the names under a product's prefix say.

    Args:
        parts: the parts that count, by rising range; no one contains another.
        hidden: parts contained in a longer one: pieces that a kill left beside their merged part.
        overlaps: adjacent parts that share ids. Readers take each id once all the same.
        foreign: keys that are no part's, left alone.
    """

    parts: tuple[Part, ...] = ()
    hidden: tuple[Part, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    foreign: tuple[str, ...] = ()

    @classmethod
    def of(cls, objects: Iterable[StoredObject], grid: Grid) -> PartListing:
        """The listing of the objects found under one product's prefix, in a lake of that grid."""
        found: list[Part] = []
        foreign: list[str] = []
        for item in objects:
            name = PartName.parse(item.key.rpartition("/")[2])
            if name is None:
                foreign.append(item.key)
            else:
                rows_may_be = grid.same_cell(name.lo, name.hi)
                found.append(Part(name, item.key, item.size_bytes, rows_may_be, item.changed_us))
        parts, hidden = _longest(found)
        overlaps = tuple(
            Overlap(left, right) for left, right in pairwise(parts) if right.lo <= left.hi
        )
        return cls(tuple(parts), tuple(hidden), overlaps, tuple(sorted(foreign)))

    @property
    def coverage(self) -> IntervalSet:
        """The ids that are answered for."""
        return IntervalSet.from_ranges((part.lo, part.hi) for part in self.parts)

    @property
    def to_sweep(self) -> bool:
        """Whether a sweep would remove or move any of it."""
        return bool(self.hidden) or any(
            key.rpartition("/")[2].startswith(FORMER_SET_ASIDE) for key in self.foreign
        )

    def between(self, lo: int, hi: int) -> tuple[Part, ...]:
        """The parts that share an id with [lo, hi], by rising range."""
        return tuple(part for part in self.parts if part.lo <= hi and part.hi >= lo)


def _longest(found: list[Part]) -> tuple[list[Part], list[Part]]:
    """Split into parts that no other contains, and the contained ones."""
    parts: list[Part] = []
    hidden: list[Part] = []
    for part in sorted(found, key=lambda part: (part.lo, -part.hi)):
        if parts and part.hi <= parts[-1].hi:
            hidden.append(part)
        else:
            parts.append(part)
    return parts, hidden
