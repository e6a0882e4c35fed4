"""When pieces become one part: a pure function of the names and the grid.

Parts are blocks of the grid: 1, 2, 4, ... pages of a cell, each beginning at a multiple of its own
length. Blocks lie in each other or apart, so whatever wrote them, parts cannot overlap by half, and
a merge that makes a block of blocks keeps it so.

Every ingest adds a small piece to the newest cell. Never merging would leave a file per page for
ever; rewriting the cell whenever it has a handful of pieces writes every row a hundred times. So a
block of an open cell is merged when it is complete and in several pieces, which writes a row a few
times, and a full cell is merged for good. No merge crosses the border of a cell, which bounds the
size of a file and the memory that a merge takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from headrace.lake.grid import PAGE_IDS, Grid
from headrace.lake.parts import Part

MIN_PIECES = 8


def merge_plan(
    parts: Sequence[Part], grid: Grid, *, min_pieces: int = MIN_PIECES
) -> list[tuple[Part, ...]]:
    """The groups of parts to merge now, each touching, in order and within one cell.

    Args:
        parts: a listing's `parts`, by rising range.
        grid: the lake's grid.
        min_pieces: how many pieces make a complete block of an open cell worth a merge.

    A full cell is merged whatever the number of its pieces (two or more). Of an open one, the
    largest complete blocks with `min_pieces` or more are. Empty parts that span cells are left
    alone.
    """
    within = (part for part in parts if grid.same_cell(part.lo, part.hi))
    plan: list[tuple[Part, ...]] = []
    for cell, pieces in groupby(within, key=lambda part: grid.cell_of(part.lo)):
        whole = tuple(pieces)
        if len(whole) >= 2 and tiles(whole, cell.lo, cell.hi):
            plan.append(whole)
        else:
            plan.extend(_due_blocks(whole, cell.lo, grid.cell_pages, max(2, min_pieces)))
    return plan


def _due_blocks(
    pieces: tuple[Part, ...], lo: int, pages: int, needed: int
) -> Iterator[tuple[Part, ...]]:
    """Largest first: the complete blocks of `pages` pages from `lo` that are in enough pieces."""
    hi = lo + pages * PAGE_IDS - 1
    inside = tuple(piece for piece in pieces if lo <= piece.lo and piece.hi <= hi)
    if len(inside) < needed:
        return
    if tiles(inside, lo, hi):
        yield inside
    elif pages > 1:
        half = 1 << (pages - 1).bit_length() - 1
        yield from _due_blocks(inside, lo, half, needed)
        yield from _due_blocks(inside, lo + half * PAGE_IDS, pages - half, needed)


def tiles(pieces: Sequence[Part], lo: int, hi: int) -> bool:
    """Whether the pieces, in order, cover [lo, hi] without a gap or an overlap."""
    return (
        pieces[0].lo == lo
        and pieces[-1].hi == hi
        and all(right.lo == left.hi + 1 for left, right in pairwise(pieces))
    )
