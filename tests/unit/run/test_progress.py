"""Counters of a run, and what is derived from them."""

import threading

import pytest

from headrace.run.progress import RunProgress


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def progress(clock):
    return RunProgress("pages", "trades", paced=True, places=4, clock=clock)


def done(progress, pages, product="BTC-USD"):
    for _ in range(pages):
        progress.add(product, done=1, rows=1000)


def test_totals_are_over_all_products(progress):
    progress.begin("BTC-USD", "fetching", 10)
    progress.begin("ETH-USD", "fetching", 5)
    done(progress, 3)
    done(progress, 1, "ETH-USD")
    assert progress.totals() == (4, 15, 4000)
    assert progress.described() == ("BTC-USD: 3/10 pages, fetching; ETH-USD: 1/5 pages, fetching")


def test_before_anything_is_known_it_says_that_it_plans(progress):
    assert progress.described() == "planning"
    assert progress.eta_s(None) is None


def test_the_eta_is_what_the_quota_allows_until_the_run_shows_to_be_slower(progress, clock):
    progress.begin("BTC-USD", "fetching", 110)
    assert progress.eta_s(10.0) == pytest.approx(11.0)
    clock.now += 10
    done(progress, 50)
    assert progress.eta_s(10.0) == pytest.approx(60 / 5)
    assert progress.eta_s(2.0) == pytest.approx(60 / 2)


def test_without_a_quota_the_eta_is_what_was_seen(progress, clock):
    progress.begin("BTC-USD", "fetching", 110)
    assert progress.eta_s(None) is None
    clock.now += 10
    done(progress, 20)
    assert progress.eta_s(None) == pytest.approx(90 / 2)


def test_the_eta_is_zero_at_the_end_and_never_below(progress, clock):
    progress.begin("BTC-USD", "fetching", 2)
    clock.now += 10
    done(progress, 2)
    assert progress.eta_s(10.0) == 0
    done(progress, 1)
    assert progress.eta_s(10.0) == 0


def test_pool_use_is_the_share_of_places_that_were_busy(progress, clock):
    assert progress.pool_use == 0.0
    clock.now += 10
    progress.busy(10)
    progress.busy(20)
    assert progress.pool_use == pytest.approx(30 / 40)
    progress.busy(1000)
    assert progress.pool_use == 1.0


def test_no_page_is_lost_between_threads(progress):
    threads = [
        threading.Thread(target=done, args=(progress, 500, f"P{at % 3}-USD")) for at in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert progress.totals() == (4000, 4000, 4_000_000)


def test_the_end_of_a_product_is_noted(progress):
    progress.end("BTC-USD", "failed", "503")
    entry = progress.part("BTC-USD")
    assert (entry.state, entry.note) == ("failed", "503")


def test_a_product_that_is_done_waits_for_no_page(progress):
    """The plan counts ids, a tenth of which may have been trades."""
    progress.begin("BTC-USD", "fetching", 60)
    progress.add("BTC-USD", done=1, rows=1000)
    progress.end("BTC-USD", "partial", "503")
    assert progress.totals() == (1, 60, 1000)
    progress.end("BTC-USD", "done")
    assert progress.totals() == (1, 1, 1000)
