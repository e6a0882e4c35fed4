"""Holes that older versions recorded, asked for again.

They took an empty or a short page for the end of history, and a page that was cut at the front for
a hole (docs/adr/0012). What is answered now goes into the part, whose footer says then that its
holes are proven. The empty part below the first trade holds no rows in any case: where the
exchange has trades in it, it is set aside, and a backfill fetches its range.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from headrace.amounts import counted
from headrace.audit.parts import set_aside
from headrace.audit.report import Action, Repair
from headrace.coverage import Range
from headrace.exchange.proof import Known
from headrace.exchange.source import Source
from headrace.exchange.walk import walk
from headrace.lake import PartFooter, RawLake
from headrace.pull.history_ends import refresh_ends
from headrace.pull.ledger import source_host
from headrace.pull.product_leases import HeldLease
from headrace.stopping import StopEvent


def recheck_holes(
    raw: RawLake, product: str, client: Source, lease: HeldLease, *, now: datetime, stop: StopEvent
) -> Iterator[Repair]:
    """Ask for every unproven hole, part by part; a repair is yielded once it is durable.

    Raises:
        AnotherHistory, LakeAhead, RequestError: a hole could not be asked for.
        PartUnreadable, StoreError: the lake failed.
        LeaseLost: another process has taken over.
        Stopped: the stop event was set.
    """
    footers = raw.footers(raw.parts(product).parts)
    unproven = [
        (part, footer)
        for part, footer in footers
        if isinstance(footer, PartFooter) and footer.unproven_holes
    ]
    if not unproven:
        return
    history, seen = refresh_ends(client, raw, product)
    known = Known(history.first, history.newest, seen, history.begins)
    for part, footer in unproven:
        stop.check()
        rows, _ = raw.read_part(part)
        before = rows.num_rows
        answers = list(footer.answers)
        for lo, hi in _to_ask(footer, client.page_limit):
            # The trade above a hole is shown again: then one answer shows both of its ends.
            hi = min(hi + 1, part.hi)
            walked = walk(client, product, (lo, hi), known, stop=stop)
            if walked.error is not None:
                raise walked.error
            rows = _joined(rows, walked.trades)
            answers += walked.answers
        found = rows.num_rows - before
        lease.check()
        if found and not part.rows_may_be:
            key = set_aside(raw, product, part, lease)
            message = f"trades are there; set aside as {key}"
            yield Repair(Action.SET_ASIDE, product, message, (part.lo, part.hi), part.key)
            continue
        raw.write(
            product,
            part.lo,
            part.hi,
            rows,
            source={*footer.sources, source_host(client.source)},
            fetched_at=now,
            replace=True,
            answers=answers,
        )
        message = (
            f"{part.name}: holes were asked for again, "
            f"{counted(found, 'trade was', 'trades were')} there"
        )
        yield Repair(Action.ASKED_AGAIN, product, message, (part.lo, part.hi), part.key)


def _joined(stored: pa.Table, answered: pa.Table) -> pa.Table:
    """What is stored, and what of the answer is not."""
    new = answered.filter(
        pc.invert(pc.is_in(answered["trade_id"], value_set=stored["trade_id"].combine_chunks()))
    )
    return pa.concat_tables([stored, new]).sort_by("trade_id") if new.num_rows else stored


def _to_ask(footer: PartFooter, page_limit: int) -> tuple[Range, ...]:
    """The ranges to ask for: each hole, or all at once where that takes fewer requests."""
    holes = footer.unproven_holes
    if 2 * len(holes) > footer.rows // page_limit + 2:
        return ((holes[0][0], holes[-1][1]),)
    return holes
