"""All checks of one product: names first, then its rows part by part, each with its bound."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from headrace.amounts import counted, duration
from headrace.checks.layers import Layers
from headrace.checks.report import Breach, Check, ProductChecks
from headrace.checks.request import CheckRequest
from headrace.checks.rows import Faults, RowChecks, longest_pause_us
from headrace.coverage import EMPTY, IntervalSet, Range
from headrace.errors import HeadraceError
from headrace.lake import Part, PartFooter, PartListing, RawLake
from headrace.lake.exceptions import FooterTooNew, ObjectMissing, PartUnreadable
from headrace.lake.names import MAX_ID
from headrace.run.report import Status
from headrace.stopping import STOP, StopEvent
from headrace.unified.exceptions import TableDamaged
from headrace.unified.taken_ids import Taken

#: Parts of one product that are read at once; each is a cell of rows in memory.
READERS = 3
#: With fewer trades nothing is known of how often a product trades.
_FEW_TRADES = 20
#: A product's newest trade may be older by this factor than the longest recent pause.
_PATIENCE = 3

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BOUNDS = {
    Check.UNREADABLE: "0 parts",
    Check.DUPLICATE: "0 trades",
    Check.ORDER: "0 trades",
    Check.PRICE: "a number above 0",
    Check.SIZE: "a number above 0",
    Check.UNIFIED: "the trades of the raw layer",
}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a product beside its parts.

    Args:
        noted: ids that its checkpoint says are stored.
        delisted: the exchange lists it no longer, so that no newer trade is to come.
        under_way: whether a run is storing parts of it at this moment.
        layers: the unified table, why it cannot be read, or None if there is none to compare.
        only: the ids whose rows are looked at, beside those of the newest part; None: all.
    """

    noted: IntervalSet = EMPTY
    delisted: bool = False
    under_way: Callable[[], bool] = lambda: False
    layers: Layers | HeadraceError | None = None
    only: IntervalSet | None = None


def checked(
    raw: RawLake,
    product: str,
    request: CheckRequest,
    known: Known,
    *,
    now: datetime,
    stop: StopEvent = STOP,
) -> ProductChecks:
    """Check one product. What fails is said in the result, not raised; nothing is written.

    Args:
        raw: the lake.
        product: canonical id.
        request: the bounds.
        known: what is known beside the parts.
        now: what ages are counted from.
        stop: looked at before each part.
    """
    try:
        return _Checking(raw, product, request, known, now, stop).result()
    except HeadraceError as error:
        return ProductChecks(product, Status.FAILED, error=str(error))


