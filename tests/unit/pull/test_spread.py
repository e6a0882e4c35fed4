"""How a run is cut into parts, what their runs are asked, and who notes what they store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coverage import IntervalSet
from headrace.errors import ConfigurationError
from headrace.lake.grid import Grid
from headrace.leases import LeaseHeld, LeaseStatus, SqliteLeases
from headrace.pull.checkpoints import Checkpoint
from headrace.pull.product_leases import ProductLeases
from headrace.pull.report import Part, ProductReceipt
from headrace.pull.request import IngestRequest, PullRequest
from headrace.pull.spread import CheckpointsOfRange, PartRequest, ranges_of, request_of, sets_of
from headrace.run.report import Status

GRID = Grid(cell_pages=4)
CELL = GRID.cell_ids

ranges = st.lists(
    st.tuples(st.integers(1, 60 * CELL), st.integers(1, 9 * CELL)), min_size=1, max_size=6
).map(lambda pairs: IntervalSet.from_ranges((lo, lo + length) for lo, length in pairs))


@given(ranges, st.integers(2, 9))
def test_ranges_hold_everything_once_and_share_no_cell(to_fetch: IntervalSet, most: int) -> None:
    spans = [part.span for part in ranges_of("BTC-USD", to_fetch, GRID, most)]
    assert all(spans)
    assert len(spans) <= most
    inside = [to_fetch & IntervalSet.of(span) for span in spans if span]
    assert sum(each.count for each in inside) == to_fetch.count
    ends = [(GRID.cell_of(lo).index, GRID.cell_of(hi).index) for lo, hi in filter(None, spans)]
    assert all(one[1] < other[0] for one, other in pairwise(ends))
    # Even but for the cell in which each cut falls.
    assert max(each.count for each in inside) <= to_fetch.count / most + CELL


def test_ranges_of_little_are_few() -> None:
    assert ranges_of("BTC-USD", IntervalSet.of(), GRID, 4) == []
    assert [part.span for part in ranges_of("BTC-USD", IntervalSet.of((5, 9)), GRID, 4)] == [(5, 9)]


def test_sets_hold_each_product_once() -> None:
    products = [f"P{n}-USD" for n in range(7)]
    parts = sets_of(products, 3)
    assert [len(part.products) for part in parts] == [3, 2, 2]
    assert sorted(product for part in parts for product in part.products) == products
    assert len(sets_of(products[:2], 5)) == 2


def test_a_part_is_asked_for_what_the_run_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a form and back, in a folder of another process."""
    monkeypatch.chdir(tmp_path)
    whole = IngestRequest(products=("A-USD", "B-USD"), lake="lake", spread=2, first_ingest_hours=7)
    asked = request_of(Part(2, ("B-USD",)), whole, "run-1")
    read = PartRequest.checked(**asked.as_form())
    assert read == asked
    assert (read.planner, read.products, read.first_ingest_hours) == ("ingest", ("B-USD",), 7)
    assert (read.lake, read.spread, read.work) == (str(tmp_path / "lake"), 1, "ingest")


def test_a_range_has_a_lease_of_its_own() -> None:
    whole = PullRequest(products=("A-USD",), last=timedelta(days=1), spread=2)
    asked = request_of(Part(1, ("A-USD",), (1, 4000)), whole, "run-1")
    read = PartRequest.checked(**asked.as_form())
    assert (read.from_id, read.to_id, read.since, read.last) == (1, 4000, None, None)
    assert (read.work, read.is_range) == ("backfill:1-4000", True)


def test_a_length_of_time_means_the_same_at_a_later_start() -> None:
    whole = PullRequest(products=("A-USD", "B-USD"), last=timedelta(hours=1), spread=2)
    asked = request_of(Part(1, ("A-USD",)), whole, "run-1")
    read = PartRequest.checked(**asked.as_form())
    assert read.last is None
    assert read.since is not None
    assert (
        timedelta(0) <= datetime.now(UTC) - timedelta(hours=1) - read.since < timedelta(minutes=5)
    )


@pytest.mark.parametrize(
    "wrong", [{"products": ("A-USD", "B-USD"), "from_id": 1, "to_id": 9}, {"products": ("A-USD",)}]
)
def test_a_range_is_of_one_product(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="by_ids needs one product"):
        PartRequest.checked(by_ids=True, **wrong)


def test_a_full_refresh_is_not_spread() -> None:
    with pytest.raises(ConfigurationError, match="leave spread out"):
        PullRequest.checked(products=["A-USD"], full_refresh=True, spread=2)


def test_a_receipt_survives_its_summary() -> None:
    receipt = ProductReceipt(
        "A-USD",
        Status.PARTIAL,
        range=(1, 9000),
        new_rows=7,
        missing=IntervalSet.of((3, 5), (8, 9)),
        failed_chunks=((3, 5),),
        error="page 3 failed",
    )
    for each in (receipt, ProductReceipt("B-USD", Status.DONE)):
        assert ProductReceipt.from_json(each.as_json()) == each


class Kept:
    """Checkpoints in memory."""

    lake = "lake"

    def __init__(self) -> None:
        self.saved: list[Checkpoint] = []

    def load(self, source: str, product: str) -> Checkpoint | None:
        return self.saved[-1] if self.saved else None

    def save(self, checkpoint: Checkpoint) -> None:
        self.saved.append(checkpoint)


def test_the_spread_run_alone_notes_what_is_stored_while_it_lives(tmp_path: Path) -> None:
    store, kept = SqliteLeases(tmp_path), Kept()
    leases = ProductLeases(store, "coinbase", "A-USD", "lake")
    request = PartRequest(products=("A-USD",), from_id=1, to_id=9, by_ids=True)
    ours = CheckpointsOfRange(kept, leases, request, run_id="part", ttl_s=60)
    checkpoint = Checkpoint(
        lake="lake",
        source="coinbase",
        product="A-USD",
        covered=((1, 9),),
        fencing_token=9_000_000_000_000,
        updated_at=datetime.now(UTC),
    )
    with leases.acquire("backfill", "spread-run", ttl_s=60):
        ours.save(checkpoint)
    assert kept.saved == []

    ours.save(checkpoint)
    [saved] = kept.saved
    assert saved.fencing_token > checkpoint.fencing_token
    assert saved.says_the_same(checkpoint)
    assert store.state(leases.run("backfill")).status is LeaseStatus.FREE


def test_a_new_spread_run_waits_for_parts_of_an_earlier_one(tmp_path: Path) -> None:
    leases = ProductLeases(SqliteLeases(tmp_path), "coinbase", "A-USD", "lake")
    leases.check_no_parts("backfill")
    with leases.acquire("backfill", "run", ttl_s=60), leases.acquire("ingest", "other", ttl_s=60):
        leases.check_no_parts("backfill")
        with (
            leases.acquire("backfill:1-9", "part", ttl_s=60),
            pytest.raises(LeaseHeld, match="run part"),
        ):
            leases.check_no_parts("backfill")
    leases.check_no_parts("backfill")
