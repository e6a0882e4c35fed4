"""An ingest takes what is new, however much it is, beside a backfill or alone."""

import contextvars
import threading

import pytest
from support.pulls import assert_lake_equals_source, coverage, of_product, run_backfill, run_pull

from headrace.lake import open_lake
from headrace.leases import hold, open_leases
from headrace.pull.product_leases import ProductLeases
from headrace.run.report import Status
from headrace.settings import load_settings
from headrace.sim import Fault, Respond, SimulatedExchange, Stale

pytestmark = pytest.mark.flows

QUICK = {"workers": 3, "chunk_concurrency": 4}


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


def ingest(sim, lake, *products, **parameters):
    whole = {"first_ingest_hours": 0}
    return run_pull("ingest", sim, lake, products, **{**QUICK, **whole, **parameters})


def test_everything_new_is_taken_whether_less_than_a_page_or_many(lake):
    with SimulatedExchange("BTC-USD:10000", seed=1) as sim:
        assert ingest(sim, lake, "BTC-USD").status is Status.DONE
        # The lake ends with a page, so one request more shows that it is the same history.
        for grown, pages in ((3500, 5), (200, 1), (0, 0), (1, 1), (2400, 4)):
            sim.grow("BTC-USD", grown)
            sim.reset_log()
            summary = ingest(sim, lake, "BTC-USD")
            receipt = of_product(summary, "BTC-USD")
            assert summary.status is Status.DONE
            assert receipt.new_rows == grown
            assert receipt.watermark == sim.newest_id("BTC-USD")
            # The newest page says how far it is, and is the first of them.
            assert summary.requests == max(pages, 1)
            assert_lake_equals_source(lake, sim, "BTC-USD")
        assert all(
            "time" not in arrival.target and "before" not in arrival.target
            for arrival in sim.arrivals()
        )


def test_what_arrives_while_it_runs_is_taken_or_left_never_skipped(lake):
    with SimulatedExchange("BTC-USD:5000,growth_per_request=10", seed=1) as sim:
        newest = 0
        for _ in range(4):
            summary = ingest(sim, lake, "BTC-USD")
            newest = of_product(summary, "BTC-USD").newest
            assert coverage(lake, "BTC-USD") == [[1, newest]]
        assert_lake_equals_source(lake, sim, "BTC-USD", hi=newest)


def test_the_end_of_a_page_costs_requests_by_pages_not_by_trades(lake):
    with SimulatedExchange("BTC-USD:9800,growth_per_request=1", seed=1) as sim:
        run_backfill(sim, lake, ["BTC-USD"], to_id=9600, **QUICK)
        sim.reset_log()
        summary = ingest(sim, lake, "BTC-USD")
        assert summary.requests < 10
        assert_lake_equals_source(lake, sim, "BTC-USD", hi=of_product(summary, "BTC-USD").newest)


def test_an_old_newest_page_takes_nothing_back(lake):
    with SimulatedExchange("BTC-USD:10000", seed=6) as sim:
        ingest(sim, lake, "BTC-USD")
        sim.add_fault(Fault(action=Stale(behind=50), first_page=True, calls=2))
        receipt = of_product(ingest(sim, lake, "BTC-USD"), "BTC-USD")
        assert (receipt.status, receipt.new_rows, receipt.watermark) == (Status.DONE, 0, 10_000)


def test_a_gap_that_a_run_left_is_closed_by_the_next(lake):
    with SimulatedExchange("BTC-USD:9000", seed=5) as sim:
        fault = sim.add_fault(Fault(action=Respond(status=400), cursor=4001))
        first = of_product(ingest(sim, lake, "BTC-USD", pages_per_chunk=1), "BTC-USD")
        assert (first.status, first.watermark) == (Status.PARTIAL, 3000)
        sim.remove_fault(fault)
        sim.grow("BTC-USD", 100)
        sim.reset_log()
        second = ingest(sim, lake, "BTC-USD")
        assert second.status is Status.DONE
        assert second.requests == 2
        assert_lake_equals_source(lake, sim, "BTC-USD")


@pytest.mark.slow
def test_many_ingests_leave_few_files(lake):
    with SimulatedExchange("BTC-USD:100", seed=5) as sim:
        for _ in range(12):
            sim.grow("BTC-USD", 900)
            assert ingest(sim, lake, "BTC-USD").status is Status.DONE
        files = list((lake / "raw").rglob("*.parquet"))
        assert len(files) <= 8
        assert_lake_equals_source(lake, sim, "BTC-USD")


