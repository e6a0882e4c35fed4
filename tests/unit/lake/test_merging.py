"""When pieces are merged, and what a year of small ingests leaves behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coverage import IntervalSet
from headrace.lake import Grid, Part, PartName
from headrace.lake.merging import MIN_PIECES, merge_plan

GRID = Grid(cell_pages=1)


def part(lo: int, hi: int, grid: Grid = GRID) -> Part:
    return Part(PartName(lo, hi), f"key-{lo}-{hi}", 100, grid.same_cell(lo, hi))


def plan(*bounds: tuple[int, int], min_pieces: int = MIN_PIECES) -> list[list[tuple[int, int]]]:
    groups = merge_plan([part(*pair) for pair in bounds], GRID, min_pieces=min_pieces)
    return [[(piece.lo, piece.hi) for piece in group] for group in groups]


def test_an_open_cell_waits_for_several_pieces() -> None:
    pieces = [(n * 10 + 1, n * 10 + 10) for n in range(MIN_PIECES)]

    assert plan(*pieces[:-1]) == []
    assert plan(*pieces) == [pieces]


def test_a_long_piece_waits_until_the_younger_ones_match_it() -> None:
    long, ones = (1, 100), [(n, n) for n in range(101, 101 + MIN_PIECES)]
    forty = [(n, n + 9) for n in range(101, 500, 10)]

    assert plan(long, *ones) == [ones]
    assert plan(long, *forty) == [[long, *forty]]


def test_a_full_cell_is_merged_whatever_the_number() -> None:
    assert plan((1, 400), (401, 1_000)) == [[(1, 400), (401, 1_000)]]


def test_a_full_cell_of_one_part_is_done() -> None:
    assert plan((1, 1_000), (1_001, 2_000)) == []


def test_no_merge_crosses_a_border() -> None:
    assert plan((901, 1_000), (1_001, 1_100), min_pieces=2) == []
    assert plan((801, 900), (901, 1_000), (1_001, 1_100), (1_101, 1_200), min_pieces=2) == [
        [(801, 900), (901, 1_000)],
        [(1_001, 1_100), (1_101, 1_200)],
    ]


def test_no_merge_crosses_a_gap_or_an_overlap() -> None:
    assert plan((1, 100), (102, 200), min_pieces=2) == []
    assert plan((1, 100), (100, 200), min_pieces=2) == []


def test_an_empty_part_that_spans_cells_counts_as_cover_and_stays() -> None:
    assert plan((1, 1_500), (1_501, 1_700), (1_701, 2_000)) == [[(1_501, 1_700), (1_701, 2_000)]]


@given(st.lists(st.integers(1, 700), min_size=1, max_size=60), st.integers(2, 12))
def test_merging_changes_no_coverage_and_comes_to_rest(lengths: list[int], least: int) -> None:
    parts, lo = [], 1
    for length in lengths:
        hi = min(lo + length - 1, GRID.cell_of(lo).hi)
        parts.append(part(lo, hi))
        lo = hi + 1
    before = IntervalSet.from_ranges((p.lo, p.hi) for p in parts)

    for group in merge_plan(parts, GRID, min_pieces=least):
        assert GRID.same_cell(group[0].lo, group[-1].hi)
        parts = sorted([p for p in parts if p not in group] + [part(group[0].lo, group[-1].hi)])

    assert IntervalSet.from_ranges((p.lo, p.hi) for p in parts) == before
    assert merge_plan(parts, GRID, min_pieces=least) == []


@pytest.mark.parametrize("days", [10, pytest.param(365, marks=pytest.mark.slow)])
def test_five_minute_ingests_leave_few_files(days: int) -> None:
    grid = Grid(cell_pages=100)
    closed: list[Part] = []
    pieces: list[Part] = []
    newest = written_ids = most_pieces = 0
    for turn in range(days * 288):
        new = 40 + turn % 37
        written_ids += new
        while new:
            hi = min(newest + new, grid.cell_of(newest + 1).hi)
            pieces.append(part(newest + 1, hi, grid))
            new -= hi - newest
            newest = hi
        for group in merge_plan(pieces, grid):
            merged = part(group[0].lo, group[-1].hi, grid)
            written_ids += merged.hi - merged.lo + 1
            pieces = sorted([merged, *(piece for piece in pieces if piece not in group)])
        while pieces and pieces[0].hi == grid.cell_of(pieces[0].lo).hi:
            closed.append(pieces.pop(0))
        most_pieces = max(most_pieces, len(pieces))

    files = [*closed, *pieces]
    assert len(closed) == newest // grid.cell_ids
    assert IntervalSet.from_ranges((file.lo, file.hi) for file in files) == IntervalSet.of(
        (1, newest)
    )
    assert most_pieces < 4 * MIN_PIECES
    assert written_ids / newest < 6
