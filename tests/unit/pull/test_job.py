"""The books of one product's job between what is stored, reported and committed."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from support.exchange import FakeClient, rows_of

from headrace.exchange.planning import Sizing
from headrace.lake import RawLake, open_lake
from headrace.lake.names import product_prefix
from headrace.leases import LeaseHeld, SqliteLeases, hold
from headrace.pull.exceptions import TokenBehind
from headrace.pull.job import ProductJob, pull_progress
from headrace.pull.request import PullRequest
from headrace.run.report import Status
from headrace.stopping import StopEvent

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ONE_PAGE = Sizing(
    cell_pages=128, in_flight=1, pool=1, pages_per_s=None, latency_s=None, pages_per_chunk=1
)


class Kept:
    lake = "here"

    def __init__(self):
        self.saved = []

    def load(self, source, product):
        return self.saved[-1] if self.saved else None

    def save(self, checkpoint):
        self.saved.append(checkpoint)


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake").raw("coinbase")


@pytest.fixture
def leases(tmp_path):
    return SqliteLeases(tmp_path / "leases")


@pytest.fixture
def job(lake, leases):
    client = FakeClient(range(1, 3001))
    client.stats = SimpleNamespace(requests_for=lambda _product: client.requests)
    request = PullRequest.checked(
        products=["BTC-USD"], lake="here", base_url="http://127.0.0.1:1", rate="none"
    )
    return ProductJob(
        "BTC-USD",
        request,
        run_id="me",
        client=client,
        lake=lake,
        checkpoints=Kept(),
        leases=leases,
        progress=pull_progress(),
        stop=StopEvent(),
    )


def saved(job):
    return job._commits._checkpoints.saved[-1]


def test_a_part_that_was_stored_but_not_reported_yet_does_not_blind_the_last_commit(job, leases):
    with hold(leases, job.product_leases.run("backfill"), run_id="me", ttl_s=60) as lease:
        job.prepare(lease)
        receipts = []
        for chunk in job.chunks(ONE_PAGE):
            receipts.append(job.fetch(chunk))
            job.commit()
        for receipt in receipts:
            job.keep(receipt)
        job.commit(last=True)
    assert (saved(job).rows, saved(job).watermark, saved(job).covered) == (3000, 3000, ((1, 3000),))
    receipt = job.receipt()
    assert (receipt.status, receipt.rows, receipt.new_rows) == (Status.DONE, 3000, 3000)


def test_a_lease_whose_token_does_not_exceed_the_checkpoints_is_not_worked_under(job, leases):
    name = job.product_leases.run("backfill")
    with hold(leases, name, run_id="me", ttl_s=60) as lease:
        job.prepare(lease)
        job.commit()
    noted = saved(job).fencing_token
    with (
        hold(leases, name, run_id="me", ttl_s=60) as lease,
        pytest.raises(TokenBehind, match=str(noted)) as behind,
    ):
        job.prepare(Under(lease, noted))
    assert (behind.value.token, behind.value.noted) == (noted, noted)
    assert len(job._commits._checkpoints.saved) == 1
    with (
        hold(leases, name, run_id="me", ttl_s=60) as lease,
        pytest.raises(TokenBehind, match=f"token {noted - 1}, .* under {noted}") as behind,
    ):
        job.prepare(Under(lease, noted - 1))
    assert (behind.value.product, behind.value.token) == (job.product, noted - 1)
    assert behind.value.noted == noted
    with hold(leases, name, run_id="me", ttl_s=60, above=behind.value.noted) as lease:
        job.prepare(lease)
        assert lease.token > noted


def test_a_checkpoint_is_saved_only_if_it_says_something_else_than_before(job, leases):
    for _ in range(3):
        with hold(leases, job.product_leases.run("backfill"), run_id="me", ttl_s=60) as lease:
            job.prepare(lease)
            job.commit()
            job.commit(last=True)
    assert len(job._commits._checkpoints.saved) == 1


@pytest.mark.parametrize(("listing_s", "pause_s"), [(0.01, 10), (6, 120), (60, 300)])
def test_a_commit_that_lists_for_long_lets_the_next_one_wait(
    job, leases, monkeypatch, listing_s, pause_s
):
    now, coverage = [1_000.0], job._lake.coverage

    def slow_coverage(product):
        now[0] += listing_s
        return coverage(product)

    for timed in (job, job._commits):
        monkeypatch.setattr(timed, "_clock", lambda: now[0])
    with hold(leases, job.product_leases.run("backfill"), run_id="me", ttl_s=60) as lease:
        job.prepare(lease)
        monkeypatch.setattr(job._lake, "coverage", slow_coverage)
        job.commit()
        job.keep(job.fetch(next(job.chunks(ONE_PAGE))))
        now[0] += pause_s - 1
        assert not job.commit_due()
        now[0] += 1
        assert job.commit_due()


class Under:
    """A lease of a store that has forgotten what it gave out before."""

    def __init__(self, lease, token):
        self.token = token
        self.check, self.check_time = lease.check, lease.check_time
        self.lost = False


def test_a_lake_that_cannot_be_counted_is_reported_and_not_raised(job, lake, leases):
    with hold(leases, job.product_leases.run("backfill"), run_id="me", ttl_s=60) as lease:
        job.prepare(lease)
        for chunk in job.chunks(ONE_PAGE):
            receipt = job.fetch(chunk)
            job.commit()
            job.keep(receipt)
        part = lake.parts("BTC-USD").parts[0]
        lake.store.put(part.key, b"garbage")
    receipt = job.receipt()
    assert receipt.status is Status.PARTIAL
    assert "is not a readable part" in receipt.error
    assert job.receipt(error="the first thing that went wrong").error.startswith("the first")


def test_trades_that_another_stores_while_the_books_are_opened_count_once(
    job, lake, leases, monkeypatch
):
    """A backfill reads footers while an ingest stores what the backfill will fetch, too."""
    store_pages(lake, 1)
    look = RawLake.coverage

    def look_and_let_another_store(self, product):
        names = look(self, product)
        monkeypatch.setattr(RawLake, "coverage", look)
        store_pages(lake, 2)
        return names

    monkeypatch.setattr(RawLake, "coverage", look_and_let_another_store)
    with hold(leases, job.product_leases.run("backfill"), run_id="me", ttl_s=60) as lease:
        job.prepare(lease)
        for chunk in job.chunks(ONE_PAGE):
            job.keep(job.fetch(chunk))
        job.commit(last=True)
    assert (saved(job).rows, saved(job).covered) == (3000, ((1, 3000),))
    assert (job.receipt().rows, job.receipt().new_rows) == (3000, 1000)


def store_pages(lake, page):
    rows = pa.Table.from_batches([rows_of(list(range(1000 * page - 999, 1000 * page + 1)))])
    lake.write("BTC-USD", 1000 * page - 999, 1000 * page, rows, source="localhost", fetched_at=NOW)


@pytest.fixture
def pulled(lake, leases):
    """A function that makes jobs of a product which an earlier run has pulled completely."""
    kept = Kept()
    client = FakeClient(range(1, 3001))
    client.stats = SimpleNamespace(requests_for=lambda _product: client.requests)

    def new_job(planner="ingest", events=None, **options):
        request = PullRequest.checked(
            products=["BTC-USD"],
            lake="here",
            base_url="http://127.0.0.1:1",
            rate="none",
            planner=planner,
            **options,
        )
        job = ProductJob(
            "BTC-USD",
            request,
            run_id="me",
            client=client,
            lake=lake,
            checkpoints=kept,
            leases=leases,
            progress=pull_progress(),
            stop=StopEvent(),
            listener=lambda name, facts: events is not None and events.append((name, facts)),
        )
        job.exchange = client
        return job

    pull_completely(new_job(first_ingest_hours=0), leases)
    return new_job


def pull_completely(job, leases):
    name = job.product_leases.run("ingest")
    with hold(leases, name, run_id="me", ttl_s=60, above=job.noted_token) as lease:
        job.prepare(lease)
        for chunk in job.chunks(ONE_PAGE):
            job.keep(job.fetch(chunk))
        job.commit(last=True)


def test_a_product_with_nothing_new_takes_a_page_and_no_lease(pulled, lake, leases):
    events = []
    job = pulled(events=events)
    before, leases_before = lake.parts("BTC-USD"), leases.list()
    saved_before = list(job._commits._checkpoints.saved)
    job.exchange.cursors.clear()

    assert not job.has_work()

    assert job.exchange.cursors == [None]
    assert (lake.parts("BTC-USD"), leases.list()) == (before, leases_before)
    assert job._commits._checkpoints.saved == saved_before
    receipt = job.receipt()
    assert (receipt.status, receipt.rows, receipt.new_rows) == (Status.DONE, 3000, 0)
    assert (receipt.watermark, receipt.newest, receipt.error) == (3000, 3000, "")
    assert [name for name, _facts in events] == ["unchanged"]
    assert events[0][1]["newest_at"] == lake.newest("BTC-USD").time


def test_the_page_that_showed_new_trades_is_not_asked_for_again_under_the_lease(pulled, leases):
    job = pulled()
    job.exchange.ids += range(3001, 3011)
    job.exchange.cursors.clear()
    assert job.has_work()
    pull_completely(job, leases)
    assert job.exchange.cursors == [None]
    assert (job.receipt().new_rows, saved(job).watermark) == (10, 3010)


def test_what_another_run_stores_before_the_lease_is_taken_is_seen(pulled, leases):
    job = pulled()
    job.exchange.ids += range(3001, 4501)
    assert job.has_work()
    pull_completely(pulled(), leases)
    pull_completely(job, leases)
    assert (job.receipt().new_rows, job.receipt().rows) == (0, 4500)


def test_a_run_at_the_product_is_found_before_anything_is_asked(pulled, leases):
    job = pulled()
    job.exchange.cursors.clear()
    with (
        hold(leases, job.product_leases.run("ingest"), run_id="other", ttl_s=60),
        pytest.raises(LeaseHeld),
    ):
        job.has_work()
    assert job.exchange.cursors == []


def test_a_lease_that_was_claimed_for_the_run_is_given_back_when_there_is_no_work(pulled, leases):
    job = pulled()
    with job.product_leases.claim("ingest", ttl_s=60):
        assert not job.has_work()
        job.product_leases.check_free("ingest")
        with hold(leases, job.product_leases.run("ingest"), run_id="other", ttl_s=60):
            pass


def spoil_checkpoint(job, lake):
    job._commits._checkpoints.saved.append(saved(job).model_copy(update={"newest": 1}))


def remove_part(job, lake):
    lake.store.delete(lake.parts("BTC-USD").parts[-1].key)


def leave_a_piece(job, lake):
    """As a kill during a merge does."""
    rows = lake.read("BTC-USD", 1, 500)
    lake.write("BTC-USD", 1, 500, rows, source="localhost", fetched_at=NOW)


def set_aside(job, lake):
    lake.store.put(product_prefix("coinbase", "BTC-USD") + "_aside-part", b"")


def forget_checkpoint(job, lake):
    job._commits._checkpoints.saved.clear()


def lose_count(job, lake):
    job._commits._checkpoints.saved.append(saved(job).model_copy(update={"rows": 0}))


@pytest.mark.parametrize(
    "trouble",
    [spoil_checkpoint, remove_part, leave_a_piece, set_aside, forget_checkpoint, lose_count],
)
def test_whatever_a_run_would_put_right_is_work(pulled, lake, trouble):
    job = pulled()
    trouble(job, lake)
    assert job.has_work()


def test_a_full_refresh_is_work_and_a_backfill_of_what_is_there_is_not(pulled):
    assert pulled("backfill", full_refresh=True).has_work()
    assert not pulled("backfill").has_work()