@pytest.mark.long
def test_backfill_and_ingest_of_one_product_work_side_by_side(lake):
    with SimulatedExchange("BTC-USD:300000", seed=7, latency="constant:s=0.05") as sim:
        done = {}

        def backfill():
            done["backfill"] = run_backfill(sim, lake, ["BTC-USD"], rate="60/s", **QUICK)

        # A thread begins with an empty context, in which Prefect would not know its API.
        thread = threading.Thread(target=contextvars.copy_context().run, args=(backfill,))
        thread.start()
        try:
            product_leases = ProductLeases(
                open_leases(load_settings().lease_location),
                "coinbase",
                "BTC-USD",
                open_lake(str(lake)).location,
            )
            while not (product_leases.is_backfill_running() and coverage(lake, "BTC-USD")):
                assert thread.is_alive()
            for _ in range(3):
                sim.grow("BTC-USD", 1500)
                summary = ingest(sim, lake, "BTC-USD", rate="60/s")
                assert summary.status in (Status.DONE, Status.PARTIAL)
                # It leaves to the backfill what the backfill has taken upon itself.
                assert of_product(summary, "BTC-USD").pages <= 12
        finally:
            thread.join()
        assert done["backfill"].status is Status.DONE
        last = ingest(sim, lake, "BTC-USD")
        assert last.status is Status.DONE
        assert_lake_equals_source(lake, sim, "BTC-USD")


def test_a_second_run_of_the_kind_ends_at_once_and_touches_nothing(lake):
    with SimulatedExchange("BTC-USD:3000", "ETH-USD:500", seed=7) as sim:
        location = open_lake(str(lake)).location
        leases = open_leases(load_settings().lease_location)
        product_leases = ProductLeases(leases, "coinbase", "BTC-USD", location)
        with hold(leases, product_leases.run("ingest"), run_id="another", ttl_s=30):
            summary = ingest(sim, lake, "btc-usd", "ETH-USD")
            receipt = of_product(summary, "BTC-USD")
            assert summary.status is Status.RUNNING_ELSEWHERE
            assert receipt.status is Status.RUNNING_ELSEWHERE
            assert "run another" in receipt.error
            assert of_product(summary, "ETH-USD").status is Status.DONE
            assert coverage(lake, "BTC-USD") == []
        assert ingest(sim, lake, "BTC-USD").status is Status.DONE


#: A trade every 20 s: a day is 4,320 of these 23 days.
SLOW = "BTC-USD:100000,trades_per_s=0.05"
DAY = 4_320


def test_a_first_ingest_takes_the_last_day_and_later_ones_go_on_from_there(lake, caplog):
    with SimulatedExchange(SLOW, seed=1) as sim:
        receipt = of_product(ingest(sim, lake, "BTC-USD", first_ingest_hours=24), "BTC-USD")
        begin, newest = receipt.range
        assert (receipt.status, newest) == (Status.DONE, 100_000)
        assert 100_000 - DAY - 10 < begin <= 100_000 - DAY + 10
        # Both ends, 7 halvings down to a page and that page, 5 pages of trades.
        assert receipt.requests <= 2 + 8 + 5
        assert "first ingest takes the last 24 h" in caplog.text
        assert "`headrace backfill BTC-USD` fetches what is before" in caplog.text
        caplog.clear()
        sim.grow("BTC-USD", 1500)
        later = of_product(ingest(sim, lake, "BTC-USD", first_ingest_hours=24), "BTC-USD")
        assert (later.status, later.range, later.new_rows) == (
            Status.DONE,
            (begin, 101_500),
            1500,
        )
        assert "first ingest" not in caplog.text
        run_backfill(sim, lake, ["BTC-USD"], **QUICK)
        assert_lake_equals_source(lake, sim, "BTC-USD")
        sim.grow("BTC-USD", 10)
        last = of_product(ingest(sim, lake, "BTC-USD", first_ingest_hours=24), "BTC-USD")
        assert (last.new_rows, last.watermark) == (10, 101_510)


def test_what_a_first_ingest_could_not_get_is_fetched_by_the_next(lake):
    """Also at its lower end, where the lake alone does not say that it was wanted."""
    with SimulatedExchange(SLOW, seed=1) as sim:
        fault = sim.add_fault(Fault(action=Respond(status=400), cursor=97_001))
        first = of_product(
            ingest(sim, lake, "BTC-USD", first_ingest_hours=24, pages_per_chunk=1), "BTC-USD"
        )
        assert first.failed_chunks == ((96_001, 97_000),)
        sim.remove_fault(fault)
        second = of_product(ingest(sim, lake, "BTC-USD", first_ingest_hours=24), "BTC-USD")
        assert (second.status, second.range) == (Status.DONE, first.range)
        assert coverage(lake, "BTC-USD") == [[95_001, 100_000]]


def test_a_first_ingest_of_a_product_without_trades_that_day_takes_the_newest_page(lake):
    with SimulatedExchange("BTC-USD:5000,trades_per_s=0.00001", seed=1) as sim:
        receipt = of_product(ingest(sim, lake, "BTC-USD", first_ingest_hours=1), "BTC-USD")
        assert (receipt.status, receipt.range) == (Status.DONE, (5000, 5000))
        assert coverage(lake, "BTC-USD") == [[4001, 5000]]


def test_an_ingest_after_a_backfill_of_a_part_goes_on_from_that_part(lake):
    with SimulatedExchange("BTC-USD:20000", seed=1) as sim:
        run_backfill(sim, lake, ["BTC-USD"], from_id=5001, to_id=7000, **QUICK)
        receipt = of_product(ingest(sim, lake, "BTC-USD", first_ingest_hours=24), "BTC-USD")
        assert (receipt.status, receipt.range) == (Status.DONE, (5001, 20_000))
        assert coverage(lake, "BTC-USD") == [[5001, 20_000]]
