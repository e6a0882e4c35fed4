"""The fixed grid and the record of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lake import Cell, Grid, open_lake
from headrace.lake.exceptions import GridDamaged
from headrace.lake.grid import (
    PAGE_IDS,
    former_grid_key,
    grid_key,
    load_or_create_grid,
    recorded_grid,
)
from headrace.lake.local import LocalStore


def test_cells_begin_at_one() -> None:
    grid = Grid(cell_pages=2)

    assert grid.cell_of(1) == Cell(0, 1, 2_000)
    assert grid.cell_of(2_000) == Cell(0, 1, 2_000)
    assert grid.cell_of(2_001) == Cell(1, 2_001, 4_000)


@given(st.integers(1, 10_000), st.integers(1, 2**60))
def test_every_id_is_in_the_cell_that_it_gets(pages: int, trade_id: int) -> None:
    grid = Grid(pages)
    cell = grid.cell_of(trade_id)

    assert cell.lo <= trade_id <= cell.hi
    assert cell.hi - cell.lo + 1 == pages * 1_000
    assert grid.cell_of(cell.hi + 1).lo == cell.hi + 1


@given(st.integers(1, 50), st.integers(1, 100_000), st.integers(0, 100_000))
def test_the_cells_of_a_range_cover_it_without_gap(pages: int, lo: int, length: int) -> None:
    grid = Grid(pages)
    cells = list(grid.cells(lo, lo + length))

    assert cells[0].lo <= lo
    assert cells[-1].hi >= lo + length
    assert all(left.hi + 1 == right.lo for left, right in pairwise(cells))
    assert grid.same_cell(lo, lo + length) == (len(cells) == 1)


def test_an_empty_range_has_no_cells() -> None:
    assert list(Grid().cells(10, 9)) == []


@pytest.mark.parametrize("pages", [0, -1, 10_001])
def test_a_grid_that_cannot_be(pages: int) -> None:
    with pytest.raises(ValueError, match="cell_pages"):
        Grid(pages)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 10_000,
        b'{"schema_version":1,"cell_pages":100,',
        b'{"schema_version":1,"cell_pages":0,"page_ids":1000}',
        b'{"schema_version":1,"cell_pages":100,"page_ids":500}',
        b'{"schema_version":1,"cell_pages":"100","page_ids":1000}',
        b'{"schema_version":2,"cell_pages":100,"page_ids":1000}',
    ],
)
def test_a_damaged_record_is_named_and_not_rewritten(tmp_path: Path, content: bytes) -> None:
    lake = open_lake(tmp_path)
    lake.raw("coinbase", cell_pages=7)
    record = tmp_path / grid_key("coinbase")
    record.write_bytes(content)

    with pytest.raises(GridDamaged) as caught:
        lake.raw("coinbase", cell_pages=7)

    assert str(record) in str(caught.value)
    assert caught.value.hint
    assert record.read_bytes() == content


def as_before(lake: Path, cell_pages: int) -> Path:
    """The record of a lake that an older version wrote: among the parts."""
    record = lake / former_grid_key("coinbase")
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(f'{{"schema_version":1,"cell_pages":{cell_pages},"page_ids":1000}}\n')
    return record


def test_no_file_that_is_no_part_stands_among_the_parts(tmp_path: Path) -> None:
    open_lake(tmp_path).raw("coinbase")

    assert not (tmp_path / "raw").exists()
    assert (tmp_path / grid_key("coinbase")).exists()


def test_the_record_of_an_older_version_is_read_and_moved(tmp_path: Path) -> None:
    record = as_before(tmp_path, 7)
    store = open_lake(tmp_path).store
    assert recorded_grid(store, "coinbase") == Grid(7)
    assert record.exists()

    assert open_lake(tmp_path).raw("coinbase", cell_pages=100).grid == Grid(7)

    assert not record.exists()
    assert open_lake(tmp_path).raw("coinbase", cell_pages=100).grid == Grid(7)


def test_what_a_run_of_an_older_version_records_meanwhile_is_removed_if_it_agrees(
    tmp_path: Path,
) -> None:
    open_lake(tmp_path).raw("coinbase", cell_pages=7)
    record = as_before(tmp_path, 7)
    assert open_lake(tmp_path).raw("coinbase").grid == Grid(7)
    assert not record.exists()

    as_before(tmp_path, 128)
    with pytest.raises(GridDamaged, match="128 pages"):
        open_lake(tmp_path).raw("coinbase")
    assert record.exists()


def test_a_kill_between_the_two_records_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = as_before(tmp_path, 7)

    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "delete", killed)
        with pytest.raises(Killed):
            load_or_create_grid(LocalStore(str(tmp_path)), "coinbase", 100)
    assert record.exists()

    assert open_lake(tmp_path).raw("coinbase").grid == Grid(7)
    assert not record.exists()


@given(st.integers(1, 40), st.data())
def test_blocks_lie_in_each_other_or_apart_and_tile_what_they_are_cut_from(cell_pages, data):
    grid = Grid(cell_pages)
    most = 3 * grid.cell_ids
    first_page = st.integers(0, 3 * cell_pages - 1)

    def cut() -> list[tuple[int, int]]:
        lo = data.draw(first_page) * PAGE_IDS + 1
        hi = data.draw(st.integers(lo, most))
        blocks = list(grid.blocks(lo, hi))
        assert blocks[0][0] == lo
        assert blocks[-1][1] == hi
        assert all(left[1] + 1 == right[0] for left, right in pairwise(blocks))
        return blocks

    for a_lo, a_hi in cut():
        for b_lo, b_hi in cut():
            apart = a_hi < b_lo or b_hi < a_lo
            nested = (a_lo <= b_lo and b_hi <= a_hi) or (b_lo <= a_lo and a_hi <= b_hi)
            assert apart or nested
