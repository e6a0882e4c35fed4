"""What a run holds at once: bounded by bytes, first come first served; nothing waits for ever."""

import random
import threading
import time
from contextlib import ExitStack

import pytest
from support.exchange import FakeClient

from headrace.exchange.planning import Sizing
from headrace.lake import open_lake
from headrace.leases import SqliteLeases
from headrace.pull.job import ProductJob, pull_progress
from headrace.pull.memory_budget import PAGE_BYTES, MemoryBudget
from headrace.pull.request import PullRequest
from headrace.stopping import StopEvent, Stopped

PRODUCT = "BTC-USD"


class Asking(threading.Thread):
    """A thread that reserves bytes, and keeps them until it is released."""

    def __init__(self, budget, size_bytes, stop=None):
        super().__init__(daemon=True)
        self.budget, self.size_bytes, self.stop_event = budget, size_bytes, stop or StopEvent()
        self.holds, self.released, self.stopped = threading.Event(), threading.Event(), False
        self.start()

    def run(self):
        try:
            with self.budget.reserved(self.size_bytes, self.stop_event):
                self.holds.set()
                self.released.wait(20)
        except Stopped:
            self.stopped = True

    def release(self):
        self.released.set()
        self.join(20)


def waiting(budget, count):
    """Until so many wait."""
    until = time.monotonic() + 20
    while len(budget._waiting) != count:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_who_would_exceed_the_limit_waits_until_there_is_room():
    budget = MemoryBudget(100)
    first = Asking(budget, 60)
    assert first.holds.wait(20)
    second = Asking(budget, 41)
    waiting(budget, 1)
    assert not second.holds.is_set()
    first.release()
    assert second.holds.wait(20)
    second.release()


def test_they_are_admitted_in_the_order_in_which_they_came():
    budget = MemoryBudget(100)
    first = Asking(budget, 60)
    assert first.holds.wait(20)
    large = Asking(budget, 90)
    waiting(budget, 1)
    small = Asking(budget, 10)
    waiting(budget, 2)
    assert not small.holds.is_set(), "a small one would keep a large one waiting for ever"
    first.release()
    assert large.holds.wait(20)
    assert small.holds.wait(20)
    large.release()
    small.release()


def test_what_is_larger_than_the_limit_goes_alone():
    budget = MemoryBudget(100)
    small = Asking(budget, 1)
    assert small.holds.wait(20)
    huge = Asking(budget, 1_000)
    waiting(budget, 1)
    small.release()
    assert huge.holds.wait(20)
    behind = Asking(budget, 1)
    waiting(budget, 1)
    huge.release()
    assert behind.holds.wait(20)
    behind.release()


def test_a_stop_ends_the_wait_and_leaves_the_others_their_turn():
    budget, stop = MemoryBudget(100), StopEvent()
    first = Asking(budget, 100)
    assert first.holds.wait(20)
    stopped = Asking(budget, 100, stop)
    waiting(budget, 1)
    behind = Asking(budget, 50)
    waiting(budget, 2)
    stop.set()
    stopped.join(20)
    assert stopped.stopped
    assert not stopped.is_alive()
    first.release()
    assert behind.holds.wait(20)
    behind.release()
    assert budget._held == 0


def test_more_is_taken_only_where_there_is_room():
    budget, stop = MemoryBudget(100), StopEvent()
    with budget.reserved(40, stop) as one, budget.reserved(40, stop) as other:
        assert one.covers(40)
        assert one.covers(60)
        assert not other.covers(41)
        assert other.covers(40)
    with budget.reserved(100, stop):
        pass
    assert budget._held == 0


