"""When pieces become one part: a pure function of the names and the grid.

Every ingest adds a small piece to the newest cell. Rewriting the cell each time would cost more
than it saves, never merging would leave a file per ingest for ever. So an open cell is merged when
it has gathered several pieces, and once more, for good, when it is full. No merge crosses the
border of a cell, which bounds the size of a file and the memory that a merge takes.
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
        min_pieces: how many touching pieces an open cell must have.

    A cell that is covered to its last id is merged whatever the number of its pieces (two or
    more). Parts that overlap, and empty parts that span cells, are left alone.
    """
    coverage = IntervalSet.from_ranges((part.lo, part.hi) for part in parts)
    within = (part for part in parts if grid.same_cell(part.lo, part.hi))
    plan: list[tuple[Part, ...]] = []
    for cell, pieces in groupby(within, key=lambda part: grid.cell_of(part.lo)):
        needed = 2 if _is_full(cell, coverage) else max(2, min_pieces)
        plan.extend(run for run in touching_runs(pieces) if len(run) >= needed)
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
