"""A backfill brings every trade exactly once, says what failed, and repeats nothing."""

import math

import pytest
from prefect.exceptions import ParameterTypeError
from support.pulls import (
    assert_lake_equals_source,
    coverage,
    of_product,
    run_backfill,
    stored,
)

from headrace.errors import ConfigurationError
from headrace.lake import open_lake
from headrace.leases import open_leases
from headrace.pull.product_leases import ProductLeases
from headrace.run.report import Status
from headrace.settings import load_settings
from headrace.sim import (
    Empty,
    Fault,
    Respond,
    SimulatedExchange,
    Stale,
    Stuck,
)

pytestmark = pytest.mark.flows

LONG = pytest.mark.long
#: Requests that it takes to believe that a product has no trade.
NO_TRADE = 12
QUICK = {"workers": 3, "chunk_concurrency": 4}


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


@pytest.mark.parametrize(
    "n", [0, 1, 1000, 1001, *(pytest.param(n, marks=LONG) for n in (999, 2000, 2500, 25_300))]
)
def test_every_trade_once_and_exact_in_as_few_requests_as_it_takes(lake, n):
    with SimulatedExchange(f"BTC-USD:{n}", seed=n) as sim:
        summary = run_backfill(sim, lake, ["BTC-USD"], **QUICK)
        assert summary.status is Status.DONE
        assert_lake_equals_source(lake, sim, "BTC-USD")
        # The two questions about its ends are answered by pages that are wanted anyway.
        assert (
            summary.requests
            == sim.stats()["requests"]
            <= max(2 if n else NO_TRADE, math.ceil(n / 1000))
        )
        receipt = of_product(summary, "BTC-USD")
        assert (receipt.new_rows, receipt.rows) == (n, n)
        assert (receipt.watermark, receipt.newest) == (n, n)
        assert receipt.pages == math.ceil(n / 1000)

        again = run_backfill(sim, lake, ["BTC-USD"], **QUICK)
        assert again.status is Status.DONE
        assert (of_product(again, "BTC-USD").new_rows, again.requests) == (0, 1 if n else NO_TRADE)
        assert of_product(again, "BTC-USD").rows == n
        assert_lake_equals_source(lake, sim, "BTC-USD")


@LONG
def test_one_million_trades_dense_and_a_sparse_history(lake):
    tape = ("BTC-USD:1000000", "THIN-USD:300000,density=0.05", "GAP-USD:90000,gaps=0.4")
    with SimulatedExchange(*tape, seed=11) as sim:
        summary = run_backfill(sim, lake, ["BTC-USD", "THIN-USD", "GAP-USD"], **QUICK)
        assert summary.status is Status.DONE
        for product in ("BTC-USD", "THIN-USD", "GAP-USD"):
            assert_lake_equals_source(lake, sim, product)
        assert of_product(summary, "GAP-USD").holes
        parts = list((lake / "raw").rglob("product=BTC-USD/*.parquet"))
        assert len(parts) <= 10


@pytest.mark.parametrize("first", [734, *(pytest.param(n, marks=LONG) for n in (1001, 250_500))])
def test_a_history_that_begins_late_is_covered_from_id_1(lake, first):
    spec = f"NEW-USD:1500,first_id={first}"
    with SimulatedExchange(spec, seed=2) as sim:
        summary = run_backfill(sim, lake, ["NEW-USD"], **QUICK)
        assert summary.status is Status.DONE
        assert_lake_equals_source(lake, sim, "NEW-USD", lo=first)
        assert coverage(lake, "NEW-USD") == [[1, first + 1_499]]
        assert of_product(summary, "NEW-USD").watermark == first + 1_499
        assert all(
            arrival.subject.cursor is None or arrival.subject.cursor >= 1
            for arrival in sim.arrivals()
        )
        requests = summary.requests
        again = run_backfill(sim, lake, ["NEW-USD"], **QUICK)
        assert again.requests == 1 < requests


def test_a_product_that_gets_its_first_trades_later(lake):
    with SimulatedExchange("NEW-USD:0", seed=2) as sim:
        for _ in range(2):
            summary = run_backfill(sim, lake, ["NEW-USD"], **QUICK)
            assert summary.status is Status.DONE
            assert stored(lake, "NEW-USD").num_rows == 0
        sim.grow("NEW-USD", 3)
        assert run_backfill(sim, lake, ["NEW-USD"], **QUICK).status is Status.DONE
        assert stored(lake, "NEW-USD").column("trade_id").to_pylist() == [1, 2, 3]


