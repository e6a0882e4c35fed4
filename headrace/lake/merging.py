"""When pieces become one part: a pure function of the names and the grid.

Every ingest adds a small piece to the newest cell. Never merging would leave a file per ingest for
ever; rewriting the cell whenever it has a handful of pieces writes every row a hundred times
(measured over a simulated year). So an open cell is merged as log-structured stores do it: pieces
of like length with each other, which writes a row a few times. When the cell is full it is merged
for good. No merge crosses the border of a cell, which bounds the size of a file and the memory
that a merge takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from headrace.coverage import IntervalSet
from headrace.lake.grid import Cell, Grid
from headrace.lake.parts import Part

MIN_PIECES = 8


def merge_plan(
    parts: Sequence[Part], grid: Grid, *, min_pieces: int = MIN_PIECES
) -> list[tuple[Part, ...]]:
    """The groups of parts to merge now, each touching, in order and within one cell.

    Args:
        parts: a listing's `parts`, by rising range.
        grid: the lake's grid.
        min_pieces: how many touching pieces of an open cell are worth a merge.

    A cell that is covered to its last id is merged whatever the number of its pieces (two or
    more). In an open one, the youngest pieces of a run are merged if they are `min_pieces` or more
    and none of them is much longer than the others. Parts that overlap, and empty parts that span
    cells, are left alone.
    """
    coverage = IntervalSet.from_ranges((part.lo, part.hi) for part in parts)
    within = (part for part in parts if grid.same_cell(part.lo, part.hi))
    plan: list[tuple[Part, ...]] = []
    for cell, pieces in groupby(within, key=lambda part: grid.cell_of(part.lo)):
        runs = touching_runs(pieces)
        if not _is_full(cell, coverage):
            runs = [_alike(run, max(2, min_pieces)) for run in runs]
        plan.extend(run for run in runs if len(run) >= 2)
    return plan


def touching_runs(parts: Iterable[Part]) -> list[tuple[Part, ...]]:
    """The parts in runs in which each begins right after the one before ends."""
    runs: list[list[Part]] = []
    for part in parts:
        if runs and part.lo == runs[-1][-1].hi + 1:
            runs[-1].append(part)
        else:
            runs.append([part])
    return [tuple(run) for run in runs]


def _is_full(cell: Cell, coverage: IntervalSet) -> bool:
    return coverage.contains(cell.lo, cell.hi)


def _alike(run: tuple[Part, ...], min_pieces: int) -> tuple[Part, ...]:
    """The longest end of `run` with enough pieces, none of which outweighs the others.

    None may have more ids than two shares of an end of `min_pieces` equal ones.
    """
    ids = longest = chosen = 0
    for count, piece in enumerate(reversed(run), start=1):
        length = piece.hi - piece.lo + 1
        ids += length
        longest = max(longest, length)
        if count >= min_pieces and longest * min_pieces <= 2 * ids:
            chosen = count
    return run[len(run) - chosen :]
