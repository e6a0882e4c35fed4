"""When pieces are merged, and what a year of small ingests leaves behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coverage import IntervalSet
from headrace.lake import Grid, Part, PartName
from headrace.lake.grid import PAGE_IDS
from headrace.lake.upkeep import MIN_PIECES, merge_plan

GRID = Grid(cell_pages=16)


def part(lo: int, hi: int, grid: Grid = GRID) -> Part:
    return Part(PartName(lo, hi), f"key-{lo}-{hi}", 100, grid.same_cell(lo, hi))


def pages(*spans: tuple[int, int]) -> list[tuple[int, int]]:
    """Ranges of pages, first and last counted from 0, as ranges of ids."""
    return [(first * PAGE_IDS + 1, (last + 1) * PAGE_IDS) for first, last in spans]


def plan(bounds: list[tuple[int, int]], *, least: int = MIN_PIECES) -> list[list[tuple[int, int]]]:
    groups = merge_plan([part(*pair) for pair in bounds], GRID, min_pieces=least)
    return [[(piece.lo, piece.hi) for piece in group] for group in groups]


def test_a_block_of_an_open_cell_waits_until_it_is_complete_and_in_several_pieces() -> None:
    ones = pages(*((n, n) for n in range(8)))

    assert plan(ones[:7]) == []
    assert plan(ones) == [ones]
    assert plan([*ones, *pages((8, 8))]) == [ones]


def test_only_blocks_are_merged_never_what_lies_across_two() -> None:
    shifted = pages(*((n, n) for n in range(1, 11)))

    assert plan(shifted) == []
    assert plan(shifted, least=4) == [pages(*((n, n) for n in range(4, 8)))]


def test_a_full_cell_is_merged_whatever_the_number() -> None:
    assert plan(pages((0, 7), (8, 15))) == [pages((0, 7), (8, 15))]


def test_a_full_cell_of_one_part_is_done() -> None:
    assert plan(pages((0, 15), (16, 31))) == []


def test_no_merge_crosses_a_border_a_gap_or_an_overlap() -> None:
    assert plan(pages((15, 15), (16, 16)), least=2) == []
    assert plan(pages((0, 0), (2, 2)), least=2) == []
    assert plan([(1, 1_000), (900, 2_000)], least=2) == []


def test_an_empty_part_that_spans_cells_stays() -> None:
    assert plan(pages((0, 31), (32, 39), (40, 47))) == [pages((32, 39), (40, 47))]


@given(st.data(), st.integers(1, 40), st.integers(2, 12))
def test_merging_changes_no_coverage_leaves_only_blocks_and_comes_to_rest(
    data: st.DataObject, cell_pages: int, least: int
) -> None:
    grid = Grid(cell_pages)
    newest = data.draw(st.integers(1, 3 * grid.cell_ids))
    parts, lo = [], 1
    while lo <= newest:
        hi = grid.block_end(lo, newest, data.draw(st.integers(1, cell_pages)))
        parts.append(part(lo, hi, grid))
        lo = hi + 1
    before = IntervalSet.from_ranges((p.lo, p.hi) for p in parts)

    while plan_now := merge_plan(parts, grid, min_pieces=least):
        for group in plan_now:
            merged = (group[0].lo, group[-1].hi)
            assert merged[1] == grid.block_end(*merged, cell_pages)
            parts = sorted([p for p in parts if p not in group] + [part(*merged, grid)])

    assert IntervalSet.from_ranges((p.lo, p.hi) for p in parts) == before


@pytest.mark.parametrize("days", [10, pytest.param(365, marks=pytest.mark.slow)])
def test_five_minute_ingests_leave_few_files(days: int) -> None:
    grid = Grid()
    closed: list[Part] = []
    pieces: list[Part] = []
    newest = written_ids = most_pieces = 0
    for turn in range(days * 288):
        page_begin = newest // PAGE_IDS * PAGE_IDS + 1
        newest += 40 + turn % 37
        # An ingest writes the page of the newest trade again, from its beginning.
        pieces = [piece for piece in pieces if piece.lo < page_begin]
        lo = page_begin
        while lo <= newest:
            hi = grid.block_end(lo, newest, 1)
            pieces.append(part(lo, hi, grid))
            written_ids += hi - lo + 1
            lo = hi + 1
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
    assert most_pieces <= 3 * MIN_PIECES
    # The page of the newest trade is written a dozen times until it is full, blocks twice more.
    assert written_ids / newest < 14
