"""One product of one run: plan it, walk its chunks, keep what they bring, commit, report."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from headrace.coverage import EMPTY, IntervalSet
from headrace.errors import HeadraceError
from headrace.exchange.planning import Chunk, Sizing, plan_chunks, plan_pages
from headrace.exchange.proof import Known
from headrace.exchange.source import Source
from headrace.lake import RawLake
from headrace.lake.listings import FRESH_S, ListedLake, Listings
from headrace.lake.names import MAX_ID
from headrace.lake.upkeep import merge_plan
from headrace.leases import LeaseStore
from headrace.pull.checkpoints import CheckpointStore
from headrace.pull.commits import Commits, ProductState
from headrace.pull.exceptions import TokenBehind
from headrace.pull.failures import Failures
from headrace.pull.fetching import Fetching
from headrace.pull.ledger import Listener, check_source, load_known, open_ledger, source_host
from headrace.pull.memory_budget import PAGE_BYTES, MemoryBudget, page_bytes
from headrace.pull.planner import Survey, refresh_chunks, survey
from headrace.pull.product_leases import HeldLease, ProductLeases
from headrace.pull.report import ChunkReceipt, PartEnd, PlanReceipt, ProductReceipt
from headrace.pull.request import PullRequest
from headrace.pull.upkeep import Upkeep
from headrace.quota import Lane
from headrace.run.progress import RunProgress
from headrace.run.report import Status
from headrace.stopping import StopEvent

log = logging.getLogger(__name__)


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
        self._client = client
        self._lake = self._unguarded = lake
        self._listings = listings or Listings(lake, [product], clock=clock)
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
        self._state = ProductState(product)
        self._failures = Failures(product, self.stop)
        self._commits = Commits(
            request,
            self._state,
            run_id=run_id,
            source=lake.exchange,
            checkpoints=checkpoints,
            upkeep=self._upkeep,
            listener=listener,
            stop=self.stop,
            clock=clock,
        )
        self._surveyed: tuple[float, IntervalSet] | None = None
        self._page_bytes = PAGE_BYTES
        self._fetching: Fetching | None = None
        self._rows_before = 0
        self._requests_of_parts = 0
        self._is_count_of_parts_short = False

    @property
    def new_rows(self) -> int:
        """Trades that this run has added so far."""
        ledger = self._state.ledger
        return ledger.rows - self._rows_before if self._is_count_of_parts_short else ledger.new_rows

    @property
    def stored(self) -> IntervalSet:
        """Ids that this run has stored parts for so far."""
        return self._state.ledger.stored

    @property
    def noted_token(self) -> int:
        """The fencing token in the checkpoint, once it is read; that of the lease exceeds it."""
        return self._state.before.fencing_token if self._state.before else 0

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
        state, before, covered = self._state, self._commits.load(), lake.coverage(self.product)
        if not before or not before.rows or before.coverage != covered:
            return True
        state.before = before
        state.ledger = open_ledger(lake, self.product, state.before, self._emit)
        state.survey = self._survey_of(lake, is_backfill_running)
        self._surveyed = self._clock(), covered
        if self._would_change(lake):
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
            self._state.before = self._commits.load()
        if lease is not None and self._state.before and self.noted_token >= lease.token:
            raise TokenBehind(self.product, token=lease.token, noted=self.noted_token)
        if lease is not None and self._request.full_refresh:
            # A piece beside a part that is replaced would not be known as one of it any more.
            self._lake.sweep(self.product)
            lake = self._listed_now()
        state = self._state
        state.ledger = open_ledger(lake, self.product, state.before, self._emit)
        self._rows_before = state.ledger.rows
        if not surveyed:
            state.survey = self._survey_of(lake, self.product_leases.is_backfill_running())
        self._page_bytes = max([PAGE_BYTES, *map(page_bytes, state.survey.seen)])
        self._fetching = self._fetching_of(state.ledger.covered)
        if lease is not None:
            self._keep_proven_empty()
        self._progress.begin(self.product, "fetching", plan_pages(self.to_fetch))

    def chunks(self, sizing: Sizing) -> Iterator[Chunk]:
        """What to walk, oldest first. A full refresh takes stored parts by their own borders."""
        plan = self._state.survey
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
        return receipt if failed is None else self._failures.chunk_failed(receipt, failed)

    def keep(self, receipt: ChunkReceipt) -> None:
        """Take note of a chunk that ended."""
        self._state.ledger.enter(receipt)
        for lo, hi in receipt.holes:
            self._emit("hole-proven", {"product": self.product, "from_id": lo, "to_id": hi})

    @property
    def to_fetch(self) -> IntervalSet:
        """Ids that are to be fetched, in whole pages, after `prepare`."""
        return self._state.survey.to_fetch

    def keep_part(self, end: PartEnd) -> None:
        """Take note of a child run that ended."""
        for receipt in end.receipts:
            self._state.ledger.enter_part(receipt)
            self._requests_of_parts += receipt.requests
        if end.part.span:
            self._state.ledger.stored |= self.to_fetch & IntervalSet.of(end.part.span)
        if end.error:
            self._failures.note(f"{end.part}: {end.error}")
        # What a child did that died is in the lake, but in no report.
        self._is_count_of_parts_short |= end.starts > 1

    def commit_parts(self) -> None:
        """Commit what child runs have stored, if it is time."""
        if not self._commits.has_paused():
            return
        left = plan_pages(self.to_fetch - self._state.ledger.covered)
        self.commit()
        done = left - plan_pages(self.to_fetch - self._state.ledger.covered)
        self._progress.add(self.product, done=done)

    def lease_lost(self, loss: HeadraceError) -> None:
        """Stop this product: another run has taken over, and finds what is durable."""
        self._emit("lease-lost", {"product": self.product, "reason": loss.message})
        self.stop.set()

    def commit_due(self) -> bool:
        """Whether it is time for the next commit; the first says up to where the run will go."""
        return self._commits.due()

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
        self._commits.commit(self._lake, self._lease, self._page_bytes, last=last)

    def plan_receipt(self, sizing: Sizing) -> PlanReceipt:
        """What the product would cost, after `prepare`."""
        chunks = pages = 0
        for chunk in self.chunks(sizing):  # millions of them are never held at once
            chunks, pages = chunks + 1, pages + chunk.pages
        self._release_survey()
        return PlanReceipt(
            product=self.product,
            range=self._state.survey.asked,
            missing=self._state.survey.missing,
            chunks=chunks,
            pages=pages,
        )

    def receipt(self, error: str = "") -> ProductReceipt:
        """What became of the product, after the last commit; `error` is what ended it early."""
        try:
            if self._lease is not None and self._lease.lost:
                self._upkeep.sweep_after_loss(self._unguarded)
            if not self._request.is_range:
                self._state.count(self._lake)
        except HeadraceError as problem:
            error = error or str(problem)
        self._release_survey()
        state, stale = self._state, self._commits.stale
        ledger, asked = state.ledger, state.survey.asked
        missing = ledger.covered.gaps(*asked) if asked else EMPTY
        error = error or stale or self._failures.first or ledger.first_error
        if not error and missing and not self._request.only_failed:
            error = "stopped"
        status = Status.DONE
        if error:
            status = Status.PARTIAL if ledger.brought or stale else Status.FAILED
        return ProductReceipt(
            product=self.product,
            status=status,
            range=asked,
            new_rows=self.new_rows,
            rows=ledger.rows,
            pages=ledger.pages,
            requests=self._client.stats.requests_for(self.product) + self._requests_of_parts,
            watermark=state.watermark,
            newest=state.newest,
            missing=missing,
            holes=ledger.holes,
            failed_chunks=ledger.failed.ranges,
            error=error,
        )

    def _listed_now(self) -> ListedLake:
        return ListedLake(self._lake, self.product, self._lake.parts(self.product))

    def _survey_of(self, lake: RawLake, is_backfill_running: bool) -> Survey:
        """Ask the exchange; `lake` answers for what is stored, as the ledger has it."""
        state, covered = self._state, self._state.ledger.covered
        return survey(
            self._client,
            self._request,
            self.product,
            covered=covered,
            stored=load_known(lake, self.product, state.before, covered),
            failed_before=state.failed_before,
            lane=self._lane,
            beyond=self._left_to_backfill(is_backfill_running),
            ingest_from=state.ingest_from,
        )

    def _surveyed_with(self, covered: IntervalSet) -> bool:
        """Whether `has_work` has just asked the exchange, and found this coverage."""
        if self._surveyed is None:
            return False
        at, was_covered = self._surveyed
        return covered == was_covered and self._clock() - at <= FRESH_S

    def _would_change(self, lake: RawLake) -> bool:
        """Whether a run would fetch, store, sweep, merge or note anything of what was surveyed."""
        listing = lake.parts(self.product)
        return bool(
            self.to_fetch
            or self._state.survey.proven_empty
            or listing.to_sweep
            or merge_plan(listing.parts, lake.grid)
            or self._commits.would_change(self.noted_token)
        )

    def _fetching_of(self, stored_before: IntervalSet) -> Fetching | None:
        """How chunks are fetched, after the survey; None if the product has no trade."""
        history, seen = self._state.survey.history, self._state.survey.seen
        if history is None:
            return None
        return Fetching(
            product=self.product,
            client=self._client,
            lake=self._lake,
            host=self._host,
            lane=self._lane,
            known=Known(history.first, history.newest, seen, history.begins),
            stored_before=stored_before,
            replace=self._request.full_refresh,
            progress=self._progress,
            memory=self._memory,
            page_bytes=self._page_bytes,
            stop=self.stop,
            on_page_end=self._failures.page_ended,
        )

    def _release_survey(self) -> None:
        """Free the survey's pages: a run of hundreds of products keeps all its jobs."""
        self._fetching = None
        self._state.survey = replace(self._state.survey, seen=())

    def _keep_proven_empty(self) -> None:
        """Note that nothing lies below the page of the first trade."""
        history = self._state.survey.history
        for lo, hi in self._state.survey.proven_empty:
            for begin, end in self._lake.grid.blocks(lo, hi):
                self._lake.write_empty(
                    self.product,
                    begin,
                    end,
                    source=self._host,
                    fetched_at=datetime.now(UTC),
                    answers=history.begins if history else (),
                )
                self._state.ledger.cover((begin, end))

    def _left_to_backfill(self, is_backfill_running: bool) -> int:
        """Up to where a backfill under way has taken it upon itself to fetch; 0 if none is."""
        if self._request.planner != "ingest" or not is_backfill_running:
            return 0
        # Before its first commit it is not known how far it will go: then everything is left to it.
        return self._state.before.newest if self._state.before else MAX_ID
