"""One product of one run: plan it, walk its chunks, keep what they bring, commit.

The order of a commit is fixed: the chunk's part is durable in the lake, then the lease is asked
whether it is still ours, then the checkpoint is saved. Killed anywhere in between, the next run
finds the part by its name and goes on from there.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from headrace.coverage import EMPTY, IntervalSet
from headrace.errors import HeadraceError
from headrace.exchange.exceptions import UnknownProduct
from headrace.exchange.planning import (
    Chunk,
    Sizing,
    plan_chunks,
    plan_pages,
)
from headrace.exchange.proof import Known
from headrace.exchange.source import Source
from headrace.faults import kill_point
from headrace.lake import RawLake
from headrace.lake.exceptions import ObjectMissing, StoreError
from headrace.lake.listed import FRESH_S, ListedLake, Listings
from headrace.lake.names import MAX_ID
from headrace.lake.upkeep import merge_plan
from headrace.leases import LeaseStore
from headrace.pull.checkpoints import Checkpoint, CheckpointStore
from headrace.pull.exceptions import CheckpointNotSaved, TokenBehind
from headrace.pull.fetching import Fetching
from headrace.pull.ledger import (
    Ledger,
    Listener,
    check_source,
    load_known,
    open_ledger,
    source_host,
)
from headrace.pull.memory import PAGE_BYTES, MemoryBudget, page_bytes
from headrace.pull.planner import Survey, refresh_chunks, survey
from headrace.pull.product_leases import HeldLease, ProductLeases
from headrace.pull.report import ChunkReceipt, PartEnd, PlanReceipt, ProductReceipt
from headrace.pull.request import PullRequest
from headrace.pull.upkeep import Upkeep
from headrace.quota import Lane, OutageError, QuotaUnavailable
from headrace.run.progress import RunProgress
from headrace.run.report import Status
from headrace.stopping import StopEvent, Stopped
from headrace.wire.exceptions import RefusedThroughout, RequestError

log = logging.getLogger(__name__)

COMMIT_INTERVAL_S = 10.0
#: Each commit lists the product's parts, twice. Where that takes long (100,000 parts in a bucket),
#: the next one comes so many times later, which keeps listing at a tenth; but this late at most.
_LISTING_TIMES, _LONGEST_INTERVAL_S = 20.0, 300.0

#: Pages of a product that fail one after the other, with none answered in between, until no other
#: is asked for. Each that was refused cost one request, each that failed the attempts of a page.
BAD_PAGES_IN_A_ROW = 20


def pull_progress(places: int = 1, clock: Callable[[], float] = time.monotonic) -> RunProgress:
    """Counters of a pull: pages of products, each a request."""
    return RunProgress("pages", "trades", paced=True, places=places, clock=clock)


class ProductJob:
    """The pull of one product. `fetch` may be called from many threads, the rest from one.

    Args:
        product: canonical product id.
        request: what the run was asked to do.
        run_id: recorded in the checkpoint.
        client, lake, checkpoints: where from, where to, where it is noted.
        leases: who may do what; see `headrace.pull.product_leases`.
        progress: raised as pages arrive.
        stop: the run's stop event; the job has a child of it, so that it can stop alone.
        listings: of all products of the run, read together; None for a run of this one.
        listener: called with commits, gaps and disagreements.
        memory: shared by the products of a run; each has its own unless given.
        clock: seconds that only rise.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        product: str,
        request: PullRequest,
        *,
        run_id: str,
        client: Source,
        lake: RawLake,
        checkpoints: CheckpointStore,
        leases: LeaseStore,
        progress: RunProgress,
        stop: StopEvent,
        listings: Listings | None = None,
        listener: Listener = lambda _name, _facts: None,
        memory: MemoryBudget | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.product = product
        self.stop = stop.child()
        self._request = request
        self._run_id = run_id
        self._client = client
        self._lake = self._unguarded = lake
        self._listings = listings or Listings(lake, [product], clock=clock)
        self._checkpoints = checkpoints
        self.product_leases = ProductLeases(leases, lake.exchange, product, checkpoints.lake)
        self._progress = progress
        self._emit = listener
        self._memory = memory or MemoryBudget()
        self._upkeep = Upkeep(
            product, self.product_leases, run_id, request.full_refresh, self._memory, sleep
        )
        self._clock = clock
        self._lane = Lane.INGEST if request.planner == "ingest" else Lane.BACKFILL
        self._host = source_host(client.source)
        self._lease: HeldLease | None = None
        self._before: Checkpoint | None = None
        self._saved: Checkpoint | None = None
        self._survey = Survey()
        self._surveyed: tuple[float, IntervalSet] | None = None
        self._page_bytes = PAGE_BYTES
        self._ledger = Ledger()
        self._listing_s = 0.0
        self._fetching: Fetching | None = None
        self._committed_at = -math.inf
        self._stale = ""
        self._broken = ""
        self._counting = threading.Lock()
        self._bad_pages = 0
        self._rows_before = 0
        self._requests_of_parts = 0
        self._is_count_of_parts_short = False

    @property
    def new_rows(self) -> int:
        """Trades that this run has added so far."""
        if self._is_count_of_parts_short:
            return self._ledger.rows - self._rows_before
        return self._ledger.new_rows

    @property
    def stored(self) -> IntervalSet:
        """Ids that this run has stored parts for so far."""
        return self._ledger.stored

    @property
    def noted_token(self) -> int:
        """The fencing token in the checkpoint, once it is read; that of the lease exceeds it."""
        return self._before.fencing_token if self._before else 0

    def has_work(self) -> bool:
        """Whether a run would change anything of the product, in the lake or in its checkpoint.

        Most products of a frequent ingest have nothing new. That is found out without a lease,
        since nothing is written: from the checkpoint and the listing, which are read for many
        products at once, and one page of the exchange. Where there is work, `prepare` goes on with
        what the exchange has answered, and sees under the lease whether the lake is still the same.

        Raises:
            LeaseHeld: another run is at the product.
            Stopped: the stop was set.
            As `prepare`.
        """
        self.stop.check()
        is_backfill_running = self.product_leases.check_free(self._request.work)
        if self._request.full_refresh:
            return True
        self._progress.begin(self.product, "planning")
        lake = self._listings.listed(self.product)
        check_source(lake, self.product, self._host)
        before = self._checkpoints.load(self._lake.exchange, self.product)
        covered = lake.coverage(self.product)
        if before is None or not before.rows or before.coverage != covered:
            return True
        self._before = self._saved = before
        self._ledger = open_ledger(lake, self.product, before, self._emit)
        self._survey = self._survey_of(lake, is_backfill_running)
        self._surveyed = self._clock(), covered
        if self._would_change(lake, before):
            return True
        self.product_leases.give_back_claim(self._request.work)
        newest = lake.newest(self.product)
        facts = {"product": self.product, "newest_at": newest and newest.time}
        self._emit("unchanged", facts)
        return False

    def prepare(self, lease: HeldLease | None) -> None:
        """Find out what is there and what is missing. Without a lease nothing is written.

        Raises:
            CheckpointUnreadable: there is a checkpoint that cannot be used.
            TokenBehind: the lease has to be taken again, above the checkpoint's token.
            ForeignSource: the lake holds trades of the product from another host.
            AnotherHistory: the exchange shows others under the ids of those that are stored.
            RequestError, StoreError: as the client and the lake.
        """
        self._lease = lease
        if lease is not None:
            # All that this job stores, replaces or removes from here on, it does under its lease.
            self._lake = self._unguarded.under(lease.check_time)
        self._progress.begin(self.product, "planning")
        lake = self._listed_now()
        check_source(lake, self.product, self._host)
        surveyed = self._surveyed_with(lake.coverage(self.product))
        if not surveyed:
            self._before = self._checkpoints.load(self._lake.exchange, self.product)
            self._saved = self._before
        if lease is not None and self._before and self.noted_token >= lease.token:
            raise TokenBehind(self.product, token=lease.token, noted=self.noted_token)
        if lease is not None and self._request.full_refresh:
            # A piece beside a part that is replaced would not be known as one of it any more.
            self._lake.sweep(self.product)
            lake = self._listed_now()
        self._ledger = open_ledger(lake, self.product, self._before, self._emit)
        self._rows_before = self._ledger.rows
        if not surveyed:
            self._survey = self._survey_of(lake, self.product_leases.is_backfill_running())
        self._page_bytes = max([PAGE_BYTES, *map(page_bytes, self._survey.seen)])
        self._fetching = self._fetching_of(self._ledger.covered)
        if lease is not None:
            self._keep_proven_empty()
        self._progress.begin(self.product, "fetching", plan_pages(self._survey.to_fetch))

    def chunks(self, sizing: Sizing) -> Iterator[Chunk]:
        """What to walk, oldest first. A full refresh takes stored parts by their own borders."""
        plan = self._survey
        sizing = replace(sizing, pages_in_memory=self._memory.pages_at_once(self._page_bytes))
        if not self._request.full_refresh or plan.asked is None or plan.history is None:
            yield from plan_chunks(plan.to_fetch, sizing)
            return
        yield from refresh_chunks(
            self._lake,
            self.product,
            asked=plan.asked,
            to_fetch=plan.to_fetch,
            history=plan.history,
            sizing=sizing,
        )

    def fetch(self, chunk: Chunk) -> ChunkReceipt:
        """Walk one chunk and store what was answered. Failures are in the receipt, not raised."""
        if self._fetching is None:
            raise RuntimeError("a chunk needs a survey that found trades")
        started = self._clock()
        try:
            receipt, failed = self._fetching.fetch(chunk)
        finally:
            self._progress.busy(self._clock() - started)
        if failed is None or isinstance(failed, Stopped):
            return receipt
        if not isinstance(failed, HeadraceError):
            log.exception("%s chunk %s-%s failed", self.product, *chunk.span, exc_info=failed)
            return replace(receipt, error=f"an error of this program: {failed!r}")
        if isinstance(failed, OutageError | RefusedThroughout):
            return receipt  # the end of the run, which is logged once
        log.warning("%s chunk %s-%s failed: %s", self.product, *chunk.span, failed)
        lake_failed = isinstance(failed, StoreError) and not isinstance(failed, ObjectMissing)
        if lake_failed or isinstance(failed, QuotaUnavailable | UnknownProduct):
            self._end_early(failed)
        return receipt

    def keep(self, receipt: ChunkReceipt) -> None:
        """Take note of a chunk that ended."""
        self._ledger.enter(receipt)
        for lo, hi in receipt.holes:
            self._emit("hole-proven", {"product": self.product, "from_id": lo, "to_id": hi})

    @property
    def to_fetch(self) -> IntervalSet:
        """Ids that are to be fetched, in whole pages, after `prepare`."""
        return self._survey.to_fetch

    def keep_part(self, end: PartEnd) -> None:
        """Take note of a child run that ended."""
        for receipt in end.receipts:
            self._ledger.enter_part(receipt)
            self._requests_of_parts += receipt.requests
        if end.part.span:
            self._ledger.stored |= self._survey.to_fetch & IntervalSet.of(end.part.span)
        if end.error:
            self._broken = self._broken or f"{end.part}: {end.error}"
        # What a child did that died is in the lake, but in no report.
        self._is_count_of_parts_short |= end.starts > 1

    def commit_parts(self) -> None:
        """Commit what child runs have stored, if it is time."""
        if not self._has_paused():
            return
        left = plan_pages(self._survey.to_fetch - self._ledger.covered)
        self.commit()
        done = left - plan_pages(self._survey.to_fetch - self._ledger.covered)
        self._progress.add(self.product, done=done)

    def lease_lost(self, loss: HeadraceError) -> None:
        """Stop this product: another run has taken over, and finds what is durable."""
        self._emit("lease-lost", {"product": self.product, "reason": loss.message})
        self.stop.set()

    def commit_due(self) -> bool:
        """Whether it is time for the next commit; the first says up to where the run will go."""
        changed = self._ledger.changed or self._committed_at == -math.inf
        return changed and self._has_paused()

    def _has_paused(self) -> bool:
        """Whether the last commit is long enough ago, by what its listing took."""
        pause_s = min(max(COMMIT_INTERVAL_S, _LISTING_TIMES * self._listing_s), _LONGEST_INTERVAL_S)
        return self._clock() - self._committed_at >= pause_s

    def commit(self, *, last: bool = False) -> None:
        """Merge what is due, then save as a checkpoint what is durable, whichever run stored it.

        Args:
            last: the product's last commit, which counts the trades if the ledger has lost count.

        Raises:
            LeaseLost: another run has taken over; nothing was committed.
            StoreError: the lake failed; nothing was committed.
        """
        if self._lease is None:
            raise RuntimeError("a dry run has nothing to commit")
        # What is merged while a full refresh fetches would be what it is about to replace.
        if not self.stop.is_set() and (last or not self._request.full_refresh):
            self._upkeep.run(self._lake, self._page_bytes, self.stop)
        self._read_coverage()
        if last and not self.stop.is_set():
            self._count()
        kill_point("before-checkpoint")
        self._lease.check()
        checkpoint = self._checkpoint(self._lease.token)
        try:
            if not checkpoint.says_the_same(self._saved):
                self._checkpoints.save(checkpoint)
                self._saved = checkpoint
                self._emit(
                    "committed", {"product": self.product, "watermark": checkpoint.watermark}
                )
        except CheckpointNotSaved as error:
            # The data is safe and the next run finds it; to go on would only hide the problem.
            self.stop.set()
            self._stale = f"checkpoint stale: {error}"
            log.warning("%s: %s", self.product, self._stale)
        else:
            self._stale = ""
            self._ledger.changed = False
        kill_point("after-checkpoint")
        self._committed_at = self._clock()

    def plan_receipt(self, sizing: Sizing) -> PlanReceipt:
        """What the product would cost, after `prepare`."""
        chunks = pages = 0
        for chunk in self.chunks(sizing):  # millions of them are never held at once
            chunks, pages = chunks + 1, pages + chunk.pages
        self._release_survey()
        return PlanReceipt(
            product=self.product,
            range=self._survey.asked,
            missing=self._survey.missing,
            chunks=chunks,
            pages=pages,
        )

    def receipt(self, error: str = "") -> ProductReceipt:
        """What became of the product, after the last commit; `error` is what ended it early."""
        try:
            if self._lease is not None and self._lease.lost:
                self._upkeep.sweep_after_loss(self._unguarded)
            self._count()
        except HeadraceError as problem:
            error = error or str(problem)
        self._release_survey()
        ledger, asked = self._ledger, self._survey.asked
        missing = ledger.covered.gaps(*asked) if asked else EMPTY
        error = error or self._stale or self._broken or ledger.first_error
        if not error and missing and not self._request.only_failed:
            error = "stopped"
        status = Status.DONE
        if error:
            status = Status.PARTIAL if ledger.brought or self._stale else Status.FAILED
        return ProductReceipt(
            product=self.product,
            status=status,
            range=asked,
            new_rows=self.new_rows,
            rows=ledger.rows,
            pages=ledger.pages,
            requests=self._client.stats.requests_for(self.product) + self._requests_of_parts,
            watermark=self._watermark(),
            newest=self._newest(),
            missing=missing,
            holes=ledger.holes,
            failed_chunks=ledger.failed.ranges,
            error=error,
        )

    def _listed_now(self) -> ListedLake:
        return ListedLake(self._lake, self.product, self._lake.parts(self.product))

    def _survey_of(self, lake: RawLake, is_backfill_running: bool) -> Survey:
        """Ask the exchange; `lake` answers for what is stored, as `self._ledger` has it."""
        covered, before = self._ledger.covered, self._before
        return survey(
            self._client,
            self._request,
            self.product,
            covered=covered,
            stored=load_known(lake, self.product, before, covered),
            failed_before=IntervalSet(before.failed) if before else EMPTY,
            lane=self._lane,
            beyond=self._left_to_backfill(is_backfill_running),
            ingest_from=before.ingest_from if before else 0,
        )

    def _surveyed_with(self, covered: IntervalSet) -> bool:
        """Whether `has_work` has just asked the exchange, and found this coverage."""
        if self._surveyed is None:
            return False
        at, was_covered = self._surveyed
        return covered == was_covered and self._clock() - at <= FRESH_S

    def _would_change(self, lake: RawLake, before: Checkpoint) -> bool:
        """Whether a run would fetch, store, sweep, merge or note anything of what was surveyed."""
        listing = lake.parts(self.product)
        return bool(
            self._survey.to_fetch
            or self._survey.proven_empty
            or listing.to_sweep
            or merge_plan(listing.parts, lake.grid)
            or not self._checkpoint(before.fencing_token).says_the_same(before)
        )

    def _fetching_of(self, stored_before: IntervalSet) -> Fetching | None:
        """How chunks are fetched, after the survey; None if the product has no trade."""
        history = self._survey.history
        if history is None:
            return None
        return Fetching(
            product=self.product,
            client=self._client,
            lake=self._lake,
            host=self._host,
            lane=self._lane,
            known=Known(history.first, history.newest, self._survey.seen, history.begins),
            stored_before=stored_before,
            replace=self._request.full_refresh,
            progress=self._progress,
            memory=self._memory,
            page_bytes=self._page_bytes,
            stop=self.stop,
            on_page_end=self._page_ended,
        )

    def _page_ended(self, failed: RequestError | None) -> None:
        """Stop this product when so many pages fail in a row that it is not about them."""
        with self._counting:
            self._bad_pages = self._bad_pages + 1 if failed else 0
        if failed and self._bad_pages >= BAD_PAGES_IN_A_ROW:
            self._end_early(failed)

    def _release_survey(self) -> None:
        """Free the survey's pages: a run of hundreds of products keeps all its jobs."""
        self._fetching, self._survey = None, replace(self._survey, seen=())

    def _end_early(self, error: HeadraceError) -> None:
        """Stop this product: no further chunk could be kept by the lake, get a permit or an answer.

        A store that is only slow or away for a moment has been asked again and again by now, and
        the quota's lock was waited for.
        """
        self._broken = self._broken or str(error)
        self.stop.set()

    def _keep_proven_empty(self) -> None:
        """Note that nothing lies below the page of the first trade."""
        history = self._survey.history
        for lo, hi in self._survey.proven_empty:
            for begin, end in self._lake.grid.blocks(lo, hi):
                self._lake.write_empty(
                    self.product,
                    begin,
                    end,
                    source=self._host,
                    fetched_at=datetime.now(UTC),
                    answers=history.begins if history else (),
                )
                self._ledger.cover((begin, end))

    def _read_coverage(self) -> None:
        """Bring the ledger up to what the names say: an ingest may store beside a backfill."""
        began = self._clock()
        listed = self._lake.coverage(self.product)
        self._listing_s = self._clock() - began
        if listed != self._ledger.covered or self._request.full_refresh:
            self._ledger.found(listed)

    def _left_to_backfill(self, is_backfill_running: bool) -> int:
        """Up to where a backfill under way has taken it upon itself to fetch; 0 if none is."""
        if self._request.planner != "ingest" or not is_backfill_running:
            return 0
        # Before its first commit it is not known how far it will go: then everything is left to it.
        return self._before.newest if self._before else MAX_ID

    def _count(self) -> None:
        """Count the trades of the lake where the ledger has lost count of them."""
        if not self._ledger.counted and not self._request.is_range:
            held = self._lake.stats(self.product)
            self._ledger.recount(held.covered, held.rows, held.holes)

    def _watermark(self) -> int:
        return min(self._ledger.covered.watermark(), self._newest())

    def _newest(self) -> int:
        if self._survey.history:
            return self._survey.history.newest
        return self._before.newest if self._before else 0

    def _still_failed(self) -> IntervalSet:
        """What this run or an earlier one could not fetch, and no run has stored since."""
        earlier = IntervalSet(self._before.failed) if self._before else EMPTY
        return (self._ledger.failed | earlier) - self._ledger.covered

    def _checkpoint(self, token: int) -> Checkpoint:
        ledger, history = self._ledger, self._survey.history
        return Checkpoint(
            lake=self._checkpoints.lake,
            source=self._lake.exchange,
            product=self.product,
            covered=ledger.covered.ranges,
            holes=ledger.holes.ranges,
            failed=self._still_failed().ranges,
            rows=ledger.rows if ledger.counted else 0,
            first=history.first if history else 0,
            watermark=self._watermark(),
            newest=self._newest(),
            ingest_from=self._survey.ingest_from
            or (self._before.ingest_from if self._before else 0),
            fencing_token=token,
            run_id=self._run_id,
            updated_at=datetime.now(UTC),
        )
