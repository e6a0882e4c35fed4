"""An exchange that goes down in mid-run: the run waits, asks little, goes on, and loses nothing."""

import threading
import time

import pytest
from support.pulls import assert_lake_equals_source, of_product, run_backfill

from headrace.run.report import Status
from headrace.sim import Fault, Respond, SimulatedExchange

pytestmark = pytest.mark.flows

IN_FLIGHT = 8


def go_down_for(sim: SimulatedExchange, seconds: float) -> None:
    """Once the run is well under way, answer nothing but 503 for so long."""
    while sim.stats()["requests"] < 12:
        time.sleep(0.05)
    number = sim.add_fault(Fault(action=Respond(status=503)))
    time.sleep(seconds)
    sim.remove_fault(number)


@pytest.mark.parametrize(
    ("outage_s", "cooldown_s", "pages"),
    [
        pytest.param(3, 0.5, 40, marks=pytest.mark.long),
        pytest.param(60, 5, 120, marks=pytest.mark.slow),
    ],
)
def test_the_run_waits_goes_on_and_ends_complete(
    tmp_path, monkeypatch, outage_s, cooldown_s, pages
):
    monkeypatch.setenv("HEADRACE_BREAKER_COOLDOWN_S", str(cooldown_s))
    lake = tmp_path / "lake"
    with SimulatedExchange(f"BTC-USD:{pages * 1000}", latency="constant:s=0.3") as sim:
        trouble = threading.Thread(target=go_down_for, args=(sim, outage_s))
        trouble.start()
        summary = run_backfill(
            sim, lake, ["BTC-USD"], workers=1, chunk_concurrency=IN_FLIGHT, rate="20/s"
        )
        trouble.join()
        assert summary.status is Status.DONE
        assert_lake_equals_source(lake, sim, "BTC-USD")
        into_the_outage = sim.stats()["by_status"].get("503", 0)
        probes, pause, waited = 0, cooldown_s, 0.0
        while waited < outage_s:
            probes, waited, pause = probes + 1, waited + pause, pause * 2
        # Those in flight when the fifth failure opened the breaker, and one per probe.
        assert 5 <= into_the_outage <= 5 + IN_FLIGHT + probes
        assert summary.elapsed_s >= outage_s


FIVE = [f"P{number}-USD" for number in range(5)]


def test_past_the_limit_the_run_ends_once_with_all_that_arrived(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_BREAKER_COOLDOWN_S", "0.3")
    lake = tmp_path / "lake"
    with SimulatedExchange(*(f"{product}:20000" for product in FIVE)) as sim:
        fault = sim.add_fault(Fault(action=Respond(status=503), endpoint="any", from_call=40))
        summary = run_backfill(sim, lake, FIVE, rate="50/s", outage_limit_s=1)
        assert summary.status is Status.PARTIAL
        assert [line for line in summary.remarks() if "outage limit" in line] == [
            line for line in summary.remarks() if "missing" not in line
        ]
        assert len([line for line in summary.remarks() if "outage limit" in line]) == 1
        # Those in flight at the fifth failure, and the probes of a second.
        assert 5 <= sim.stats()["by_status"]["503"] <= 5 + 15 + 4
        sim.remove_fault(fault)
        assert run_backfill(sim, lake, FIVE, rate="none").status is Status.DONE
        for product in FIVE:
            assert_lake_equals_source(lake, sim, product)
        # Of 100 pages. Twice come the newest of each, and what was in flight or only looked at.
        assert sim.stats()["by_status"]["200"] <= 100 + 5 + 15 + 6


def test_a_host_that_refuses_us_ends_the_run_with_one_message(tmp_path):
    lake = tmp_path / "lake"
    with SimulatedExchange("A-USD:60000", "B-USD:60000", "C-USD:9000") as sim:
        fault = sim.add_fault(Fault(action=Respond(status=403, body="banned"), from_call=30))
        summary = run_backfill(
            sim, lake, ["A-USD", "B-USD", "C-USD"], workers=2, rate="50/s", pages_per_chunk=10
        )
        assert summary.status is Status.PARTIAL
        errors = [line for line in summary.remarks() if "missing" not in line]
        assert len(errors) == 1
        assert "(403: banned)" in errors[0]
        # Five, and what was in flight.
        assert 5 <= sim.stats()["by_status"]["403"] <= 5 + 10
        sim.remove_fault(fault)
        before = sim.stats()["by_status"]["200"]
        assert before == 29
        again = run_backfill(sim, lake, ["A-USD", "B-USD", "C-USD"], rate="none")
        assert again.status is Status.DONE
        for product in ("A-USD", "B-USD", "C-USD"):
            assert_lake_equals_source(lake, sim, product)
        assert sim.stats()["by_status"]["200"] <= 129 + 3 + 10 + 6


@pytest.mark.long
def test_one_bad_page_is_all_that_is_missing(tmp_path):
    lake = tmp_path / "lake"
    with SimulatedExchange("A-USD:12000", "B-USD:12000") as sim:
        body = "<h1>500</h1> row 6000"
        sim.add_fault(Fault(action=Respond(status=500, body=body), product="A-USD", cursor=6001))
        for again in (False, True):
            summary = run_backfill(sim, lake, ["A-USD", "B-USD"], rate="none", outage_limit_s=30)
            bad, good = of_product(summary, "A-USD"), of_product(summary, "B-USD")
            assert (summary.status, good.status) == (Status.PARTIAL, Status.DONE)
            assert bad.missing.ranges == ((5_001, 6_000),)
            assert "after=6001: given up after 6 attempts" in bad.error
            assert "(500: <h1>500</h1> row 6000)" in bad.error
            assert bad.new_rows == (0 if again else 11_000)
        # The newest, the attempts of the page, and the question whether others are answered.
        assert bad.requests <= 1 + 6 + 1
