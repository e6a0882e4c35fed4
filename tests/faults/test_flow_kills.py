"""SIGKILL of whole flows, at every named point and at random: the next run makes all good."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from headrace.exchange.planning import plan_pages, whole_pages
from headrace.sim import SimulatedExchange
from tests.services_fixtures import seaweed_url
from tests.support.places import Place, local_place
from tests.support.prefect_server import headrace_home, prefect_server
from tests.support.processes import PRODUCT, Headrace, ended, requests_of, wait_until
from tests.support.sites import Sites, exchange, place, site

__all__ = ["headrace_home", "place", "prefect_server", "seaweed_url", "site"]

pytestmark = [pytest.mark.flows, pytest.mark.services, pytest.mark.timeout(600)]

#: The first 8 pages of these are a block in 8 pieces, which the last commit merges.
TRADES = 9_300

KILLS = [
    ("backfill", "after-fetch:5"),
    ("backfill", "after-part:5"),
    ("backfill", "before-checkpoint:2"),
    ("backfill", "after-checkpoint:1"),
    ("backfill", "after-merge"),
    ("ingest", "during-merge-removal:3"),
]
#: Of these it does not matter what the lake is kept in.
KILLS_IN_A_FOLDER = [
    # A lake's probe and its grid are files too: the first part is the third.
    ("backfill", "during-part:6"),
    ("backfill", "before-rename:6"),
    ("backfill", "before-checkpoint:1"),
    ("backfill", "after-checkpoint:2"),
    ("backfill", "during-renewal"),
    ("ingest", "after-part:5"),
    ("ingest", "before-checkpoint:2"),
]

#: A lease is renewed every third of its time to live: often enough that a run comes to it whose
#: answers take so long, and long enough that a busy machine does not lose it before.
RENEWED_OFTEN, LATENCY_TO_BE_RENEWED_S = {"HEADRACE_LEASE_TTL_S": "3"}, 0.6


def kill(headrace: Headrace, flow: str, point: str) -> int:
    """Have a flow kill itself; how many pages are still missing then."""
    often = RENEWED_OFTEN if point.startswith("during-renewal") else {}
    end = headrace.run(flow, HEADRACE_KILL_AT=point, **often)
    assert (end.code, end.said) == (-signal.SIGKILL, ""), end
    covered = headrace.truth.assert_sound(headrace.place)
    newest = headrace.sim.newest_id(PRODUCT)
    return plan_pages(whole_pages(covered.gaps(1, newest), newest))


def make_good(headrace: Headrace, flow: str, missing_pages: int) -> None:
    """One normal run: it starts at once, asks for what is missing only, and all is well."""
    end = headrace.run(flow)
    assert end.code == 0, end
    # Beside its pages it asks where the history begins and ends.
    assert missing_pages <= end.summary["requests"] <= missing_pages + 3
    assert (end.product["status"], end.product["missing"]) == ("done", [])
    headrace.truth.assert_complete(headrace.place)


def test_killed_again_and_again_then_one_normal_run(tmp_path: Path, site: Sites) -> None:
    with exchange(TRADES, 0.02) as sim:
        command = site(sim, local_place(tmp_path))
        kill(command, "backfill", "after-part:5")
        missing = kill(command, "backfill", "during-merge-removal:3")
        make_good(command, "ingest", missing)


@pytest.mark.slow
@pytest.mark.parametrize(("flow", "point"), KILLS)
def test_killed_at_a_point_then_one_normal_run(
    place: Place, site: Sites, flow: str, point: str
) -> None:
    with exchange(TRADES, 0.02) as sim:
        command = site(sim, place)
        make_good(command, flow, kill(command, flow, point))


@pytest.mark.slow
@pytest.mark.parametrize(("flow", "point"), KILLS_IN_A_FOLDER)
def test_killed_at_a_point_of_a_local_run_then_one_normal_run(
    tmp_path: Path, site: Sites, flow: str, point: str
) -> None:
    latency_s = LATENCY_TO_BE_RENEWED_S if point == "during-renewal" else 0.02
    with exchange(TRADES, latency_s) as sim:
        command = site(sim, local_place(tmp_path))
        make_good(command, flow, kill(command, flow, point))


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_killed_at_thirty_random_moments_while_two_flows_run_and_the_product_grows(
    place: Place, site: Sites
) -> None:
    seed = random.randrange(1 << 32)
    print(f"dice of this run: random.Random({seed})")
    dice = random.Random(seed)
    met = 0
    with exchange(20_000, 0.1) as sim:
        command = site(sim, place)
        for number in range(30):
            sim.grow(PRODUCT, dice.randrange(9_000, 15_000))
            sim.reset_log()
            running = [command.start("backfill"), command.start("ingest")]
            # How far they are, rather than what time it is: on a busy machine, too, the moments
            # spread from the first answer over every page to the commit and the end.
            begun = dice.randrange(1, 20)
            wait_until(partial(far_enough, sim, begun, *running))
            sim.grow(PRODUCT, dice.randrange(1, 1_500))
            time.sleep(dice.uniform(0.0, dice.choice([0.1, 1.0])))
            victims = dice.choice([running, running, running[:1], running[1:]])
            for process in victims:
                process.kill()
            ends = [ended(process) for process in running]
            met += sum(end.code == -signal.SIGKILL for end in ends)
            # An ingest beside a backfill leaves to that what it has taken upon itself, and says so.
            assert all(end.code in (-signal.SIGKILL, 0, 4) for end in ends), (number, ends)
            command.truth.assert_sound(command.place)

        end = command.run("backfill")
        assert end.code == 0, end
        command.truth.assert_complete(command.place)
        assert met >= 20, f"only {met} processes were at work when they were killed"


def far_enough(sim: SimulatedExchange, requests: int, *running: subprocess.Popen[str]) -> bool:
    """Whether so many requests have come, or all there will be."""
    return requests_of(sim) >= requests or all(each.poll() is not None for each in running)


@pytest.mark.slow
def test_of_five_runs_at_once_one_works_and_four_touch_nothing(tmp_path: Path, site: Sites) -> None:
    with exchange(40_000, 1.0) as sim:
        command = site(sim, local_place(tmp_path))
        one_by_one = ("--pages-per-chunk", "1", "--chunk-concurrency", "1")
        spellings = ["btc-usd", "BTC-USD", "btc-usd", "BTC-USD", "Btc-Usd"]
        running = [command.start("backfill", *one_by_one, product=name) for name in spellings]
        ends = [ended(process) for process in running]

        assert sorted(end.code for end in ends) == [0, 3, 3, 3, 3], ends
        for end in ends:
            if end.code == 3:
                assert end.summary["status"] == end.product["status"] == "running_elsewhere"
                assert end.summary["requests"] == 0
                assert "pid" in end.product["error"]
                # Loading Prefect and starting its server takes most of the time that a start takes;
                # how long the others are at it is measured, not tested (`python -m bench starts`).
                assert "Prefect" not in end.errors
        assert requests_of(sim) == max(end.summary["requests"] for end in ends) <= 42
        command.truth.assert_complete(command.place)


@pytest.mark.slow
def test_after_a_killed_holder_the_next_run_starts_at_once(tmp_path: Path, site: Sites) -> None:
    with exchange(24_300, 0.2) as sim:
        command = site(sim, local_place(tmp_path))
        holder = command.start(HEADRACE_LEASE_TTL_S="3600")
        wait_until(lambda: requests_of(sim) > 5, holder)
        holder.kill()
        assert ended(holder).code == -signal.SIGKILL

        end = command.run()
        assert end.code == 0, end
        command.truth.assert_complete(command.place)
