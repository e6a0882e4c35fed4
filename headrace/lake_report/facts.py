"""What a lake's page says of each product: from one listing, the footers, and the unified table."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

import pyarrow.parquet as pq

from headrace.checks.checker import Known, checked
from headrace.checks.report import ProductChecks
from headrace.checks.request import CheckRequest
from headrace.coverage import EMPTY, IntervalSet, Range
from headrace.lake import Lake, Part, PartFooter, RawLake
from headrace.lake.exceptions import FooterTooNew, ObjectMissing, PartUnreadable
from headrace.unified.exceptions import TableDamaged, TableTooNew, TableUnreachable
from headrace.unified.table import unified_table

_READERS: Final = 16
_DAY: Final = timedelta(days=1)
#: What a unified table raises that a page can say and go on without.
UNREADABLE: Final = (TableDamaged, TableTooNew, TableUnreachable)

#: Trades by (exchange, product) and day.
DailyTrades = Mapping[tuple[str, str], Mapping[date, int]]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Trades of one part: ids and times between which they are, inclusive, and how many."""

    lo: int
    hi: int
    since: datetime
    until: datetime
    rows: int


@dataclass(frozen=True, slots=True)
class ProductFacts:
    """One product of a lake.

    Args:
        exchange: whose product it is.
        product: its id.
        parts: how many parts count.
        size_bytes: of their files.
        rows: trades in them.
        covered: ids that are answered for.
        holes: those proven absent, a page or more at once.
        failed: ids that the last run tried and did not get, where a checkpoint says so.
        noted: the newest id that a run has seen, where a checkpoint says so; 0 if not.
        fetched_at: when the youngest part was fetched.
        stretches: where trades are, by rising id.
        days: trades per day; estimated from the stretches where the unified table does not say it.
        unreadable: parts that cannot be read, with the reason.
        unified_rows: trades in the unified table; None without one.
        checks: what the checks found, if they were made.
    """

    exchange: str
    product: str
    parts: int = 0
    size_bytes: int = 0
    rows: int = 0
    covered: IntervalSet = EMPTY
    holes: IntervalSet = EMPTY
    failed: IntervalSet = EMPTY
    noted: int = 0
    fetched_at: datetime | None = None
    stretches: tuple[Stretch, ...] = ()
    days: Mapping[date, int] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    unified_rows: int | None = None
    checks: ProductChecks | None = None

    @property
    def ids(self) -> Range | None:
        """The first id answered for, and the last one known of."""
        if not self.covered:
            return None
        return self.covered.ranges[0][0], max(self.covered.ranges[-1][1], self.noted)

    @property
    def missing(self) -> IntervalSet:
        """Ids between those that nothing answers for. A lake may begin with any trade."""
        return self.covered.gaps(*self.ids) if self.ids else EMPTY

    @property
    def watermark(self) -> int:
        """The highest id below which, from the first one on, nothing is missing."""
        return self.covered.ranges[0][1] if self.covered else 0

    @property
    def oldest(self) -> datetime | None:
        """Time of the oldest trade."""
        return min((each.since for each in self.stretches), default=None)

    @property
    def newest(self) -> datetime | None:
        """Time of the newest trade."""
        return max((each.until for each in self.stretches), default=None)

    @property
    def problems(self) -> int:
        """How many things of it need a look: ranges that are missing, parts, breaches."""
        breaches = len(self.checks.breaches) if self.checks else 0
        return len(self.missing.ranges) + len(self.unreadable) + breaches

    def times_of(self, ids: Range) -> tuple[datetime, datetime] | None:
        """About when trades with these ids were made, by the stretches around and in them.

        None without any trade.
        """
        if not self.stretches:
            return None
        lo, hi = ids
        since, until = self._moment(lo - 1), self._moment(hi + 1)
        return min(since, until), until

    def _moment(self, trade_id: int) -> datetime:
        """About when the trade with this id was made."""
        after = bisect_right(self.stretches, trade_id, key=lambda each: each.lo)
        if not after:
            return self.stretches[0].since
        before = self.stretches[after - 1]
        if trade_id <= before.hi or after == len(self.stretches):
            return _at(before, trade_id)
        # As if the trades of the gap had come evenly.
        end = self.stretches[after]
        gap = Stretch(before.hi, end.lo, before.until, end.since, 0)
        return _at(gap, trade_id)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run, as the Prefect API has it."""

    name: str
    flow: str
    state: str
    began: datetime | None
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class LakeFacts:
    """A whole lake at one moment.

    Args:
        location: of the lake.
        made_at: the moment.
        products: by exchange and id.
        exact_days: whether trades per day are those of the unified table.
        unified: version, files and bytes of the unified table; None without one.
        unified_problem: why it cannot be read, with the way out; empty if it can.
        runs: the last ones; None where no Prefect API was asked.
    """

    location: str
    made_at: datetime
    products: tuple[ProductFacts, ...]
    exact_days: bool = False
    unified: tuple[int, int, int] | None = None
    unified_problem: str = ""
    runs: tuple[RunFacts, ...] | None = None


@dataclass(frozen=True, slots=True)
class Noted:
    """What a checkpoint says that no part does: what failed, and the newest id seen."""

    failed: IntervalSet = EMPTY
    newest: int = 0


def collect(
    lake: Lake,
    *,
    now: datetime,
    daily: DailyTrades | None = None,
    noted: Mapping[tuple[str, str], Noted] | None = None,
    runs: Sequence[RunFacts] | None = None,
    checks: CheckRequest | None = None,
) -> LakeFacts:
    """Look at a lake.

    Args:
        lake: is only read.
        now: what ages are counted from.
        daily: trades per day, exact, where they were counted.
        noted: what checkpoints say, by (exchange, product).
        runs: the last runs, if they were asked for.
        checks: bounds of the checks to be made; None: none are.

    Raises:
        GridDamaged, StoreError: the lake cannot be read. (Of a unified table the page says it.)
    """
    table = unified_table(lake)
    unified_rows: Counter[tuple[str, str]] = Counter()
    unified, problem = None, ""
    try:
        if table.exists():
            snapshot = table.snapshot()
            files = snapshot.files()
            for file in files:
                unified_rows[file.exchange, file.symbol] += file.rows
            unified = (snapshot.version, len(files), sum(file.size_bytes for file in files))
    except UNREADABLE as error:
        problem = str(error)
    products = []
    with ThreadPoolExecutor(_READERS, thread_name_prefix="footers") as pool:
        for exchange in lake.exchanges():
            raw = lake.raw_for_reading(exchange)
            for product in raw.products():
                key = exchange, product
                facts = _product_facts(raw, product, pool)
                note = (noted or {}).get(key, Noted())
                products.append(
                    replace(
                        facts,
                        failed=note.failed - facts.covered,
                        noted=note.newest,
                        days=_estimated(facts.stretches) if daily is None else daily.get(key, {}),
                        unified_rows=None if unified is None else unified_rows[key],
                        checks=checked(raw, product, checks, Known(), now=now) if checks else None,
                    )
                )
    return LakeFacts(
        lake.location,
        now,
        tuple(products),
        exact_days=daily is not None,
        unified=unified,
        unified_problem=problem,
        runs=None if runs is None else tuple(runs),
    )


def _product_facts(raw: RawLake, product: str, pool: ThreadPoolExecutor) -> ProductFacts:
    listing = raw.parts(product)
    rows = 0
    stretches: list[Stretch] = []
    holes: list[Range] = []
    unreadable: list[str] = []
    fetched_at: datetime | None = None
    read = pool.map(lambda part: _described(raw, part), listing.parts)
    for found in read:
        if isinstance(found, str):
            unreadable.append(found)
            continue
        footer, metadata = found
        rows += footer.rows
        holes += footer.long_holes
        fetched_at = max(fetched_at or footer.fetched_at, footer.fetched_at)
        if footer.rows:
            stretches.append(_stretch(metadata))
    return ProductFacts(
        raw.exchange,
        product,
        parts=len(listing.parts),
        size_bytes=sum(part.size_bytes for part in listing.parts),
        rows=rows,
        covered=listing.coverage,
        holes=IntervalSet.from_ranges(holes),
        fetched_at=fetched_at,
        stretches=tuple(stretches),
        unreadable=tuple(unreadable),
    )


def _described(raw: RawLake, part: Part) -> tuple[PartFooter, pq.FileMetaData] | str:
    try:
        return raw.described(part)
    except (PartUnreadable, FooterTooNew, ObjectMissing) as error:
        return str(error)


def _stretch(metadata: pq.FileMetaData) -> Stretch:
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    ids = [group.column(0).statistics for group in groups]
    times = [group.column(1).statistics for group in groups]
    return Stretch(
        min(each.min for each in ids),
        max(each.max for each in ids),
        min(each.min for each in times).astimezone(UTC),
        max(each.max for each in times).astimezone(UTC),
        metadata.num_rows,
    )


def _estimated(stretches: Iterable[Stretch]) -> dict[date, int]:
    """Trades per day, as if they were spread evenly over the time of their part."""
    days: Counter[date] = Counter()
    for each in stretches:
        for day, share in _shares(each.since, each.until):
            days[day] += round(each.rows * share)
    return dict(days)


def _shares(since: datetime, until: datetime) -> Iterator[tuple[date, float]]:
    """The days of a time, and which share of it lies in each."""
    whole = (until - since) / _DAY
    start = since
    while start.date() < until.date():
        midnight = datetime.combine(start.date() + _DAY, datetime.min.time(), UTC)
        yield start.date(), (midnight - start) / _DAY / whole
        start = midnight
    yield start.date(), (until - start) / _DAY / whole if whole else 1.0


def _at(stretch: Stretch, trade_id: int) -> datetime:
    """About when the trade with this id was made, by the stretch that it is in or beside."""
    length = stretch.hi - stretch.lo
    share = (trade_id - stretch.lo) / length if length else 1.0
    return stretch.since + (stretch.until - stretch.since) * min(1.0, max(0.0, share))
