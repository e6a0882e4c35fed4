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


@pytest.mark.slow
def test_past_the_limit_the_run_fails_with_its_checkpoint_intact(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_BREAKER_COOLDOWN_S", "0.3")
    lake = tmp_path / "lake"
    with SimulatedExchange("BTC-USD:60000", latency="constant:s=0.2") as sim:
        run_backfill(sim, lake, ["BTC-USD"], to_id=10_000, rate="none")
        fault = sim.add_fault(Fault(action=Respond(status=503), first_page=False))
        summary = run_backfill(
            sim, lake, ["BTC-USD"], workers=1, chunk_concurrency=4, rate="none", outage_limit_s=2
        )
        receipt = of_product(summary, "BTC-USD")
        assert summary.status is Status.FAILED
        assert "outage limit" in receipt.error
        assert (receipt.watermark, receipt.rows) == (10_000, 10_000)
        sim.remove_fault(fault)
        # The breaker is still open for everybody; the next run waits for its probe and goes on.
        assert run_backfill(sim, lake, ["BTC-USD"], rate="none").status is Status.DONE
        assert_lake_equals_source(lake, sim, "BTC-USD")
