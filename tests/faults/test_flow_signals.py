"""Whole flows that are asked to end: what is complete is kept, and the next run does the rest."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.cli.server import ManagedServer, RunningServer
from headrace.lake import open_lake
from headrace.sim import Drip, Fault, Hang, Respond, SimulatedExchange
from tests.support.places import Truth, local_place
from tests.support.prefect_server import headrace_home, prefect_server, saved_checkpoint
from tests.support.processes import MODULE, PRODUCT, Headrace, ended, requests_of, wait_until

__all__ = ["headrace_home", "prefect_server"]

pytestmark = [pytest.mark.flows, pytest.mark.services, pytest.mark.timeout(600)]

#: What a run that was asked to end may take for it.
GRACE_S = 10.0

#: Long enough that a signal meets it in the middle, at three pages at once.
TRADES, LATENCY_S = 40_500, 0.4


@pytest.fixture
def site(tmp_path: Path, headrace_home: Path, prefect_server: RunningServer) -> Iterator[Headrace]:
    with exchange() as sim:
        yield Headrace(headrace_home, sim, local_place(tmp_path), prefect_server)


#: A call into something that looks at no stop event and does not come back.
DEAF = """
import time
from headrace.signals import stop_on_signals
with stop_on_signals():
    print("under way", flush=True)
    while True:
        time.sleep(1)
"""


@contextmanager
def exchange() -> Iterator[SimulatedExchange]:
    spec = f"{PRODUCT}:{TRADES}"
    with SimulatedExchange(spec, seed=3, latency=f"constant:s={LATENCY_S}") as sim:
        yield sim


def assert_what_is_complete_was_committed(site: Headrace) -> None:
    """The checkpoint says all that the lake holds, which is something and not everything."""
    covered = site.truth.assert_sound(site.place)
    assert site.server is not None
    location = open_lake(site.place.location).location
    checkpoint = saved_checkpoint(site.server.api_url, location, PRODUCT)
    assert checkpoint is not None
    assert checkpoint.coverage == covered
    assert 0 < covered.count < TRADES


def assert_the_next_run_completes(site: Headrace) -> None:
    end = site.run()
    assert end.code == 0, end
    site.truth.assert_complete(site.place)


@pytest.mark.parametrize(
    "sign", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_in_mid_run_keeps_what_is_complete(site: Headrace, sign: signal.Signals) -> None:
    process = site.start()
    wait_until(lambda: requests_of(site.sim) > 12, process)
    process.send_signal(sign)

    end = ended(process, GRACE_S)
    assert end.code == 130, end
    assert end.summary["status"] == "partial"
    assert end.product["missing"]
    assert_what_is_complete_was_committed(site)
    walked = end.product["pages"]
    site.sim.reset_log()
    assert_the_next_run_completes(site)
    assert requests_of(site.sim) <= 41 - walked + 3


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_run_at_once(site: Headrace, sign: signal.Signals) -> None:
    process = site.start()
    wait_until(lambda: requests_of(site.sim) > 12, process)
    process.send_signal(sign)
    time.sleep(0.05)
    process.send_signal(sign)

    end = ended(process, GRACE_S)
    assert (end.code, end.said) == (130, "")
    site.truth.assert_sound(site.place)
    assert_the_next_run_completes(site)


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_signals_without_end_change_nothing_but_the_haste(
    site: Headrace, sign: signal.Signals
) -> None:
    process = site.start()
    wait_until(lambda: requests_of(site.sim) > 12, process)
    deadline = time.monotonic() + GRACE_S
    pause_s = 1.0
    while process.poll() is None:
        assert time.monotonic() < deadline
        process.send_signal(sign)
        time.sleep(pause_s)
        pause_s = 0.2

    assert ended(process).code == 130
    assert_the_next_run_completes(site)


@pytest.mark.slow
@pytest.mark.parametrize("action", [Hang(), Drip(every_s=1.0), Drip(every_s=1.0, part="head")])
def test_a_signal_while_every_request_hangs(site: Headrace, action: Hang | Drip) -> None:
    fault = site.sim.add_fault(Fault(action=action, from_call=20))
    process = site.start()
    wait_until(lambda: requests_of(site.sim) >= 22, process)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)

    assert ended(process, GRACE_S).code == 130
    assert_what_is_complete_was_committed(site)
    site.sim.remove_fault(fault)
    assert_the_next_run_completes(site)


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_run_waits_for_an_exchange_that_is_down(
    site: Headrace, sign: signal.Signals
) -> None:
    short = {"HEADRACE_BREAKER_COOLDOWN_S": "15"}
    fault = site.sim.add_fault(Fault(action=Respond(status=503), from_call=20))
    process = site.start(**short)
    wait_until(lambda: site.sim.stats()["by_status"].get("503", 0) >= 5, process)
    # The breaker is open once no request comes any more.
    wait_until(lambda: is_quiet(site.sim), process)
    process.send_signal(sign)

    end = ended(process, GRACE_S)
    assert end.code == 130, end
    assert_what_is_complete_was_committed(site)
    site.sim.remove_fault(fault)
    next_end = site.run(**short)
    assert next_end.code == 0, next_end
    site.truth.assert_complete(site.place)


def is_quiet(sim: SimulatedExchange) -> bool:
    """Whether no request arrives for two seconds."""
    before = requests_of(sim)
    time.sleep(2)
    return requests_of(sim) == before


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_signals_at_random_moments_from_the_first_instant_on(
    site: Headrace, sign: signal.Signals
) -> None:
    dice = random.Random(5)
    for _ in range(8):
        site.sim.grow(PRODUCT, 20_000)
        process = site.start()
        time.sleep(dice.uniform(0.0, 12.0))
        process.send_signal(sign)
        # Before the command knows of runs, a signal does what it does to any process.
        assert ended(process, GRACE_S).code in (130, 0, -sign)
        site.truth.assert_sound(site.place)
    assert_the_next_run_completes(site)


@pytest.mark.slow
def test_a_flow_started_as_a_module_heeds_signals(site: Headrace) -> None:
    process = site.start(command=MODULE)
    wait_until(lambda: requests_of(site.sim) > 12, process)
    process.send_signal(signal.SIGTERM)

    assert ended(process, GRACE_S).code == 130
    assert_what_is_complete_was_committed(site)


@pytest.mark.slow
def test_a_run_that_hangs_where_nothing_looks_at_the_stop_ends_all_the_same() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "under way\n"
    process.send_signal(signal.SIGTERM)

    end = ended(process, GRACE_S)
    assert end.code == 130
    assert "no end within" in end.errors


@pytest.mark.slow
def test_the_prefect_api_is_killed_in_mid_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    server = ManagedServer(home)
    running = server.up()
    try:
        with exchange() as sim:
            site = Headrace(home, sim, local_place(tmp_path), running)
            process = site.start()
            wait_until(lambda: requests_of(sim) > 12, process)
            os.kill(running.record.pid, signal.SIGKILL)

            end = ended(process, timeout_s=120.0)
            assert end.code == 4, end
            assert end.summary["status"] == "partial"
            assert "checkpoint stale" in end.product["error"]
            assert site.place.coverage(PRODUCT).count > 0

            site.sim.reset_log()
            again = server.up()
            end = site.run()
            assert end.code == 0, end
            Truth(sim, again.api_url).assert_complete(site.place)
    finally:
        server.down()
