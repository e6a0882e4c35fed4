"""Which ids are answered for, which are missing, and which the exchange does not have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.audit.findings import Finding, Kind
from headrace.audit.inspection import Inspection
from headrace.coverage import EMPTY, IntervalSet
from headrace.lake.digest import ContentDigest


@dataclass(frozen=True, slots=True)
class Tally:
    """The ids of one product, added up from names and footers.

    Args:
        answered: ids that a part answers for, by names alone.
        missing: ids up to the newest that none answers for, and that are not pending.
        pending: ids that none answers for, so young that the next ingest is to come for them.
        holes: ids within sound parts that the exchange does not have, a page or more at once.
        unproven: those of them that an older version recorded, without proof.
        rows: trades in sound parts; those of ids that two parts answer for count twice.
        absent_ids: ids answered for without a trade, short holes included.
        watermark: the highest id at or below which nothing is missing or unreadable.
        digest: content digest of all trades, if every part is sound and none overlap.
    """

    answered: IntervalSet = EMPTY
    missing: IntervalSet = EMPTY
    pending: IntervalSet = EMPTY
    holes: IntervalSet = EMPTY
    unproven: IntervalSet = EMPTY
    rows: int = 0
    absent_ids: int = 0
    watermark: int = 0
    digest: str | None = None


def tally(inspection: Inspection, newest: int) -> Tally:
    """Add up what was seen of a product whose newest id is `newest` (0: it has none)."""
    listing = inspection.listing
    footers = [footer for part in listing.parts if (footer := inspection.footer(part))]
    sound = IntervalSet.from_ranges((footer.lo, footer.hi) for footer in footers)
    rows = sum(footer.rows for footer in footers)
    every_row_once = len(footers) == len(listing.parts) and not listing.overlaps
    digest = sum((footer.content for footer in footers), ContentDigest())
    return Tally(
        answered=listing.coverage,
        missing=listing.coverage.gaps(1, newest),
        holes=IntervalSet.from_ranges(hole for footer in footers for hole in footer.long_holes),
        unproven=IntervalSet.from_ranges(
            hole for footer in footers for hole in footer.doubtful_holes
        ),
        rows=rows,
        absent_ids=max(0, sound.count - rows),
        watermark=min(sound.watermark(), newest),
        digest=str(digest) if every_row_once else None,
    )


def gap_findings(product: str, counted: Tally) -> Iterator[Finding]:
    """One finding per gap: first what is ours to fetch, then what the exchange does not have."""
    last = counted.answered.last or 0
    for lo, hi in counted.missing:
        count = hi - lo + 1
        if lo > last:
            message = f"{count:,} ids are newer than anything stored"
        else:
            message = f"no part answers for {count:,} ids"
        yield Finding(
            Kind.MISSING,
            product,
            message,
            f"headrace audit {product} --heal fetches them",
            (lo, hi),
        )
    for lo, hi in counted.pending:
        message = f"{hi - lo + 1:,} ids were traded within the lag allowed; the next ingest's"
        yield Finding(Kind.PENDING, product, message, range=(lo, hi))
    for lo, hi in counted.unproven:
        message = f"an older version took these {hi - lo + 1:,} ids for a hole, without proof"
        repair = f"headrace audit {product} --heal asks for them again"
        yield Finding(Kind.UNPROVEN, product, message, repair, (lo, hi))
    for lo, hi in counted.holes - counted.unproven:
        message = f"the exchange was asked for these {hi - lo + 1:,} ids and has none of them"
        yield Finding(Kind.HOLE, product, message, range=(lo, hi))
