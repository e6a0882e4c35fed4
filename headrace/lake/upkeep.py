"""Keeping the raw lake small and clean: merge pieces, remove what a kill left behind.

Only the holder of a product's lease does this. The merged part is durable before the first piece
goes; a kill in between leaves pieces beside it, which every reader of ours passes over and the next
`sweep` removes, after it has found their rows in the longer part.

What is merged when is a pure function of the names and the grid (`merge_plan`). Parts are blocks of
the grid: 1, 2, 4, ... pages of a cell, each beginning at a multiple of its own length. Blocks lie
in each other or apart, so parts cannot overlap by half, whichever run wrote them, and a merge that
makes a block of blocks keeps it so.

Every ingest adds a small piece to the newest cell. Never merging would leave a file per page for
ever; rewriting the cell whenever it has a handful of pieces writes every row a hundred times. So a
block of an open cell is merged when it is complete and in several pieces, which writes a row a few
times, and a full cell is merged for good. No merge crosses the border of a cell, which bounds the
size of a file and the memory that a merge takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from headrace.kill_points import kill_point
from headrace.lake.digest import ContentDigest, content_digest
from headrace.lake.exceptions import InvalidTrades, MergeRefused, PartUnreadable
from headrace.lake.grid import PAGE_IDS, Grid
from headrace.lake.names import (
    FORMER_SET_ASIDE,
    TEMPORARY_PREFIX,
    canonical_product,
    exchange_prefix,
    product_prefix,
    set_aside_prefix,
)
from headrace.lake.parts import Part, PartReceipt
from headrace.trades import joined, rows_between

if TYPE_CHECKING:
    from headrace.lake.raw import RawLake


MIN_PIECES = 8


def merge_plan(
    parts: Sequence[Part], grid: Grid, *, min_pieces: int = MIN_PIECES
) -> list[tuple[Part, ...]]:
    """The groups of parts to merge now, each touching, in order and within one cell.

    Args:
        parts: a listing's `parts`, by rising range.
        grid: the lake's grid.
        min_pieces: how many pieces make a complete block of an open cell worth a merge.

    A full cell is merged with any number of pieces (two or more). Of an open one, the
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


@dataclass(frozen=True, slots=True)
class SweepReceipt:
    """What a sweep did.

    Args:
        pieces: parts removed because a longer part holds their rows.
        leftovers: temporary files of killed writers that were removed.
        kept: pieces whose rows are not those of the longer part, with the reason. Not touched.
    """

    pieces: tuple[Part, ...] = ()
    leftovers: tuple[str, ...] = ()
    kept: tuple[tuple[Part, str], ...] = ()


def merge(raw: RawLake, product: str, pieces: Sequence[Part]) -> PartReceipt:
    """Make one part of pieces that touch, then remove them.

    Rows and digest of the pieces' footers have to add up to those of the merged rows, before
    anything is written. After a kill the next `sweep`, or the same call, finishes the work.

    Args:
        raw: the lake.
        product: whose parts they are.
        pieces: two or more parts by rising range, each beginning where the one before ends, all in
            one cell; see `merge_plan`.

    Raises:
        MergeRefused: if the pieces do not touch, cross a cell's border, or do not add up.
        PartUnreadable: if a piece cannot be read.
        PartConflict: if the merged range is stored with other content.
        StoreError: if the store fails.
    """
    product = canonical_product(product)
    lo, hi = _check_shape(raw, product, pieces)
    batches, footers = [], []
    for piece in pieces:
        read, footer = raw.read_part(piece)
        batches += read.to_batches()
        footers.append(footer)
    del read
    table = joined(batches)
    rows = sum(footer.rows for footer in footers)
    if table.num_rows != rows:
        reason = f"their footers add up to {rows} rows, their contents to {table.num_rows}"
        raise MergeRefused(product, lo, hi, reason)
    try:
        receipt = raw.write(
            product,
            lo,
            hi,
            table,
            source={source for footer in footers for source in footer.sources},
            fetched_at=max(footer.fetched_at for footer in footers),
            expected=sum((footer.content for footer in footers), ContentDigest()),
            holes_proven=all(footer.holes_proven or not footer.holes for footer in footers),
            answers=[answer for footer in footers for answer in footer.answers],
        )
    except InvalidTrades as error:
        raise MergeRefused(product, lo, hi, error.what) from error
    kill_point("after-merge")
    for piece in pieces:
        raw.store.delete(piece.key)
        kill_point("during-merge-removal")
    return receipt


def merge_due(raw: RawLake, product: str) -> list[PartReceipt]:
    """Merge everything that `merge_plan` says is due for `product`; one receipt per merged part.

    Raises:
        as `merge` does; what was merged before stays so.
    """
    plan = merge_plan(raw.parts(product).parts, raw.grid)
    return [merge(raw, product, pieces) for pieces in plan]


def sweep(raw: RawLake, product: str) -> SweepReceipt:
    """Remove what killed runs left of `product`: pieces beside their merged part, temporary files.

    A piece goes only if the longer part holds exactly its rows within its range. What an earlier
    version set aside among the parts is moved away from them.

    Raises:
        StoreError: if the store fails.
    """
    product = canonical_product(product)
    # Earlier versions wrote beside the parts.
    swept = (TEMPORARY_PREFIX, exchange_prefix(raw.exchange), product_prefix(raw.exchange, product))
    leftovers = [left for prefix in swept for left in raw.store.sweep(prefix)]
    listing = raw.parts(product)
    removed: list[Part] = []
    kept: list[tuple[Part, str]] = []
    for piece in listing.hidden:
        longer = next(p for p in listing.parts if p.lo <= piece.lo and piece.hi <= p.hi)
        reason = _difference(raw, piece, longer)
        if reason:
            kept.append((piece, reason))
        else:
            raw.store.delete(piece.key)
            kill_point("during-sweep")
            removed.append(piece)
    for key in listing.foreign:
        _, former, name = key.rpartition("/")[2].partition(FORMER_SET_ASIDE)
        if former and name:
            aside = set_aside_prefix(raw.exchange, product) + name
            raw.store.put_if_absent(aside, raw.store.get(key))
            raw.store.delete(key)
    return SweepReceipt(tuple(removed), tuple(leftovers), tuple(kept))


def _check_shape(raw: RawLake, product: str, pieces: Sequence[Part]) -> tuple[int, int]:
    if not pieces:
        raise ValueError("there is nothing to merge")
    lo, hi = pieces[0].lo, pieces[-1].hi
    if len(pieces) < 2 or not tiles(pieces, lo, hi):
        raise MergeRefused(product, lo, hi, "they are not two or more pieces that touch")
    if not raw.grid.same_cell(lo, hi):
        raise MergeRefused(product, lo, hi, "they lie in more than one cell")
    return lo, hi


def _difference(raw: RawLake, piece: Part, longer: Part) -> str:
    """Why `piece` must not be removed in favour of `longer`; empty if it may be."""
    try:
        expected = raw.footer(piece)
        rows, _ = raw.read_part(longer)
        rows = rows_between(rows, piece.lo, piece.hi)
        found = content_digest(rows)
    except (PartUnreadable, InvalidTrades) as error:
        return error.message
    if (rows.num_rows, found) != (expected.rows, expected.content):
        return f"{longer.name} holds other rows in its range"
    return ""
