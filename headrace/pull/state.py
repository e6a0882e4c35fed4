"""What a run knows of its product: the last checkpoint, the exchange's answers, what is durable."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from headrace.coverage import EMPTY, IntervalSet
from headrace.lake import RawLake
from headrace.pull.checkpoints import Checkpoint
from headrace.pull.ledger import Ledger
from headrace.pull.planner import Survey


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
