"""The raw lake of one exchange: write parts, read them back, say what is covered.

Every fact comes from the names and the footers in the store; nothing is remembered between calls.
Methods may be called from many threads at once.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.coverage import IntervalSet
from headrace.errors import StateError
from headrace.kill_points import kill_point
from headrace.lake import stats, upkeep
from headrace.lake.answer_evidence import Answer
from headrace.lake.digest import ContentDigest
from headrace.lake.encoding import (
    PartFooter,
    decode_footer,
    decode_metadata,
    decode_part,
    describe,
    encode_part,
    footer_size,
)
from headrace.lake.exceptions import (
    FooterTooNew,
    InvalidTrades,
    ObjectMissing,
    PartConflict,
    PartUnreadable,
)
from headrace.lake.grid import Grid
from headrace.lake.names import (
    MAX_ID,
    PartName,
    canonical_exchange,
    canonical_product,
    product_prefix,
)
from headrace.lake.parts import Part, PartListing, PartReceipt
from headrace.lake.stats import LakeStats, NewestTrade
from headrace.lake.store import Guard, GuardedStore, Store, stored_products
from headrace.lake.upkeep import SweepReceipt
from headrace.trades import empty_trades, rows_between

#: Enough for the footer of every part of ours; a longer one costs a second read.
_TAIL_BYTES = 4_096
_HOST = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,255}")


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
        self.readers = readers

    def under(self, guard: Guard) -> RawLake:
        """The same lake, in which nothing is stored, replaced or removed unless `guard` allows it.

        Args:
            guard: raises when nothing may be changed any more, as `Lease.check_time` does.
        """
        store = GuardedStore(self.store, guard)
        return RawLake(store, self.exchange, self.grid, readers=self.readers)

    def products(self) -> list[str]:
        """The products that the lake has a folder for, sorted."""
        return stored_products(self.store, self.exchange)

    def parts(self, product: str) -> PartListing:
        """What the names say about `product`: one listing, no file is opened."""
        return PartListing.of(self.store.entries(product_prefix(self.exchange, product)), self.grid)

    def listings(self, products: Iterable[str]) -> Iterator[dict[str, PartListing]]:
        """The same of many products, with as few requests as the store can do it.

        Yields what each request completes. In a store that does not list by rising key a product
        may show fewer parts than it has.
        """
        folders = {product_prefix(self.exchange, product): product for product in products}
        for known in self.store.listings(folders):
            yield {
                folders[prefix]: PartListing.of(objects, self.grid)
                for prefix, objects in known.items()
            }

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
        holes_proven: bool = True,
        answers: Iterable[Answer] = (),
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
            holes_proven: whether answers prove that the absent ids do not exist; False for rows of
                a part that does not say so.
            answers: what shows the holes; those that are about the range are kept.

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
        # Everything below does better on one batch than on many small ones; one is not copied.
        table = table.combine_chunks()
        footer = describe(
            name,
            table,
            product=product,
            sources=_checked_hosts(sources),
            fetched_at=_utc(fetched_at),
            holes_proven=holes_proven,
            answers=answers,
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
        self,
        product: str,
        lo: int,
        hi: int,
        *,
        source: str,
        fetched_at: datetime,
        answers: Iterable[Answer] = (),
    ) -> PartReceipt:
        """Record that the exchange has nothing in [lo, hi], which may span cells; see `write`."""
        nothing = empty_trades()
        return self.write(
            product, lo, hi, nothing, source=source, fetched_at=fetched_at, answers=answers
        )

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
        for part, found in self.scan_parts(product, lo, hi):
            if isinstance(found, Exception):
                raise found
            clipped = rows_between(found[0], lo, hi)
            lo = part.hi + 1
            if clipped.num_rows:
                yield clipped

    def scan_parts(
        self, product: str, lo: int = 1, hi: int = MAX_ID, *, readers: int = 1
    ) -> Iterator[tuple[Part, tuple[pa.Table, PartFooter] | StateError]]:
        """Every part that shares an id with [lo, hi], by rising id: its rows in it, and its footer.

        A part that cannot be read comes with the error (PartUnreadable, FooterTooNew) instead. One
        that is merged away while the scan goes on is looked for under its new name, and gives the
        rows that were not given yet. Up to `readers` parts are read ahead, by threads; with one
        reader, each is read by the caller when it comes to it.

        Raises:
            ObjectMissing: if a part is gone and no other answers for its ids.
        """
        product = canonical_product(product)
        gone: Part | None = None
        with ExitStack() as opened:
            pool = None
            if readers > 1:
                threads = ThreadPoolExecutor(readers, thread_name_prefix="parts")
                pool = opened.enter_context(threads)
            while lo <= hi:
                ahead: deque[Future[tuple[pa.Table, PartFooter]]] = deque()
                begin, parts = lo, self.parts(product).between(lo, hi)
                for at, part in enumerate(parts):
                    if pool is not None:
                        wanted = parts[at + len(ahead) : at + readers]
                        ahead.extend(pool.submit(self.read_part, each) for each in wanted)
                    found: tuple[pa.Table, PartFooter] | StateError
                    try:
                        table, footer = ahead.popleft().result() if ahead else self.read_part(part)
                        found = rows_between(table, begin, hi), footer
                    except ObjectMissing:
                        if part == gone:
                            raise
                        gone = part
                        break
                    except (PartUnreadable, FooterTooNew) as error:
                        found = error
                    yield part, found
                    lo = part.hi + 1
                else:
                    return

    def read_part(self, part: Part) -> tuple[pa.Table, PartFooter]:
        """The rows and the footer of one part.

        Raises:
            ObjectMissing: if it is not there.
            PartUnreadable: if it is not a whole part, or its footer is that of another.
        """
        place = self.store.place(part.key)
        table, footer = decode_part(self._content(part), place)
        _check_range(part, footer, place)
        return table, footer

    def verify(self, part: Part) -> PartFooter:
        """Read a part's rows and hold them against its footer and its name; see `verified`."""
        return self.verified(part)[1]

    def verified(self, part: Part) -> tuple[pa.Table, PartFooter]:
        """The rows and the footer of a part, once they are found to fit each other and its name.

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
                holes_proven=footer.holes_proven,
                answers=footer.answers,
            )
        except InvalidTrades as error:
            raise PartUnreadable(place, error.what) from error
        if found != footer:
            raise PartUnreadable(
                place, f"its rows have digest {found.digest}, its footer says {footer.digest}"
            )
        return table, footer

    def footer(self, part: Part) -> PartFooter:
        """The footer of one part, from the end of its file.

        Raises:
            ObjectMissing: if it is not there.
            PartUnreadable: if it has no footer of ours, or that of another range.
        """
        return self.described(part)[0]

    def described(self, part: Part) -> tuple[PartFooter, pq.FileMetaData]:
        """The same with Parquet's own metadata, whose statistics describe the columns."""
        place = self.store.place(part.key)
        tail = self._tail(part, _TAIL_BYTES)
        size = footer_size(tail, place)
        if size > len(tail):
            tail = self._tail(part, size)
        metadata = decode_metadata(tail, place)
        footer = decode_footer(metadata.metadata, place)
        _check_range(part, footer, place)
        return footer, metadata

    def footers(
        self, parts: Iterable[Part]
    ) -> Iterator[tuple[Part, PartFooter | PartUnreadable | ObjectMissing]]:
        """The footers of `parts`, in their order, read several at a time.

        A part that cannot be read comes with the error instead of a footer, so that an audit sees
        all of them. Failures of the store itself are raised.
        """
        parts = list(parts)
        with ThreadPoolExecutor(self.readers, thread_name_prefix="footers") as pool:
            yield from zip(parts, pool.map(self._footer_or_error, parts), strict=True)

    def newest(self, product: str) -> NewestTrade | None:
        """The newest trade; see `headrace.lake.stats.newest`."""
        return stats.newest(self, product)

    def first_id(self, product: str) -> int | None:
        """The id of the oldest trade stored; see `headrace.lake.stats.first_id`."""
        return stats.first_id(self, product)

    def newest_sources(self, product: str) -> tuple[str, ...]:
        """Who answered for the newest part; see `headrace.lake.stats.newest_sources`."""
        return stats.newest_sources(self, product)

    def proven_first(self, product: str) -> int | None:
        """The product's first trade; see `headrace.lake.stats.proven_first`."""
        return stats.proven_first(self, product)

    def totals(self, product: str, lo: int = 1, hi: int = MAX_ID) -> tuple[int, IntervalSet]:
        """Trades and long holes of a range; see `headrace.lake.stats.totals`."""
        return stats.totals(self, product, lo, hi)

    def stats(self, product: str) -> LakeStats:
        """Coverage, trades and long holes of one moment; see `headrace.lake.stats.lake_stats`."""
        return stats.lake_stats(self, product)

    def merge(self, product: str, pieces: Sequence[Part]) -> PartReceipt:
        """Make one part of touching pieces; see `headrace.lake.upkeep.merge`."""
        return upkeep.merge(self, product, pieces)

    def merge_due(self, product: str) -> list[PartReceipt]:
        """Merge what is due; see `headrace.lake.upkeep.merge_due`."""
        return upkeep.merge_due(self, product)

    def sweep(self, product: str) -> SweepReceipt:
        """Remove what killed runs left; see `headrace.lake.upkeep.sweep`."""
        return upkeep.sweep(self, product)

    def _content(self, part: Part) -> bytes:
        return self.store.get(part.key)

    def _tail(self, part: Part, size_bytes: int) -> bytes:
        return self.store.tail(part.key, size_bytes)

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

    def _footer_or_error(self, part: Part) -> PartFooter | PartUnreadable | ObjectMissing:
        try:
            return self.footer(part)
        except (PartUnreadable, ObjectMissing) as error:
            return error


def _check_range(part: Part, footer: PartFooter, place: str) -> None:
    if (footer.lo, footer.hi) != (part.lo, part.hi):
        raise PartUnreadable(place, f"its footer answers for [{footer.lo}, {footer.hi}]")


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
