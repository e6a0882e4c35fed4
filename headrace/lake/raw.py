"""The raw lake of one exchange: write parts, read them back, say what is covered.

Every fact comes from the names and the footers in the store; nothing is remembered between calls.
Methods may be called from many threads at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.coverage import IntervalSet
from headrace.faults import kill_point
from headrace.lake import upkeep
from headrace.lake.digest import ContentDigest
from headrace.lake.encoding import (
    decode_metadata,
    decode_part,
    describe,
    encode_part,
    footer_size,
)
from headrace.lake.exceptions import InvalidTrades, ObjectMissing, PartConflict, PartUnreadable
from headrace.lake.footer import PartFooter, decode_footer
from headrace.lake.grid import Grid
from headrace.lake.names import (
    MAX_ID,
    PartName,
    canonical_exchange,
    canonical_product,
    exchange_prefix,
    product_of_folder,
    product_prefix,
)
from headrace.lake.parts import Part, PartListing, PartReceipt
from headrace.lake.rows import rows_between
from headrace.lake.store import Store
from headrace.lake.upkeep import SweepReceipt
from headrace.trades import empty_trades

T = TypeVar("T")

#: Enough for the footer of every part of ours; a longer one costs a second read.
_TAIL_BYTES = 16_384
#: How often a listing is asked for anew because somebody merges; a merge takes far longer.
_LOOKS = 5
_HOST = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,255}")


@dataclass(frozen=True, slots=True)
class Stock:
    """What the lake holds of a product at one moment: all of it from the same listing.

    Args:
        covered: ids answered for.
        rows: trades stored within them.
        holes: ids proven absent, a page or more at once.
    """

    covered: IntervalSet
    rows: int
    holes: IntervalSet


@dataclass(frozen=True, slots=True)
class NewestTrade:
    """The newest trade in the lake: its id, and the latest time in its part."""

    trade_id: int
    time: datetime


class RawLake:
    """The raw trades of `exchange` in `store`, cut by `grid`.

    Args:
        store: where the parts are.
        exchange: name of the exchange; becomes part of every path.
        grid: the lake's grid, from `load_or_create_grid`.
        readers: how many footers are read at once.
    """

    def __init__(self, store: Store, exchange: str, grid: Grid, *, readers: int = 16) -> None:
        self.store = store
        self.exchange = canonical_exchange(exchange)
        self.grid = grid
        self._readers = readers

    def products(self) -> list[str]:
        """The products that the lake has a folder for, sorted."""
        folders = self.store.folders(exchange_prefix(self.exchange))
        return [product for folder in folders if (product := product_of_folder(folder))]

    def parts(self, product: str) -> PartListing:
        """What the names say about `product`: one listing, no file is opened."""
        return PartListing.of(self.store.entries(product_prefix(self.exchange, product)), self.grid)

    def coverage(self, product: str) -> IntervalSet:
        """The ids of `product` that are answered for: stored, or proven absent."""
        return self.parts(product).coverage

    def write(
        self,
        product: str,
        lo: int,
        hi: int,
        table: pa.Table,
        *,
        source: str | Iterable[str],
        fetched_at: datetime,
        replace: bool = False,
        expected: ContentDigest | None = None,
    ) -> PartReceipt:
        """Store `table` as everything that the exchange has in [lo, hi], durably.

        Ids of the range that are absent from the table are recorded as holes of the exchange, so
        the caller must have seen an answer for the whole range. No rows at all are fine. Doing it
        again with the same rows does nothing.

        Args:
            product: product id, any case.
            lo: first id answered for, inclusive.
            hi: last id answered for, inclusive. With rows, in the same cell as `lo`.
            table: schema `RAW_SCHEMA`, sorted by rising `trade_id`, unique.
            source: host that answered (no scheme, no path, no credentials), or several.
            fetched_at: when, with a time zone.
            replace: let other content take the place of what is stored under this range.
            expected: the digest that the rows must have, where the caller knows it; it is computed
                here anyway.

        Raises:
            InvalidName: for a product id that cannot be a path.
            InvalidTrades: if the rows must not be stored; nothing was written.
            PartConflict: if the range is stored with other content and `replace` is not set.
            PartUnreadable: if what is stored there cannot be read and `replace` is not set.
            StoreError: if the store fails.
        """
        product = canonical_product(product)
        name = self._name(product, lo, hi, rows=table.num_rows)
        sources = (source,) if isinstance(source, str) else source
        # Pages come as small batches; everything below does better on one.
        table = table.combine_chunks()
        footer = describe(
            name,
            table,
            product=product,
            sources=_checked_hosts(sources),
            fetched_at=_utc(fetched_at),
        )
        if expected is not None and footer.content != expected:
            reason = f"their digest is {footer.content}, not {expected}"
            raise InvalidTrades(reason, product=product, lo=lo, hi=hi)
        content = encode_part(table, footer)
        part = Part(
            name,
            product_prefix(self.exchange, product) + str(name),
            len(content),
            self.grid.same_cell(lo, hi),
        )
        written = True
        if replace:
            self.store.put(part.key, content)
        else:
            written = self.store.put_if_absent(part.key, content)
        kill_point("after-part")
        if not written:
            try:
                footer = self._stored_twin(part, footer)
            except ObjectMissing:
                # Merged away since. Beside its merged part it is hidden, and swept.
                written = self.store.put_if_absent(part.key, content)
        return PartReceipt(part, footer, written)

    def write_empty(
        self, product: str, lo: int, hi: int, *, source: str, fetched_at: datetime
    ) -> PartReceipt:
        """Record that the exchange has nothing in [lo, hi], which may span cells; see `write`."""
        return self.write(product, lo, hi, empty_trades(), source=source, fetched_at=fetched_at)

    def read(self, product: str, lo: int = 1, hi: int = MAX_ID) -> pa.Table:
        """The trades of `product` with ids in [lo, hi], each once, sorted. All in memory."""
        tables = list(self.scan(product, lo, hi))
        return pa.concat_tables(tables).combine_chunks() if tables else empty_trades()

    def scan(self, product: str, lo: int = 1, hi: int = MAX_ID) -> Iterator[pa.Table]:
        """The same in pieces of one part at a time, by rising id; parts without rows are passed.

        A part that is merged away while the scan goes on is looked for under its new name, and an
        id that two parts answer for is taken once.

        Raises:
            PartUnreadable: if a part in the range cannot be read.
            ObjectMissing: if a part is gone and no other answers for its ids.
        """
        product = canonical_product(product)
        gone: Part | None = None
        while lo <= hi:
            for part in self.parts(product).between(lo, hi):
                if part == gone:
                    raise ObjectMissing("reading", self.store.place(part.key), "it is gone")
                try:
                    table, _ = self.read_part(part)
                except ObjectMissing:
                    gone = part
                    break
                clipped = rows_between(table, max(lo, part.lo), hi)
                lo = part.hi + 1
                if clipped.num_rows:
                    yield clipped
            else:
                return

    def read_part(self, part: Part) -> tuple[pa.Table, PartFooter]:
        """The rows and the footer of one part.

        Raises:
            ObjectMissing: if it is not there.
            PartUnreadable: if it is not a whole part, or its footer is that of another.
        """
        place = self.store.place(part.key)
        table, footer = decode_part(self.store.get(part.key), place)
        _check_range(part, footer, place)
        return table, footer

    def verify(self, part: Part) -> PartFooter:
        """Read a part's rows and hold them against its footer and its name.

        Raises:
            PartUnreadable: if anything differs: range, order, uniqueness, row count, digest, holes.
        """
        place = self.store.place(part.key)
        table, footer = self.read_part(part)
        try:
            found = describe(
                part.name,
                table,
                product="",
                sources=footer.sources,
                fetched_at=footer.fetched_at,
            )
        except InvalidTrades as error:
            raise PartUnreadable(place, error.what) from error
        if found != footer:
            raise PartUnreadable(
                place, f"its rows have digest {found.digest}, its footer says {footer.digest}"
            )
        return footer

    def footer(self, part: Part) -> PartFooter:
        """The footer of one part, from the end of its file.

        Raises:
            ObjectMissing: if it is not there.
            PartUnreadable: if it has no footer of ours, or that of another range.
        """
        return self._footer(part)[0]

    def footers(
        self, parts: Iterable[Part]
    ) -> Iterator[tuple[Part, PartFooter | PartUnreadable | ObjectMissing]]:
        """The footers of `parts`, in their order, read several at a time.

        A part that cannot be read comes with the error instead of a footer, so that an audit sees
        all of them. Failures of the store itself are raised.
        """
        parts = list(parts)
        with ThreadPoolExecutor(self._readers, thread_name_prefix="footers") as pool:
            yield from zip(parts, pool.map(self._footer_or_error, parts), strict=True)

    def newest(self, product: str) -> NewestTrade | None:
        """The newest trade of `product`, from statistics: one listing and usually one footer."""

        def look(listing: PartListing) -> NewestTrade | None:
            for part in reversed(listing.parts):
                footer, metadata = self._footer(part)
                if footer.rows:
                    return _newest(metadata)
            return None

        return self._settled(product, look)

    def first_id(self, product: str) -> int | None:
        """The id of the oldest trade of `product` in the lake, from statistics as `newest`."""

        def look(listing: PartListing) -> int | None:
            for part in listing.parts:
                footer, metadata = self._footer(part)
                if footer.rows:
                    oldest: int = metadata.row_group(0).column(0).statistics.min
                    return oldest
            return None

        return self._settled(product, look)

    def newest_sources(self, product: str) -> tuple[str, ...]:
        """The hosts that answered for the newest part; none if there is no part."""

        def look(listing: PartListing) -> tuple[str, ...]:
            return self.footer(listing.parts[-1]).sources if listing.parts else ()

        return self._settled(product, look)

    def proven_first(self, product: str) -> int | None:
        """The product's first trade, None unless the lake answers for every id below it.

        The oldest trade stored need not be the first: chunks become durable in any order.
        """
        first = self.first_id(product)
        return first if first and self.coverage(product).contains(1, first) else None

    def totals(self, product: str, lo: int = 1, hi: int = MAX_ID) -> tuple[int, IntervalSet]:
        """How many trades of [lo, hi] are stored, and the holes of a page or more in it.

        From footers; rows are read only of parts that cross `lo` or `hi`, or overlap another.

        Raises:
            PartUnreadable, ObjectMissing: if a part in the range cannot be read.
        """
        return self._settled(product, lambda listing: self._totals(listing.between(lo, hi), lo, hi))

    def stock(self, product: str) -> Stock:
        """What is covered and what is in it, of one moment, although others store meanwhile.

        Raises:
            PartUnreadable, ObjectMissing: if a part cannot be read.
        """

        def look(listing: PartListing) -> Stock:
            rows, holes = self._totals(listing.parts, 1, MAX_ID)
            return Stock(listing.coverage, rows, holes)

        return self._settled(product, look)

    def _totals(self, parts: Sequence[Part], lo: int, hi: int) -> tuple[int, IntervalSet]:
        rows = 0
        long_holes: list[tuple[int, int]] = []
        counted_to = lo - 1
        for part, footer in self.footers(parts):
            if not isinstance(footer, PartFooter):
                raise footer
            if part.lo <= counted_to or part.hi > hi:
                table, _ = self.read_part(part)
                rows += rows_between(table, counted_to + 1, hi).num_rows
            else:
                rows += footer.rows
            long_holes += footer.long_holes
            counted_to = part.hi
        holes = IntervalSet.from_ranges(long_holes)
        return rows, holes & IntervalSet.of((lo, hi))

    def merge(self, product: str, pieces: Sequence[Part]) -> PartReceipt:
        """Make one part of touching pieces; see `headrace.lake.upkeep.merge`."""
        return upkeep.merge(self, product, pieces)

    def merge_due(self, product: str) -> list[PartReceipt]:
        """Merge what is due; see `headrace.lake.upkeep.merge_due`."""
        return upkeep.merge_due(self, product)

    def sweep(self, product: str) -> SweepReceipt:
        """Remove what killed runs left; see `headrace.lake.upkeep.sweep`."""
        return upkeep.sweep(self, product)

    def _settled(self, product: str, look: Callable[[PartListing], T]) -> T:
        """What `look` sees in the listing, looked at again if a part was merged away meanwhile.

        Raises:
            ObjectMissing: if a part is gone and still listed, or after several merges in a row.
        """
        for _ in range(_LOOKS - 1):
            listing = self.parts(product)
            try:
                return look(listing)
            except ObjectMissing:
                if self.parts(product).parts == listing.parts:
                    raise
        return look(self.parts(product))

    def _name(self, product: str, lo: int, hi: int, *, rows: int) -> PartName:
        try:
            name = PartName(lo, hi)
        except ValueError as error:
            raise InvalidTrades(str(error), product=product, lo=lo, hi=hi) from error
        if rows and not self.grid.same_cell(lo, hi):
            raise InvalidTrades(
                f"the range crosses a border between cells of {self.grid.cell_ids} ids",
                product=product,
                lo=lo,
                hi=hi,
            )
        return name

    def _stored_twin(self, part: Part, offered: PartFooter) -> PartFooter:
        stored = self.footer(part)
        if (stored.digest, stored.rows) != (offered.digest, offered.rows):
            raise PartConflict(
                self.store.place(part.key),
                stored=f"{stored.rows} rows, digest {stored.digest}",
                offered=f"{offered.rows} rows, digest {offered.digest}",
            )
        return stored

    def _footer(self, part: Part) -> tuple[PartFooter, pq.FileMetaData]:
        place = self.store.place(part.key)
        tail = self.store.tail(part.key, _TAIL_BYTES)
        size = footer_size(tail, place)
        if size > len(tail):
            tail = self.store.tail(part.key, size)
        metadata = decode_metadata(tail, place)
        footer = decode_footer(metadata.metadata, place)
        _check_range(part, footer, place)
        return footer, metadata

    def _footer_or_error(self, part: Part) -> PartFooter | PartUnreadable | ObjectMissing:
        try:
            return self.footer(part)
        except (PartUnreadable, ObjectMissing) as error:
            return error


def _check_range(part: Part, footer: PartFooter, place: str) -> None:
    if (footer.lo, footer.hi) != (part.lo, part.hi):
        raise PartUnreadable(place, f"its footer answers for [{footer.lo}, {footer.hi}]")


def _newest(metadata: pq.FileMetaData) -> NewestTrade:
    group = metadata.row_group(metadata.num_row_groups - 1)
    ids, times = (group.column(column).statistics for column in (0, 1))
    return NewestTrade(ids.max, times.max.astimezone(UTC))


def _checked_hosts(sources: Iterable[str]) -> tuple[str, ...]:
    hosts = tuple(sorted(set(sources)))
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise ValueError(f"source must be a host name, not a URL: {host!r}")
    return hosts


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("fetched_at needs a time zone")
    return moment.astimezone(UTC)
