"""A full refresh over whatever lies in the lake: borders are kept, values are new, none doubled."""

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.exchange import FakeClient, rows_of

from headrace.coverage import IntervalSet
from headrace.exchange.planning import Sizing, whole_pages
from headrace.lake import Grid, RawLake
from headrace.leases import LeaseHeld, SqliteLeases
from headrace.pull.job import ProductJob, pull_progress
from headrace.pull.request import PullRequest
from headrace.run.report import Status
from headrace.stopping import StopEvent
from tests.support.stores import MemoryStore

PRODUCT = "BTC-USD"
NOW = datetime(2026, 1, 2, tzinfo=UTC)
#: Not a power of two, so that a cell's last blocks are cut off by its end.
GRID = Grid(cell_pages=10)
FIRST, NEWEST = 1_234, 24_567
#: Every third id is a trade, but for a hole of several pages.
IDS = [n for n in range(FIRST, NEWEST + 1) if n % 3 == 1 and not 6_200 < n < 9_900] + [NEWEST]


class Kept:
    lake = "here"

    def __init__(self):
        self.saved = []

    def load(self, source, product):
        return self.saved[-1] if self.saved else None

    def save(self, checkpoint):
        self.saved.append(checkpoint)


def truth(lo: int = 1, hi: int = NEWEST) -> pa.Table:
    return pa.Table.from_batches([rows_of([n for n in IDS if lo <= n <= hi])])


def outdated(lo: int, hi: int) -> pa.Table:
    """The same trades with a price that the exchange has corrected since."""
    rows = truth(lo, hi)
    return rows.set_column(2, rows.schema.field(2), pa.array(["9.9"] * len(rows), pa.string()))


def keep(lake: RawLake, lo: int, hi: int) -> None:
    """Store what a run would store for the answered range [lo, hi]: blocks of the grid."""
    for begin, end in lake.grid.blocks(lo, hi):
        if not lake.coverage(PRODUCT).contains(begin, end):
            rows = outdated(begin, end)
            lake.write(PRODUCT, begin, end, rows, source="localhost", fetched_at=NOW)


def new_job(folder: Path, lake: RawLake, **asked: int) -> ProductJob:
    client = FakeClient(IDS)
    client.stats = SimpleNamespace(requests_for=lambda _product: client.requests)
    request = PullRequest.checked(
        products=PRODUCT,
        lake="here",
        base_url="http://127.0.0.1:1",
        rate="none",
        full_refresh=True,
        **asked,
    )
    return ProductJob(
        PRODUCT,
        request,
        run_id="me",
        client=client,
        lake=lake,
        checkpoints=Kept(),
        leases=SqliteLeases(folder / "leases"),
        progress=pull_progress(),
        stop=StopEvent(),
    )


def sizing(pages_per_chunk: int) -> Sizing:
    return Sizing(
        GRID.cell_pages,
        in_flight=2,
        pool=2,
        pages_per_s=None,
        latency_s=None,
        pages_per_chunk=pages_per_chunk,
    )


def refresh(
    folder: Path, lake: RawLake, pages_per_chunk: int, stop_after: int | None = None, **asked: int
):
    """One refresh; its job, and the requests that it took. May be asked to stop after a chunk."""
    job = new_job(folder, lake, **asked)
    with job.product_leases.acquire("backfill", "me", ttl_s=60, replaces=True) as lease:
        job.prepare(lease)
        for number, chunk in enumerate(job.chunks(sizing(pages_per_chunk))):
            if number == stop_after:
                job.stop.set()
            job.keep(job.fetch(chunk))
        job.commit(last=True)
    return job, job.receipt().requests


