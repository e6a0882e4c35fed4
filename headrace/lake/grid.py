"""The fixed grid: ids are divided in cells, and a full cell is one file.

Cell k holds the ids [k * size + 1, (k + 1) * size], with size = pages x 1,000 ids. The grid is
recorded in the lake when it is created and never changes: parts of two grids would overlap. With
128 pages a full cell of realistic trades is a file of about 1 MB (measured, see docs/lake.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from headrace.lake.exceptions import GridDamaged, ObjectMissing
from headrace.lake.names import OWN_ROOT, canonical_exchange, exchange_prefix
from headrace.lake.store import Store

PAGE_IDS = 1_000
DEFAULT_CELL_PAGES = 128
MAX_CELL_PAGES = 10_000
GRID_VERSION = 1


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One cell of the grid: its number and its inclusive bounds."""

    index: int
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of `cell_pages` pages of 1,000 ids each."""

    cell_pages: int = DEFAULT_CELL_PAGES

    def __post_init__(self) -> None:
        if not 1 <= self.cell_pages <= MAX_CELL_PAGES:
            raise ValueError(f"cell_pages must be 1 to {MAX_CELL_PAGES}, not {self.cell_pages}")

    @property
    def cell_ids(self) -> int:
        """How many ids a cell holds."""
        return self.cell_pages * PAGE_IDS

    def cell(self, index: int) -> Cell:
        """The cell with this number, counted from 0."""
        return Cell(index, index * self.cell_ids + 1, (index + 1) * self.cell_ids)

    def cell_of(self, trade_id: int) -> Cell:
        """The cell that holds `trade_id` (>= 1)."""
        return self.cell((trade_id - 1) // self.cell_ids)

    def cells(self, lo: int, hi: int) -> Iterator[Cell]:
        """The cells that share an id with [lo, hi], in order; none if hi < lo."""
        if hi < lo:
            return
        for index in range(self.cell_of(lo).index, self.cell_of(hi).index + 1):
            yield self.cell(index)

    def blocks(self, lo: int, hi: int) -> Iterator[tuple[int, int]]:
        """[lo, hi] cut into ranges that can stand in the lake beside any others of their kind.

        The whole cells from id 1 on together (a history may begin late), then the largest blocks
        that fit; see `block_end`.
        """
        while lo <= hi:
            whole_cells_end = hi // self.cell_ids * self.cell_ids
            if lo == 1 <= whole_cells_end:
                end = whole_cells_end
            else:
                end = self.block_end(lo, hi, self.cell_pages)
            yield lo, end
            lo = end + 1

    def block_end(self, lo: int, hi: int, most_pages: int) -> int:
        """Where the largest block ends that begins at `lo`, by `hi`, with at most so many pages.

        Blocks are 1, 2, 4, ... pages that begin at a multiple of their own length within the cell
        (the last ones of a cell may be cut off by its end). What is not a whole page is a block of
        its own. Two blocks lie in each other or apart if each begins with the first id of a page.
        """
        cell = self.cell_of(lo)
        first, within_page = divmod(lo - cell.lo, PAGE_IDS)
        size = 1

        def end_of(pages: int) -> int:
            return cell.lo + min(first + pages, self.cell_pages) * PAGE_IDS - 1

        while (
            not within_page
            and min(2 * size, self.cell_pages - first) <= most_pages
            and first % (2 * size) == 0
            and end_of(size) < cell.hi
            and end_of(2 * size) <= hi
        ):
            size *= 2
        return min(hi, end_of(size))

    def same_cell(self, lo: int, hi: int) -> bool:
        """Whether [lo, hi] lies in one cell."""
        return self.cell_of(lo) == self.cell_of(hi)


class _GridFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema_version: int
    cell_pages: int
    page_ids: int


def grid_key(exchange: str) -> str:
    """Where the grid of an exchange's raw trades is recorded: not among the parts.

    Some readers of a folder take every file in it for Parquet.
    """
    return f"{OWN_ROOT}/grid-{canonical_exchange(exchange)}.json"


def former_grid_key(exchange: str) -> str:
    """Where it was recorded before, among the parts."""
    return f"{exchange_prefix(exchange)}_grid.json"


def recorded_grid(store: Store, exchange: str) -> Grid | None:
    """The grid that the lake records, in either place; None if it records none. Changes nothing.

    Raises:
        GridDamaged: if a record cannot be read or is of a newer version, or the two differ.
        StoreError: if the store fails.
    """
    now, before = _recorded_grids(store, exchange)
    return now or before


def load_or_create_grid(store: Store, exchange: str, cell_pages: int) -> Grid:
    """The grid of the lake; recorded now with `cell_pages` if the lake has none.

    A grid that is already there wins over the setting. Two processes that create it at once get
    the same one: the record is written on the condition that there is none.

    A record in its former place, among the parts, is moved. A run of an older version that begins
    afterwards records the grid there again, and the next run of this one moves that.

    Raises:
        GridDamaged: if the record cannot be read or is of a newer version. It is not rewritten:
            the parts in the lake were cut by what it said.
        StoreError: if the store fails.
    """
    key, former = grid_key(exchange), former_grid_key(exchange)
    now, before = _recorded_grids(store, exchange)
    if now and not before:
        return now
    grid = now or before or Grid(cell_pages)
    record = _GridFile(GRID_VERSION, grid.cell_pages, PAGE_IDS)
    if not now and not store.put_if_absent(key, msgspec.json.encode(record) + b"\n"):
        grid = _parse(store.get(key), store.place(key))  # another process was first
    if before:
        store.delete(former)
    return grid


def _recorded_grids(store: Store, exchange: str) -> tuple[Grid | None, Grid | None]:
    """What is recorded in its place, and in the former one."""
    key, former = grid_key(exchange), former_grid_key(exchange)
    now, before = _recorded(store, key), _recorded(store, former)
    if now and before and now != before:
        raise GridDamaged(
            store.place(former),
            f"it says {before.cell_pages} pages, {store.place(key)} says {now.cell_pages}",
            hint="Remove the wrong one: the widest parts that hold trades have as many pages as "
            "the right one says (verify_lake.py prints them)",
        )
    return now, before


def _recorded(store: Store, key: str) -> Grid | None:
    try:
        return _parse(store.get(key), store.place(key))
    except ObjectMissing:
        return None


#: Made here: two threads that meet a type for the first time at once crash in msgspec.
_GRID_FILE = msgspec.json.Decoder(_GridFile)


def _parse(content: bytes, place: str) -> Grid:
    remedy = (
        f'Restore it as {{"schema_version":{GRID_VERSION},"cell_pages":N,"page_ids":{PAGE_IDS}}}, '
        f"where N x {PAGE_IDS} is the length of the widest parts that hold trades; "
        "verify_lake.py prints that N"
    )
    try:
        record = _GRID_FILE.decode(content)
    except msgspec.MsgspecError as error:
        raise GridDamaged(place, str(error), hint=remedy) from error
    if record.schema_version > GRID_VERSION:
        reason = f"schema version {record.schema_version}, this version reads {GRID_VERSION}"
        raise GridDamaged(place, reason, hint="Upgrade headrace")
    if record.page_ids != PAGE_IDS:
        raise GridDamaged(place, f"pages of {record.page_ids} ids", hint=remedy)
    try:
        return Grid(record.cell_pages)
    except ValueError as error:
        raise GridDamaged(place, str(error), hint=remedy) from error
