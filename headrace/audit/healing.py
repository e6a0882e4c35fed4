"""Repairing a product's parts and its checkpoint, so that a backfill can fetch what is missing.

Five steps, each of which may be killed anywhere and done again. The caller holds all leases of the
product (`ProductLeases.acquire_all`), and they are checked before anything is removed. No step
deletes a trade that is not proven to be stored elsewhere: a file that may be wrong is set aside,
and its range becomes missing.

1. What is no sound part is set aside.
2. Parts that lie within a longer one are swept; where the two differ, both are set aside.
3. Of two parts that overlap, the later one is written again without what the earlier one holds,
   beginning with a page; where they differ, both are set aside.
4. Holes of a page or more that an older version recorded are asked for again; see
   `headrace.audit.recheck`.
5. The checkpoint is rebuilt from the lake, if it disagrees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from headrace.audit.coverage import checkpoint_findings, load, tally
from headrace.audit.findings import Kind
from headrace.audit.inspection import inspect
from headrace.audit.parts import compare_overlap, set_aside
from headrace.audit.recheck import recheck_holes
from headrace.audit.report import Action, Repair
from headrace.errors import PlaceError, StateError
from headrace.exchange.source import Source
from headrace.kill_points import kill_point
from headrace.lake import Overlap, Part, RawLake
from headrace.lake.grid import PAGE_IDS
from headrace.pull.checkpoints import Checkpoint, CheckpointStore
from headrace.pull.exceptions import CheckpointTooNew, NothingToRebuild
from headrace.pull.product_leases import HeldLease
from headrace.pull.rebuild import from_lake
from headrace.stopping import STOP, StopEvent
from headrace.trades import rows_between


class HealingRefused(PlaceError, StateError):
    """A product whose parts this version must not touch; nothing was."""

    said = "{where} was not healed: {reason}"


@dataclass(frozen=True, slots=True)
class Healer:
    """Heals products of one lake.

    Args:
        raw: the lake.
        checkpoints: where the checkpoints of that lake are.
        run_id: recorded in a checkpoint that is rebuilt.
        client: asked for unproven holes; None leaves them as they are.
        deep: look at rows, too; else at names and footers.
        stop: looked at before each part.
    """

    raw: RawLake
    checkpoints: CheckpointStore
    run_id: str
    client: Source | None = None
    deep: bool = False
    stop: StopEvent = STOP

    def heal(self, product: str, lease: HeldLease, *, now: datetime) -> Iterator[Repair]:
        """Do the five steps; every repair is yielded once it is durable.

        Raises:
            HealingRefused, CheckpointTooNew: a newer version has worked here; nothing was touched.
            LeaseLost: another run has taken over; what was done until then is safe.
            RequestError: an unproven hole could not be asked for; what was done is safe.
            StoreError, CheckpointNotSaved: the lake, or the store of checkpoints, failed.
            Stopped: the stop event was set.
        """
        found = load(self.checkpoints, self.raw.exchange, product)
        if isinstance(found, CheckpointTooNew):
            raise found
        guarded = replace(self, raw=self.raw.under(lease.check_time))
        yield from guarded._set_aside_unsound(product, lease)
        yield from guarded._sweep(product, lease)
        yield from guarded._part_overlaps(product, lease)
        if self.client is not None:
            yield from recheck_holes(
                guarded.raw, product, self.client, lease, now=now, stop=self.stop
            )
        yield from guarded._rebuild_checkpoint(product, lease, now)

    def _set_aside_unsound(self, product: str, lease: HeldLease) -> Iterator[Repair]:
        unsound = inspect(self.raw, product, deep=self.deep, stop=self.stop).unsound()
        for _, why in unsound:
            if why.kind is Kind.NEWER:
                raise HealingRefused(product, why.reason, hint="Upgrade headrace")
        for part, why in unsound:
            yield self._set_aside(product, part, lease, why.reason)

    def _sweep(self, product: str, lease: HeldLease) -> Iterator[Repair]:
        lease.check()
        swept = self.raw.sweep(product)
        for piece in swept.pieces:
            message = "a longer part holds its trades"
            yield Repair(Action.SWEPT, product, message, (piece.lo, piece.hi), piece.key)
        for name in swept.leftovers:
            yield Repair(Action.SWEPT, product, "left by a killed writer", key=name)
        for piece, reason in swept.kept:
            for part in self.raw.parts(product).between(piece.lo, piece.hi):
                if part != piece and part.lo <= piece.lo and piece.hi <= part.hi:
                    yield self._set_aside(product, part, lease, f"{piece.name} differs from it")
            yield self._set_aside(product, piece, lease, reason)

    def _part_overlaps(self, product: str, lease: HeldLease) -> Iterator[Repair]:
        # From the right, so that the earlier part of a pair is still as it was listed, and of the
        # later one it is known what it has become.
        aside: set[Part] = set()
        become: dict[Part, Part] = {}
        for listed in reversed(self.raw.parts(product).overlaps):
            self.stop.check()
            if listed.right in aside:
                continue
            overlap = Overlap(listed.left, become.get(listed.right, listed.right))
            if compare_overlap(self.raw, overlap).same:
                become[listed.left] = self._lengthened(product, overlap)
                yield self._shorten(product, Overlap(become[listed.left], overlap.right), lease)
                if become[listed.left] != listed.left:
                    lease.check()
                    self.raw.store.delete(listed.left.key)
                continue
            for part in (overlap.left, overlap.right):
                aside.add(part)
                reason = f"its trades differ from those of {_other(overlap, part).name}"
                yield self._set_aside(product, part, lease, reason)

    def _lengthened(self, product: str, overlap: Overlap) -> Part:
        """The earlier part up to the end of its last page, if the later one goes on beyond.

        What is cut off then begins with a page: a part that begins within one would lie half over
        the page as a run fetches it.
        """
        left, right = overlap.left, overlap.right
        end = -(-left.hi // PAGE_IDS) * PAGE_IDS
        if end == left.hi or end >= right.hi or not self.raw.grid.same_cell(left.lo, end):
            return left
        (rows, footer), (more, other) = (self.raw.read_part(part) for part in (left, right))
        return self.raw.write(
            product,
            left.lo,
            end,
            pa.concat_tables([rows, rows_between(more, left.hi + 1, end)]),
            source={*footer.sources, *other.sources},
            fetched_at=max(footer.fetched_at, other.fetched_at),
            holes_proven=footer.holes_proven and other.holes_proven,
            answers=(*footer.answers, *other.answers),
        ).part

    def _shorten(self, product: str, overlap: Overlap, lease: HeldLease) -> Repair:
        """Write the later part's own ids under their own name, then remove the part."""
        left, right = overlap.left, overlap.right
        table, footer = self.raw.read_part(right)
        lo = left.hi + 1
        self.raw.write(
            product,
            lo,
            right.hi,
            rows_between(table, lo, right.hi),
            source=footer.sources,
            fetched_at=footer.fetched_at,
            holes_proven=footer.holes_proven,
            answers=footer.answers,
        )
        kill_point("after-shortening")
        lease.check()
        self.raw.store.delete(right.key)
        message = f"{right.name} now begins at {lo}, after {left.name}, which holds the same trades"
        return Repair(Action.SHORTENED, product, message, overlap.shared, right.key)

    def _rebuild_checkpoint(
        self, product: str, lease: HeldLease, now: datetime
    ) -> Iterator[Repair]:
        found = load(self.checkpoints, self.raw.exchange, product)
        inspection = inspect(self.raw, product, stop=self.stop)
        counted = tally(inspection, inspection.listing.coverage.last or 0)
        differences = list(checkpoint_findings(product, found, counted))
        if not differences:
            return
        try:
            rebuilt = from_lake(
                self.raw,
                product,
                name=self.checkpoints.lake,
                token=lease.token,
                run_id=self.run_id,
                now=now,
            )
        except NothingToRebuild:
            # Nothing is left to make one from; the fetch that follows begins at the beginning.
            return
        if isinstance(found, Checkpoint):
            rebuilt = _keeping_what_names_lack(rebuilt, found)
        kill_point("before-checkpoint")
        lease.check()
        self.checkpoints.save(rebuilt)
        kill_point("after-checkpoint")
        yield Repair(Action.CHECKPOINT_REBUILT, product, differences[0].message)

    def _set_aside(self, product: str, part: Part, lease: HeldLease, reason: str) -> Repair:
        key = set_aside(self.raw, product, part, lease)
        message = f"{reason}; set aside as {key}"
        return Repair(Action.SET_ASIDE, product, message, (part.lo, part.hi), part.key)


def _other(overlap: Overlap, part: Part) -> Part:
    return overlap.right if part == overlap.left else overlap.left


def _keeping_what_names_lack(rebuilt: Checkpoint, before: Checkpoint) -> Checkpoint:
    """The newest id that the exchange has shown, what failed, and where ingests begin."""
    return rebuilt.model_copy(
        update={
            "newest": max(rebuilt.newest, before.newest),
            "failed": before.failed,
            "ingest_from": before.ingest_from,
        }
    )