def assert_refreshed(lake: RawLake, lo: int, hi: int, before: IntervalSet) -> None:
    """[lo, hi] is new in every value; nothing overlaps, and what was covered still is."""
    listing = lake.parts(PRODUCT)
    assert listing.overlaps == listing.foreign == ()
    for part in (*listing.parts, *listing.hidden):
        lake.verify(part)
    assert lake.read(PRODUCT, lo, hi).equals(truth(lo, hi))
    ids = lake.read(PRODUCT).column("trade_id").to_pylist()
    covered = listing.coverage
    assert ids == [n for n in IDS if covered.contains(n)]
    asked = whole_pages(IntervalSet.of((lo, hi)), NEWEST)
    # Below the page of the first trade nothing is, which is noted, too.
    assert (before | asked) - covered == IntervalSet()
    assert covered - (before | asked) - IntervalSet.of((1, FIRST // 1_000 * 1_000)) == IntervalSet()


@pytest.fixture
def lake() -> RawLake:
    return RawLake(MemoryStore(), "coinbase", GRID)


@pytest.mark.parametrize("pages_per_chunk", [0, 1, 3, 10])
def test_a_range_that_cuts_parts_of_many_sizes(tmp_path, lake, pages_per_chunk) -> None:
    # Blocks of many sizes, one that the cell's end cuts off, single pages, the page of what was
    # newest once, and a gap of several pages.
    keep(lake, 1, 4_000)
    keep(lake, 4_001, 8_000)
    keep(lake, 8_001, 10_000)
    keep(lake, 10_001, 11_000)
    keep(lake, 11_001, 12_000)
    keep(lake, 17_001, 20_000)
    keep(lake, 20_001, 20_777)
    before = lake.coverage(PRODUCT)
    lo, hi = 4_321, 20_500

    job, requests = refresh(tmp_path, lake, pages_per_chunk, from_id=lo, to_id=hi)

    assert_refreshed(lake, lo, hi, before)
    receipt = job.receipt()
    assert (receipt.status, receipt.missing, receipt.range) == (
        Status.DONE,
        IntervalSet(),
        (lo, hi),
    )
    assert receipt.rows == lake.read(PRODUCT).num_rows
    # Parts are fetched by their own borders: those of the range and what lies beside in them.
    assert requests <= 21 + 3
    assert set(lake.read(PRODUCT, 1, 4_000).column("price").to_pylist()) == {"9.9"}
    assert set(lake.read(PRODUCT, 4_001).column("price").to_pylist()) == {"1.5"}


def test_parts_are_not_merged_while_they_are_replaced(tmp_path, lake) -> None:
    """The page that was missing comes first and makes the cell a full one, due to be merged."""
    for lo in range(10_001, 19_001, 1_000):
        keep(lake, lo, lo + 999)
    before = lake.coverage(PRODUCT)
    job = new_job(tmp_path, lake, from_id=10_001, to_id=20_000)
    with job.product_leases.acquire("backfill", "me", ttl_s=60, replaces=True) as lease:
        job.prepare(lease)
        for chunk in reversed(list(job.chunks(sizing(1)))):
            job.keep(job.fetch(chunk))
            job.commit()
        job.commit(last=True)

    assert_refreshed(lake, 10_001, 20_000, before)
    assert lake.parts(PRODUCT).hidden == ()
    assert (10_001, 20_000) in {(part.lo, part.hi) for part in lake.parts(PRODUCT).parts}


def test_a_piece_beside_a_part_that_is_replaced_goes_first(tmp_path, lake) -> None:
    keep(lake, 10_001, 14_000)
    before = lake.coverage(PRODUCT)
    rows = outdated(11_001, 12_000)
    lake.write(PRODUCT, 11_001, 12_000, rows, source="localhost", fetched_at=NOW)

    refresh(tmp_path, lake, 0, from_id=10_001, to_id=14_000)

    assert_refreshed(lake, 10_001, 14_000, before)
    assert lake.parts(PRODUCT).hidden == ()


def test_who_replaces_parts_and_who_merges_them_keep_each_other_out(tmp_path, lake) -> None:
    product_leases = new_job(tmp_path, lake).product_leases
    with product_leases.acquire("backfill", "me", ttl_s=60, replaces=True):
        with product_leases.acquire_upkeep("another") as ours:
            assert not ours
        with product_leases.acquire("ingest", "another", ttl_s=60):
            pass
    with product_leases.acquire_upkeep("another") as ours:
        assert ours
        with (
            pytest.raises(LeaseHeld, match="run another"),
            product_leases.acquire("backfill", "me", ttl_s=60, replaces=True),
        ):
            pass
        with product_leases.acquire("backfill", "me", ttl_s=60):
            pass


ANSWERED = st.tuples(st.integers(0, 23), st.integers(1, 10), st.integers(0, 999)).map(
    lambda drawn: (drawn[0] * 1_000 + 1, min(NEWEST, (drawn[0] + drawn[1]) * 1_000), drawn[2])
)


@settings(max_examples=20)
@given(
    answered=st.lists(ANSWERED, max_size=6),
    last_page_until=st.integers(24_001, NEWEST) | st.none(),
    bounds=st.tuples(st.integers(1, NEWEST), st.integers(1, NEWEST)).map(sorted),
    pages_per_chunk=st.sampled_from([0, 1, 2, 3, 10]),
    stop_after=st.none() | st.integers(0, 4),
)
def test_any_range_over_any_parts(answered, last_page_until, bounds, pages_per_chunk, stop_after):
    lo, hi = max(bounds[0], FIRST), max(bounds[1], FIRST)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        lake = RawLake(MemoryStore(), "coinbase", GRID)
        for begin, end, _ in answered:
            keep(lake, begin, end)
        if last_page_until is not None:
            keep(lake, 24_001, last_page_until)
        before = lake.coverage(PRODUCT)
        asked = {"from_id": lo, "to_id": hi}
        if stop_after is not None:
            # What is broken off leaves some parts old and some new, all of them whole.
            refresh(folder, lake, pages_per_chunk, stop_after, **asked)
            assert before - lake.coverage(PRODUCT) == IntervalSet()
            before = lake.coverage(PRODUCT)
        job, _ = refresh(folder, lake, pages_per_chunk, **asked)
        assert_refreshed(lake, lo, hi, before)
        assert job.receipt().status is Status.DONE
        assert job.receipt().rows == lake.read(PRODUCT).num_rows