def test_bad_products_cost_only_themselves_and_nothing_that_is_stored(lake):
    names = ["GOOD-USD", "FINE-USD", "GONE-USD", "LEFT-USD", "WRONG-USD"]
    with SimulatedExchange("GOOD-USD:1500", "FINE-USD:800", "LEFT-USD:700", seed=4) as sim:
        assert run_backfill(sim, lake, ["LEFT-USD"], **QUICK).status is Status.DONE
        before = coverage(lake, "LEFT-USD")
        sim.add_fault(Fault(action=Empty(), product="LEFT-USD"))
        sim.add_fault(
            Fault(
                action=Respond(status=400, body='{"message":"product_id is not a valid product"}'),
                product="WRONG-USD",
            )
        )
        for _ in range(2):
            summary = run_backfill(sim, lake, names, **QUICK)
            assert summary.status is Status.PARTIAL
            states = {receipt.product: receipt.status for receipt in summary.products}
            assert states == {
                "GOOD-USD": Status.DONE,
                "FINE-USD": Status.DONE,
                "GONE-USD": Status.FAILED,
                "LEFT-USD": Status.FAILED,
                "WRONG-USD": Status.FAILED,
            }
            assert "404" in of_product(summary, "GONE-USD").error
            assert "400" in of_product(summary, "WRONG-USD").error
            assert "delisted" in of_product(summary, "LEFT-USD").error
            assert_lake_equals_source(lake, sim, "GOOD-USD")
            assert coverage(lake, "LEFT-USD") == before
            assert of_product(summary, "LEFT-USD").rows == 700


def test_a_failed_chunk_costs_only_itself_and_the_next_run_repeats_only_that(lake):
    with SimulatedExchange("BTC-USD:9000", seed=5) as sim:
        fault = sim.add_fault(Fault(action=Respond(status=400), cursor=4001))
        summary = run_backfill(sim, lake, ["BTC-USD"], pages_per_chunk=1, **QUICK)
        receipt = of_product(summary, "BTC-USD")
        assert summary.status is Status.PARTIAL
        assert receipt.failed_chunks == ((3001, 4000),)
        assert receipt.missing.ranges == ((3001, 4000),)
        assert receipt.watermark == 3000
        assert receipt.new_rows == 8000
        sim.remove_fault(fault)
        sim.reset_log()
        again = run_backfill(sim, lake, ["BTC-USD"], only_failed=True, **QUICK)
        assert again.status is Status.DONE
        assert again.requests == 2
        assert_lake_equals_source(lake, sim, "BTC-USD")
        assert of_product(again, "BTC-USD").watermark == 9000


def test_a_server_that_answers_the_same_page_for_ever_ends_the_run_with_its_cursor(lake):
    with SimulatedExchange("BTC-USD:9000", seed=5) as sim:
        sim.add_fault(Fault(action=Stuck(newest=5000), first_page=False))
        summary = run_backfill(sim, lake, ["BTC-USD"], **QUICK)
        assert summary.status is Status.FAILED
        receipt = of_product(summary, "BTC-USD")
        assert "BTC-USD after=" in receipt.error
        assert receipt.watermark == 0
        assert stored(lake, "BTC-USD").num_rows == 0


def test_an_old_newest_page_takes_nothing_back(lake):
    with SimulatedExchange("BTC-USD:10000", seed=6) as sim:
        run_backfill(sim, lake, ["BTC-USD"], **QUICK)
        sim.add_fault(Fault(action=Stale(behind=50), first_page=True, calls=2))
        summary = run_backfill(sim, lake, ["BTC-USD"], **QUICK)
        receipt = of_product(summary, "BTC-USD")
        assert summary.status is Status.DONE
        assert (receipt.new_rows, receipt.watermark, receipt.newest) == (0, 10_000, 10_000)
        assert_lake_equals_source(lake, sim, "BTC-USD")


def test_a_growing_product_is_taken_up_to_what_was_seen_and_the_rest_next_time(lake):
    with SimulatedExchange("BTC-USD:5000,growth_per_request=10", seed=8) as sim:
        first = run_backfill(sim, lake, ["BTC-USD"], **QUICK)
        seen = of_product(first, "BTC-USD").newest
        assert first.status is Status.DONE
        assert coverage(lake, "BTC-USD") == [[1, seen]]
        second = run_backfill(sim, lake, ["BTC-USD"], **QUICK)
        newest = of_product(second, "BTC-USD").newest
        assert newest > seen
        assert_lake_equals_source(lake, sim, "BTC-USD", hi=newest)


def test_ranges_by_id_and_by_time(lake):
    with SimulatedExchange("BTC-USD:30000", seed=9) as sim:
        history = sim.history("BTC-USD")
        run_backfill(sim, lake, ["BTC-USD"], from_id=1501, to_id=3500, **QUICK)
        assert coverage(lake, "BTC-USD") == [[1001, 4000]]  # whole pages cost no more
        since = history.trade(20_000).at
        summary = run_backfill(sim, lake, ["BTC-USD"], since=since.isoformat(), **QUICK)
        lo, hi = of_product(summary, "BTC-USD").range
        late_enough = [i for i in range(15_000, 30_001) if history.trade(i).at >= since]
        assert (lo, hi) == (min(late_enough), 30_000)
        rest = run_backfill(sim, lake, ["BTC-USD"], **QUICK)
        assert rest.status is Status.DONE
        assert_lake_equals_source(lake, sim, "BTC-USD")


