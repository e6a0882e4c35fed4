"""Which ids are answered for, missing, pending or absent; and what the checkpoint claims.

Pending are ids so young that the next ingest is still to come for them: a product that trades all
the time is always ahead of its last ingest. That is no gap, as long as it is ahead by no more than
the lag that the audit allows. Where the checkpoint and the lake disagree, the lake wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from headrace.amounts import counted
from headrace.audit.findings import Finding, Kind
from headrace.audit.inspection import Inspection
from headrace.coverage import EMPTY, IntervalSet
from headrace.exchange.history import History, first_id_since
from headrace.exchange.source import Source
from headrace.lake.digest import ContentDigest
from headrace.pull.checkpoints import Checkpoint, CheckpointStore
from headrace.pull.exceptions import CheckpointTooNew, CheckpointUnreadable


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
            hole for footer in footers for hole in footer.unproven_holes
        ),
        rows=rows,
        absent_ids=max(0, sound.count - rows),
        watermark=min(sound.watermark(), newest),
        digest=str(digest) if every_row_once else None,
    )


def gap_findings(product: str, tally: Tally) -> Iterator[Finding]:
    """One finding per gap: first what is ours to fetch, then what the exchange does not have."""
    last = tally.answered.last or 0
    for lo, hi in tally.missing:
        count = hi - lo + 1
        if lo > last:
            message = f"{counted(count, 'id is', 'ids are')} newer than anything stored"
        else:
            message = f"no part answers for {counted(count, 'id')}"
        yield Finding(
            Kind.MISSING,
            product,
            message,
            f"headrace audit {product} --heal fetches them",
            (lo, hi),
        )
    for lo, hi in tally.pending:
        ids = counted(hi - lo + 1, "id was", "ids were")
        message = f"{ids} traded within the lag allowed; the next ingest's"
        yield Finding(Kind.PENDING, product, message, range=(lo, hi))
    for lo, hi in tally.unproven:
        ids = counted(hi - lo + 1, "id")
        message = f"an older version took {ids} for a hole, without proof"
        repair = f"headrace audit {product} --heal asks for them again"
        yield Finding(Kind.UNPROVEN, product, message, repair, (lo, hi))
    for lo, hi in tally.holes - tally.unproven:
        ids = counted(hi - lo + 1, "id")
        message = f"the exchange was asked for {ids} here and has none"
        yield Finding(Kind.HOLE, product, message, range=(lo, hi))


def find_pending(
    client: Source, product: str, missing: IntervalSet, since: datetime
) -> IntervalSet:
    """The ids of `missing` that were traded at or after `since`.

    Ids rise with time, so it is one moment in the history that is looked for, from the newest gap
    downwards: one request where less than a page is missing, some more where the last ingest was
    long ago.

    Raises:
        RequestError: as the client's.
    """
    if missing.last is None:
        return EMPTY
    youngest = missing.last + 1
    for lo, hi in reversed(missing.ranges):
        youngest = first_id_since(client, product, since, History(lo, hi))
        if youngest > lo:
            break
    return missing & IntervalSet.of((min(youngest, missing.last + 1), missing.last + 1))


def load(
    checkpoints: CheckpointStore, source: str, product: str
) -> Checkpoint | CheckpointUnreadable | None:
    """The checkpoint, why it cannot be used, or None if there is none.

    Raises:
        CheckpointNotSaved: the store of checkpoints does not answer.
    """
    try:
        return checkpoints.load(source, product)
    except CheckpointUnreadable as error:
        return error


def checkpoint_findings(
    product: str, found: Checkpoint | CheckpointUnreadable | None, tally: Tally
) -> Iterator[Finding]:
    """Where the checkpoint and the lake disagree.

    `found` must have been loaded before the lake was listed: a run that commits in between then
    makes the checkpoint look behind, which is harmless, and never ahead.
    """
    rebuild = f"headrace checkpoint rebuild {product}, or headrace audit {product} --heal"
    if isinstance(found, CheckpointUnreadable):
        repair = "upgrade headrace" if isinstance(found, CheckpointTooNew) else rebuild
        yield Finding(Kind.CHECKPOINT_UNREADABLE, product, found.message, repair)
    elif found is None:
        if tally.answered:
            message = "there is no checkpoint; the next run makes one from the lake"
            yield Finding(Kind.CHECKPOINT_ABSENT, product, message)
    else:
        yield from _differences(product, found, tally, rebuild)


def _differences(product: str, found: Checkpoint, tally: Tally, rebuild: str) -> Iterator[Finding]:
    ahead = found.coverage - tally.answered
    for lo, hi in ahead:
        message = f"the checkpoint claims {counted(hi - lo + 1, 'id')} that no part answers for"
        yield Finding(Kind.CHECKPOINT_AHEAD, product, message, rebuild, (lo, hi))
    reached = tally.answered.watermark()
    if found.watermark > reached and not ahead:
        message = f"the checkpoint's watermark is {found.watermark}, the lake reaches {reached}"
        yield Finding(Kind.CHECKPOINT_AHEAD, product, message, rebuild)
    for lo, hi in tally.answered - found.coverage:
        message = f"the checkpoint does not know {counted(hi - lo + 1, 'stored id')}"
        yield Finding(
            Kind.CHECKPOINT_BEHIND, product, f"{message}; the next run catches up", range=(lo, hi)
        )
    same_ids = found.coverage == tally.answered
    if same_ids and tally.digest is not None and found.rows not in (0, tally.rows):
        message = f"the checkpoint counts {counted(found.rows, 'trade')}, the lake {tally.rows:,}"
        yield Finding(Kind.CHECKPOINT_AHEAD, product, message, rebuild)
