"""Parts of a spread run: what each child run does, and how it is asked to.

A run of several products is spread by sets of products. A run of one is spread by ranges of ids,
which end with cells of the lake's grid: no two parts store into one cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from headrace.coverage import IntervalSet, Range
from headrace.lake.grid import Grid
from headrace.lake.opening import canonical_location
from headrace.leases import LeaseHeld
from headrace.pull.checkpoints import Checkpoint, CheckpointStore
from headrace.pull.ledger import EXCHANGE
from headrace.pull.product_leases import ProductLeases
from headrace.pull.report import Part
from headrace.pull.request import BLOCK_PREFIX, PullRequest
from headrace.run.parameters import about
from headrace.stopping import StopEvent


class PartRequest(PullRequest):
    """One part of a spread run, as the run that started it wants it."""

    internal: ClassVar[frozenset[str]] = frozenset(
        {"spread", "full_refresh", "dry_run", "transform", "check", "report"}
    )

    planner: Annotated[
        Literal["backfill", "ingest"],
        about("Kind of pull", "backfill or ingest, as the run that is spread.", "backfill"),
    ] = "backfill"
    spread_run: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9-]{1,64}$"),
        about(
            "Spread run",
            "Id of the run whose part this is.",
            "0f4c2b1e-7f0a-4b5e-9f57-0c6f3f1f2a11",
        ),
    ] = "by-hand"
    number: Annotated[int, Field(ge=1), about("Number", "Which part of that run it is.", 1, 2)] = 1
    by_ids: Annotated[
        bool,
        about(
            "By ids",
            "It is a range of ids of one product: it takes the lease on that range, "
            "and leaves the checkpoint to the spread run.",
            True,
        ),
    ] = False

    @model_validator(mode="after")
    def _one_range(self) -> Self:
        if self.by_ids and (len(self.products) != 1 or self.from_id is None or self.to_id is None):
            raise ValueError("by_ids needs one product, from_id and to_id")
        return self

    @property
    def is_range(self) -> bool:
        """Whether the spread run notes what this one stores."""
        return self.by_ids

    @property
    def work(self) -> str:
        """The range is part of the lease's name."""
        return f"{self.planner}:{self.from_id}-{self.to_id}" if self.by_ids else self.planner


def request_of(part: Part, whole: PullRequest, spread_run: str) -> PartRequest:
    """What a child run is asked: the same as the whole, of this part.

    A relative lake becomes absolute, since a child works in another folder, and a length of time
    becomes the moment that it means now, since a child may be started again later.
    """
    fields = {name: getattr(whole, name) for name in PullRequest.model_fields}
    fields |= {
        "products": part.products,
        "spread": 1,
        "transform": False,
        "check": False,
        "report": "",
    }
    if whole.last is not None:
        fields |= {"last": None, "since": datetime.now(UTC) - whole.last}
    if part.span:
        ends = {"from_id": part.span[0], "to_id": part.span[1]}
        fields |= {**ends, "since": None, "until": None, "last": None, "by_ids": True}
    if not whole.lake.startswith(BLOCK_PREFIX):
        fields["lake"] = canonical_location(whole.lake)
    return PartRequest(**fields, spread_run=spread_run, number=part.number)


def lease_of_part(spread_run: str, number: int) -> str:
    """Name of the lease that a child run holds as long as it lives."""
    return f"{EXCHANGE}/spread/{spread_run}/{number}"


def sets_of(products: Sequence[str], most: int) -> list[Part]:
    """The products dealt out to at most so many parts."""
    width = min(most, len(products))
    return [Part(n + 1, tuple(products[n::width])) for n in range(width)]


def ranges_of(product: str, to_fetch: IntervalSet, grid: Grid, most: int) -> list[Part]:
    """At most so many ranges with about as many ids to fetch in each; they end with cells."""
    ids = to_fetch.count
    ends, passed = set(), 0
    wanted = [ids * n // most for n in range(1, most)]
    for lo, hi in to_fetch:
        while wanted and passed + hi - lo + 1 >= wanted[0]:
            ends.add(grid.cell_of(lo + wanted.pop(0) - passed - 1).hi)
        passed += hi - lo + 1
    spans = _cut(to_fetch, sorted(ends))
    return [Part(n, (product,), span) for n, span in enumerate(spans, start=1)]


def _cut(to_fetch: IntervalSet, ends: Sequence[int]) -> list[Range]:
    """First and last id to fetch between each two ends."""
    found, begin = [], 1
    for end in [*ends, to_fetch.last or 0]:
        inside = to_fetch & IntervalSet.of((begin, end)) if end >= begin else None
        if inside and inside.first is not None and inside.last is not None:
            found.append((inside.first, inside.last))
        begin = end + 1
    return found


class CheckpointsOfRange:
    """Leaves the checkpoint of a product to the spread run whose part this is, while that lives.

    That run notes what all parts have stored. Where its lease is over, each part
    notes it at its own commits, under that lease for a moment.

    Args:
        kept: the checkpoints themselves.
        leases: of the product.
        request: of the part.
        run_id: of the part's run.
        ttl_s: time to live of a lease.
    """

    def __init__(
        self,
        kept: CheckpointStore,
        leases: ProductLeases,
        request: PartRequest,
        *,
        run_id: str,
        ttl_s: float,
    ) -> None:
        self.lake = kept.lake
        self._kept = kept
        self._leases = leases
        self._planner = request.planner
        self._run_id = run_id
        self._ttl_s = ttl_s

    def load(self, source: str, product: str) -> Checkpoint | None:
        """As `CheckpointStore.load`."""
        return self._kept.load(source, product)

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep it if no run holds the lease on the product; see `CheckpointStore.save`."""
        with (
            suppress(LeaseHeld),
            self._leases.acquire(
                self._planner,
                self._run_id,
                ttl_s=self._ttl_s,
                stop=StopEvent(),  # also while the part is asked to stop
                above=checkpoint.fencing_token,
            ) as lease,
        ):
            self._kept.save(checkpoint.model_copy(update={"fencing_token": lease.token}))