class _Checking:
    """The checks of one product, in one pass over its parts."""

    def __init__(
        self,
        raw: RawLake,
        product: str,
        request: CheckRequest,
        known: Known,
        now: datetime,
        stop: StopEvent,
    ) -> None:
        self._raw = raw
        self._product = product
        self._request = request
        self._known = known
        self._now = now
        self._stop = stop
        self._breaches: list[Breach] = []
        self._notes: list[str] = []
        self._layers = known.layers
        self._taken = known.layers.taken(product) if isinstance(known.layers, Layers) else Taken()
        #: Parts that have changed since the table took them.
        self._changed = 0

    def result(self) -> ProductChecks:
        """Look at everything."""
        listing = self._raw.parts(self._product)
        missing = self._missing(listing.coverage)
        rows = RowChecks(
            now_us=self._now_us,
            max_back_us=self._request.max_back // timedelta(microseconds=1),
            max_jump=self._request.max_jump,
        )
        parts, holes = self._look_at_parts(rows, self._wanted(listing))
        # What was so at first, and still is: others store and merge meanwhile.
        after = self._raw.parts(self._product)
        self._look_at_hidden(rows, {*listing.hidden} & {*after.hidden})
        self._check_missing(missing - after.coverage, stored=bool(after.parts))
        self._check_holes(holes, after.coverage)
        self._check_layers(rows, after.coverage)
        self._breaches += [self._breach_of(check, faults) for check, faults in rows.faults.items()]
        newest = self._newest(rows)
        self._check_age(rows, newest)
        self._breaches.sort(key=lambda breach: list(Check).index(breach.check))
        return ProductChecks(
            self._product,
            Status.PARTIAL if self._breaches else Status.DONE,
            parts=parts,
            rows=rows.rows,
            newest=newest,
            age_s=(self._now - newest).total_seconds() if newest else None,
            breaches=tuple(self._breaches),
            notes=tuple(self._notes),
        )

    def _missing(self, covered: IntervalSet) -> IntervalSet:
        """Ids between the first and the last known that no part answers for.

        What is before the first need not be stored: a lake may begin with any trade.
        """
        known = covered | self._known.noted
        if not known:
            return EMPTY
        return known.gaps(known.ranges[0][0], known.ranges[-1][1]) | (known - covered)

    def _wanted(self, listing: PartListing) -> IntervalSet:
        """The ids whose rows are looked at; those of the newest part with trades always are."""
        if self._known.only is not None:
            newest = IntervalSet.of((self._begin(listing, timedelta(0)), MAX_ID))
            return self._known.only | newest
        begin = 1 if self._request.last is None else self._begin(listing, self._request.last)
        return IntervalSet.of((begin, MAX_ID))

    def _begin(self, listing: PartListing, last: timedelta) -> int:
        """The first id of the parts with trades of this time, and of the newest with trades."""
        since, newest = self._now - last, True
        for part in reversed(listing.parts):
            try:
                footer, metadata = self._raw.described(part)
            except (PartUnreadable, FooterTooNew, ObjectMissing):
                continue
            if footer.rows:
                youngest = metadata.row_group(metadata.num_row_groups - 1).column(1).statistics.max
                if youngest < since:
                    return part.lo if newest else part.hi + 1
                newest = False
        return 1

    def _look_at_parts(self, rows: RowChecks, wanted: IntervalSet) -> tuple[int, IntervalSet]:
        """How many parts hold some ids, and the holes that their footers record."""
        seen: set[Part] = set()
        seen_to = 0
        holes: list[Range] = []
        for lo, hi in wanted:
            for part, found in self._raw.scan_parts(self._product, lo, hi, readers=READERS):
                self._stop.check()
                if max(lo, part.lo) > seen_to + 1:
                    rows.gap()
                first_look = part not in seen
                seen.add(part)
                seen_to = min(part.hi, hi)
                if isinstance(found, HeadraceError):
                    rows.gap()
                    if first_look:
                        text = f"{part.name}: {found.message}"
                        rows.add(Check.UNREADABLE, part.lo, part.hi, 1, [text])
                    continue
                table, footer = found
                try:
                    rows.look(table)
                except (pa.ArrowException, UnicodeDecodeError) as error:
                    # Text that is no UTF-8 shows only when a value is looked at.
                    rows.add(Check.UNREADABLE, part.lo, part.hi, 1, [f"{part.name}: {error}"])
                if first_look:
                    holes += footer.long_holes
                    self._compare(rows, part, footer)
        return len(seen), IntervalSet.from_ranges(holes)

    def _compare(self, rows: RowChecks, part: Part, footer: PartFooter) -> None:
        """Hold the unified table against a part that it has taken."""
        if not isinstance(self._layers, Layers):
            return
        taken = self._taken
        try:
            difference = self._layers.difference(self._product, part, footer, taken.ranges)
        except TableDamaged as error:
            rows.add(Check.UNIFIED, part.lo, part.hi, 1, [str(error)])
            self._layers = None  # once is enough
            return
        if difference and part.changed_us > taken.seen_us:
            self._changed += 1
        elif difference:
            rows.add(Check.UNIFIED, part.lo, part.hi, 1, [difference])

    def _look_at_hidden(self, rows: RowChecks, hidden: Collection[Part]) -> None:
        """Pieces beside the longer part that holds their trades: other readers read both."""
        if not hidden or self._known.under_way():
            return
        for part in sorted(hidden):
            try:
                stored = self._raw.footer(part).rows
            except (PartUnreadable, FooterTooNew, ObjectMissing):
                continue
            if stored:
                text = f"{part.name} lies within a longer part; any run removes it"
                rows.add(Check.DUPLICATE, part.lo, part.hi, stored, [text])

    def _check_missing(self, missing: IntervalSet, *, stored: bool) -> None:
        if missing.count > self._request.max_missing and self._known.under_way():
            ids = counted(missing.count, "id is", "ids are")
            self._notes.append(f"{ids} missing, and a run is at it")
        elif missing.count > self._request.max_missing:
            bound = counted(self._request.max_missing, "id")
            text = f"no part answers for {counted(missing.count, 'id')}: {missing.words()}"
            span = (missing.ranges[0][0], missing.ranges[-1][1])
            self._breach(Check.MISSING, missing.count, bound, text, span)
        elif not stored:
            self._breach(Check.MISSING, 1, "some trades", "nothing of it is stored")

    def _check_holes(self, holes: IntervalSet, covered: IntervalSet) -> None:
        """All but what is before the first trade: a history may begin with any id."""
        most = self._request.max_hole
        begin = covered.ranges[0][0] if covered else 0
        long = [(lo, hi) for lo, hi in holes if lo > begin and most and hi - lo + 1 > most]
        if long:
            lo, hi = max(long, key=lambda each: each[1] - each[0])
            longer = counted(len(long), "hole of the exchange is", "holes of the exchange are")
            text = f"{longer} longer, the longest from {lo} to {hi}"
            self._breach(Check.HOLE, hi - lo + 1, counted(most, "id"), text, (lo, hi))

    def _check_layers(self, rows: RowChecks, covered: IntervalSet) -> None:
        """What can be said of the unified table beside its trades."""
        if isinstance(self._layers, HeadraceError):
            self._breach(Check.UNIFIED, 1, _BOUNDS[Check.UNIFIED], str(self._layers))
            return
        if self._changed:
            changed = counted(self._changed, "part has", "parts have")
            self._notes.append(f"{changed} changed since the last transform")
        if self._layers is None:
            return
        for lo, hi in self._taken.ranges - covered:
            text = f"{lo}-{hi}: the unified table has taken ids that no part answers for"
            rows.add(Check.UNIFIED, lo, hi, 1, [text])
        most = self._request.max_quarantined
        if (aside := self._layers.quarantined(self._product)) > most:
            unfit = counted(aside, "trade does", "trades do")
            text = f"{unfit} not fit the unified table; unified/quarantine says why"
            self._breach(Check.QUARANTINE, aside, counted(most, "trade"), text)

    def _breach_of(self, check: Check, faults: Faults) -> Breach:
        more = faults.count - len(faults.shown)
        text = "; ".join(faults.shown) + (f"; and {more:,} more" if more > 0 else "")
        bound = (
            _BOUNDS.get(check)
            or {
                Check.JUMP: f"factor {self._request.max_jump:g}",
                Check.TIME: f"{duration(self._request.max_back.total_seconds())} back or ahead",
            }[check]
        )
        span = (faults.first_id, faults.last_id)
        return Breach(check, self._product, faults.count, bound, text, span)

    def _newest(self, rows: RowChecks) -> datetime | None:
        if len(rows.recent_us):
            return _EPOCH + timedelta(microseconds=pc.max(rows.recent_us).as_py())
        return None

    def _check_age(self, rows: RowChecks, newest: datetime | None) -> None:
        """The newest trade's age; where no bound names the product, quiet ones have longer."""
        allowed, own = self._request.age_allowed(self._product)
        if newest is None or allowed is None or (age := self._now - newest) <= allowed:
            return
        if self._known.delisted:
            self._notes.append("it is delisted, so that its age is no breach")
            return
        if not own and len(rows.recent_us) < _FEW_TRADES:
            self._notes.append("it has too few trades to know how often it trades")
            return
        pause = timedelta(microseconds=longest_pause_us(rows.recent_us))
        if not own and age <= _PATIENCE * pause:
            return
        allowed = allowed if own else max(allowed, _PATIENCE * pause)
        seconds = age.total_seconds()
        text = f"the newest trade is {duration(seconds)} old: {newest:%Y-%m-%d %H:%M:%S} UTC"
        bound = duration(allowed.total_seconds())
        self._breach(Check.STALE, round(seconds), bound, text)

    def _breach(
        self, check: Check, found: int, bound: str, text: str, span: Range | None = None
    ) -> None:
        self._breaches.append(Breach(check, self._product, found, bound, text, span))

    @property
    def _now_us(self) -> int:
        return (self._now - _EPOCH) // timedelta(microseconds=1)
