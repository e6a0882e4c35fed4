"""What a run knows of its product, and its commits: merge, ask the lease, save what is durable.

The order is fixed: the parts are durable in the lake, then the lease is asked whether it is still
ours, then the checkpoint is saved. Killed anywhere in between, the next run finds the parts by
their names and goes on from there.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headrace.coverage import EMPTY, IntervalSet
from headrace.kill_points import kill_point
from headrace.lake import RawLake
from headrace.pull.checkpoints import Checkpoint, CheckpointStore
from headrace.pull.exceptions import CheckpointNotSaved
from headrace.pull.ledger import Ledger, Listener
from headrace.pull.planner import Survey
from headrace.pull.product_leases import HeldLease
from headrace.pull.request import PullRequest
from headrace.pull.upkeep import Upkeep
from headrace.stopping import StopEvent

log = logging.getLogger(__name__)

COMMIT_INTERVAL_S = 10.0
#: Each commit lists the product's parts, twice. Where that takes long (100,000 parts in a bucket),
#: the next one comes so many times later, which keeps listing at a tenth; but this late at most.
_LISTING_TIMES, _LONGEST_INTERVAL_S = 20.0, 300.0


@dataclass(slots=True)
class ProductState:
    """What one run knows of one product; kept up while it works.

    Args:
        product: canonical product id.
        before: the checkpoint that the run found.
        ledger: what is durable, and what this run has added.
        survey: what the exchange answered, and what is to be done.
    """

    product: str
    before: Checkpoint | None = None
    ledger: Ledger = field(default_factory=Ledger)
    survey: Survey = field(default_factory=Survey)

    @property
    def newest(self) -> int:
        """The newest id that the exchange has shown to this run, or to the one before."""
        if self.survey.history:
            return self.survey.history.newest
        return self.before.newest if self.before else 0

    @property
    def watermark(self) -> int:
        """The highest id at or below which nothing is missing."""
        return min(self.ledger.covered.watermark(), self.newest)

    @property
    def ingest_from(self) -> int:
        """The lowest id that ingests answered for before this run; 0 if none has begun."""
        return self.before.ingest_from if self.before else 0

    @property
    def failed_before(self) -> IntervalSet:
        """Ids that the run before tried and did not get."""
        return IntervalSet(self.before.failed) if self.before else EMPTY

    def count(self, lake: RawLake) -> None:
        """Count the trades of the lake where the ledger has lost count of them."""
        if not self.ledger.counted:
            held = lake.stats(self.product)
            self.ledger.recount(held.covered, held.rows, held.holes)

    def checkpoint(self, *, lake: str, source: str, token: int, run_id: str) -> Checkpoint:
        """What a commit at this moment says.

        Args:
            lake: the lake, as it calls itself.
            source: the exchange's name.
            token: fencing token of the lease that it is saved under.
            run_id: the run that saves it.
        """
        ledger, history = self.ledger, self.survey.history
        return Checkpoint(
            lake=lake,
            source=source,
            product=self.product,
            covered=ledger.covered.ranges,
            holes=ledger.holes.ranges,
            failed=((ledger.failed | self.failed_before) - ledger.covered).ranges,
            rows=ledger.rows if ledger.counted else 0,
            first=history.first if history else 0,
            watermark=self.watermark,
            newest=self.newest,
            ingest_from=self.survey.ingest_from or self.ingest_from,
            fencing_token=token,
            run_id=run_id,
            updated_at=datetime.now(UTC),
        )


class Commits:
    """The commits of one product by one run.

    Args:
        request: what the run was asked to do.
        state: of the product; what a commit saves.
        run_id: recorded in the checkpoint.
        source: the exchange's name.
        checkpoints: where it is saved.
        upkeep: merges before each commit.
        listener: called with commits.
        stop: set when a checkpoint cannot be saved.
        clock: seconds that only rise.

    Attributes:
        saved: the checkpoint as it stands, once it was read or saved.
        stale: why the checkpoint says less than the lake holds; empty while it does not.
    """

    def __init__(
        self,
        request: PullRequest,
        state: ProductState,
        *,
        run_id: str,
        source: str,
        checkpoints: CheckpointStore,
        upkeep: Upkeep,
        listener: Listener,
        stop: StopEvent,
        clock: Callable[[], float],
    ) -> None:
        self._request = request
        self._state = state
        self._run_id = run_id
        self._source = source
        self._checkpoints = checkpoints
        self._upkeep = upkeep
        self._emit = listener
        self._stop = stop
        self._clock = clock
        self._listing_s = 0.0
        self._committed_at = -math.inf
        self.saved: Checkpoint | None = None
        self.stale = ""

    def load(self) -> Checkpoint | None:
        """Read the checkpoint of the run before; None if there is none.

        Raises:
            CheckpointUnreadable: there is one that cannot be used.
        """
        self.saved = self._checkpoints.load(self._source, self._state.product)
        return self.saved

    def due(self) -> bool:
        """Whether it is time for the next commit; the first says up to where the run will go."""
        changed = self._state.ledger.changed or self._committed_at == -math.inf
        return changed and self.has_paused()

    def has_paused(self) -> bool:
        """Whether the last commit is long enough ago, by what its listing took."""
        pause_s = min(max(COMMIT_INTERVAL_S, _LISTING_TIMES * self._listing_s), _LONGEST_INTERVAL_S)
        return self._clock() - self._committed_at >= pause_s

    def would_change(self, token: int) -> bool:
        """Whether a commit under this fencing token would say something else than what is saved."""
        return not self._checkpoint(token).says_the_same(self.saved)

    def commit(self, lake: RawLake, lease: HeldLease, page_bytes: int, *, last: bool) -> None:
        """Merge what is due, then save as a checkpoint what is durable, whichever run stored it.

        Args:
            lake: under the run's lease.
            lease: the run's.
            page_bytes: what a page of the product takes in memory.
            last: the product's last commit, which counts the trades if the ledger has lost count.

        Raises:
            LeaseLost: another run has taken over; nothing was committed.
            StoreError: the lake failed; nothing was committed.
        """
        # What is merged while a full refresh fetches would be what it is about to replace.
        if not self._stop.is_set() and (last or not self._request.full_refresh):
            self._upkeep.run(lake, page_bytes, self._stop)
        self._read_coverage(lake)
        if last and not self._stop.is_set() and not self._request.is_range:
            self._state.count(lake)
        kill_point("before-checkpoint")
        lease.check()
        self._save(self._checkpoint(lease.token))
        kill_point("after-checkpoint")
        self._committed_at = self._clock()

    def _save(self, checkpoint: Checkpoint) -> None:
        product = checkpoint.product
        try:
            if not checkpoint.says_the_same(self.saved):
                self._checkpoints.save(checkpoint)
                self.saved = checkpoint
                self._emit("committed", {"product": product, "watermark": checkpoint.watermark})
        except CheckpointNotSaved as error:
            # The data is safe and the next run finds it; to go on would only hide the problem.
            self._stop.set()
            self.stale = f"checkpoint stale: {error}"
            log.warning("%s: %s", product, self.stale)
        else:
            self.stale = ""
            self._state.ledger.changed = False

    def _read_coverage(self, lake: RawLake) -> None:
        """Bring the ledger up to what the names say: an ingest may store beside a backfill."""
        began = self._clock()
        listed = lake.coverage(self._state.product)
        self._listing_s = self._clock() - began
        if listed != self._state.ledger.covered or self._request.full_refresh:
            self._state.ledger.found(listed)

    def _checkpoint(self, token: int) -> Checkpoint:
        lake = self._checkpoints.lake
        return self._state.checkpoint(
            lake=lake, source=self._source, token=token, run_id=self._run_id
        )