@pytest.mark.parametrize("seed", range(3))
def test_many_threads_end_and_never_hold_more_than_the_limit(seed):
    budget, stop, most = MemoryBudget(100), StopEvent(), []

    def work(rng):
        for _ in range(50):
            with budget.reserved(rng.randint(1, 100), stop) as reservation:
                reservation.covers(rng.randint(1, 120))
                with budget._lock:
                    most.append(budget._held)

    threads = [
        threading.Thread(target=work, args=(random.Random(seed * 100 + at),)) for at in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert max(most) <= 100
    assert len(most) == 600
    assert budget._held == 0


class Kept:
    lake = "here"

    def load(self, source, product):
        return None

    def save(self, checkpoint):
        self.saved = checkpoint


class Watching(MemoryBudget):
    """Notes the most that was held."""

    most = 0

    def _admit(self):
        super()._admit()
        self.most = max(self.most, self._held)

    def _extend(self, reservation, size_bytes):
        extended = super()._extend(reservation, size_bytes)
        self.most = max(self.most, self._held)
        return extended


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake").raw("coinbase")


@pytest.fixture
def make_job(tmp_path, lake):
    def made(ids, memory):
        return ProductJob(
            PRODUCT,
            PullRequest.checked(
                products=[PRODUCT], lake="here", base_url="http://127.0.0.1:1", rate="none"
            ),
            run_id="me",
            client=FakeClient(ids),
            lake=lake,
            checkpoints=Kept(),
            leases=SqliteLeases(tmp_path / "leases"),
            progress=pull_progress(),
            stop=StopEvent(),
            memory=memory,
        )

    return made


def chunk_of(pages):
    return Sizing(cell_pages=128, in_flight=1, pool=1, pages_per_chunk=pages)


@pytest.mark.parametrize("step", [1, 3])
def test_a_chunk_that_finds_no_room_stores_what_it_has_and_goes_on(make_job, lake, step):
    """Pages larger than expected: the last ones of a history tell nothing of its first."""
    ids = range(1, 16_001, step)
    memory = Watching(5 * PAGE_BYTES)
    job = make_job(ids, memory)
    with job.product_leases.acquire("backfill", "me", ttl_s=60) as lease:
        job.prepare(lease)
        (chunk,) = job.chunks(chunk_of(16))
        receipt = job.fetch(chunk)
        job.keep(receipt)
        stored = [(part.lo, part.hi) for part in lake.parts(PRODUCT).parts]
        job.commit(last=True)
    assert receipt.error == ""
    assert len(receipt.answered) > 1
    assert len(stored) >= len(receipt.answered)
    assert lake.coverage(PRODUCT).ranges == ((1, ids[-1]),)
    assert lake.read(PRODUCT).column("trade_id").to_pylist() == list(ids)
    assert receipt.rows == len(ids)
    assert memory.most <= memory.limit_bytes
    assert memory._held == 0


def test_a_product_without_trades_expects_pages_as_any_other(make_job):
    job = make_job([], MemoryBudget())
    with job.product_leases.acquire("backfill", "me", ttl_s=60) as lease:
        job.prepare(lease)
        assert list(job.chunks(chunk_of(16))) == []


def test_with_room_it_is_one_part_and_no_request_more(make_job, lake):
    job = make_job(range(1, 16_001), MemoryBudget())
    with job.product_leases.acquire("backfill", "me", ttl_s=60) as lease:
        job.prepare(lease)
        before = job._client.requests
        for chunk in job.chunks(chunk_of(16)):
            job.keep(job.fetch(chunk))
    assert [(part.lo, part.hi) for part in lake.parts(PRODUCT).parts] == [(1, 16_000)]
    assert job._client.requests - before <= 16


def test_a_stop_while_a_chunk_waits_is_a_stop_of_the_chunk(make_job):
    memory = MemoryBudget(PAGE_BYTES)
    job = make_job(range(1, 3_001), memory)
    with job.product_leases.acquire("backfill", "me", ttl_s=60) as lease, ExitStack() as held:
        job.prepare(lease)
        (chunk, *_) = job.chunks(chunk_of(1))
        held.enter_context(memory.reserved(PAGE_BYTES, StopEvent()))
        threading.Timer(0.1, job.stop.set).start()
        assert job.fetch(chunk).error == Stopped().message


def test_a_stop_while_a_merge_waits_leaves_the_merge_and_commits(make_job, lake):
    memory = MemoryBudget()
    job = make_job(range(1, 128_001), memory)
    with job.product_leases.acquire("backfill", "me", ttl_s=60) as lease, ExitStack() as held:
        job.prepare(lease)
        for chunk in job.chunks(chunk_of(64)):
            job.keep(job.fetch(chunk))
        held.enter_context(memory.reserved(memory.limit_bytes, StopEvent()))
        threading.Timer(0.1, job.stop.set).start()
        job.commit(last=True)
    assert len(lake.parts(PRODUCT).parts) == 2
    assert job._commits._checkpoints.saved.watermark == 128_000


def test_large_pages_make_small_chunks(make_job):
    job = make_job(range(1, 30_001), MemoryBudget())
    job._page_bytes = 20 * PAGE_BYTES
    sizing = Sizing(cell_pages=128, in_flight=5, pool=5)
    assert sizing.most > 8
    with job.product_leases.acquire("backfill", "me", ttl_s=60) as lease:
        job.prepare(lease)
        job._page_bytes = 20 * PAGE_BYTES
        assert max(chunk.pages for chunk in job.chunks(sizing)) <= 8