def test_a_dry_run_plans_and_writes_nothing(lake):
    with SimulatedExchange("BTC-USD:25300", seed=9) as sim:
        summary = run_backfill(sim, lake, ["BTC-USD", "GONE-USD"], dry_run=True, rate="10/s")
        good, gone = summary.plan
        assert (good.pages, good.range) == (26, (1, 25_300))
        assert good.as_json(10.0)["seconds_at_quota"] == 2.6
        assert "404" in gone.error
        assert stored(lake, "BTC-USD").num_rows == 0
        assert coverage(lake, "BTC-USD") == []


def test_a_full_refresh_fetches_again_and_doubles_nothing(lake):
    with SimulatedExchange("BTC-USD:12000", seed=9) as sim:
        run_backfill(sim, lake, ["BTC-USD"], to_id=7000, **QUICK)
        sim.reset_log()
        summary = run_backfill(sim, lake, ["BTC-USD"], full_refresh=True, **QUICK)
        assert summary.status is Status.DONE
        assert sim.stats()["requests"] >= 12
        assert_lake_equals_source(lake, sim, "BTC-USD")
        assert of_product(summary, "BTC-USD").rows == 12_000


def test_a_lake_never_mixes_two_sources_of_one_product(lake, monkeypatch):
    with SimulatedExchange("BTC-USD:100", seed=9) as sim:
        run_backfill(sim, lake, ["BTC-USD"], **QUICK)
        monkeypatch.setattr("headrace.pull.job.source_host", lambda _url: "api.example.com")
        summary = run_backfill(sim, lake, ["BTC-USD"], **QUICK)
        assert summary.status is Status.FAILED
        assert "another lake" in of_product(summary, "BTC-USD").error


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"workers": 50, "chunk_concurrency": 50}, "2500 requests in flight"),
        ({"from_id": 9, "to_id": 3}, "to_id 3 is below from_id 9"),
        ({"last": "1h", "since": "2024-01-01"}, "last and since"),
        ({"rate": "0/s"}, "0/"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(lake, parameters, said):
    with SimulatedExchange("BTC-USD:100") as sim:
        asked = {"products": ["BTC-USD"], **parameters}
        with pytest.raises(ConfigurationError, match=said):
            run_backfill(asked.pop("base_url", sim.url), lake, asked.pop("products"), **asked)
        assert sim.stats()["requests"] == 0


@pytest.mark.parametrize(
    "parameters",
    [
        {"last": "soon"},
        {"since": "yesterday"},
        {"products": ["BTC USD"]},
        {"base_url": "ftp://x"},
        {"workers": 0},
    ],
)
def test_what_the_form_refuses_never_becomes_a_run(lake, parameters):
    [name] = parameters
    with SimulatedExchange("BTC-USD:100") as sim:
        asked = {"products": ["BTC-USD"], **parameters}
        with pytest.raises(ParameterTypeError, match=name):
            run_backfill(asked.pop("base_url", sim.url), lake, asked.pop("products"), **asked)
        assert sim.stats()["requests"] == 0


def test_a_refresh_does_not_begin_while_another_run_merges_what_it_is_to_replace(lake):
    with SimulatedExchange("BTC-USD:3000", seed=5) as sim:
        run_backfill(sim, lake, ["BTC-USD"], **QUICK)
        leases = open_leases(load_settings().lease_location)
        product_leases = ProductLeases(leases, "coinbase", "BTC-USD", open_lake(str(lake)).location)
        asked = sim.stats()["requests"]
        with product_leases.acquire_upkeep("who merges") as ours:
            assert ours
            refused = run_backfill(sim, lake, ["BTC-USD"], full_refresh=True, **QUICK)
            assert of_product(refused, "BTC-USD").status is Status.RUNNING_ELSEWHERE
            assert sim.stats()["requests"] == asked
            # A run that replaces nothing leaves merging to who is at it, and goes on.
            assert run_backfill(sim, lake, ["BTC-USD"], **QUICK).status is Status.DONE
        again = run_backfill(sim, lake, ["BTC-USD"], full_refresh=True, **QUICK)
        assert again.status is Status.DONE
        assert_lake_equals_source(lake, sim, "BTC-USD")


def test_what_nothing_would_run_is_not_spread(tmp_path) -> None:
    """The server of this session has no deployments: said before the exchange is asked."""
    with (
        SimulatedExchange("BTC-USD:3000", seed=5) as sim,
        pytest.raises(ConfigurationError, match=r"no deployment of .*headrace up"),
    ):
        run_backfill(sim, tmp_path / "lake", ["BTC-USD"], spread=2)
    assert sim.stats()["requests"] == 0
    assert not (tmp_path / "lake").exists()
