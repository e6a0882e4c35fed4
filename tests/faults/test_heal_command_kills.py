"""SIGKILL of `headrace audit --heal` as a whole: the repair, the fetch, the look that follows."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from headrace.lake import open_lake
from headrace.run.report import Status
from headrace.sim import SimulatedExchange
from tests.services_fixtures import seaweed_url
from tests.support.places import Place, local_place, s3_place
from tests.support.prefect_server import headrace_home, prefect_server, saved_checkpoint
from tests.support.processes import (
    HEADRACE,
    PRODUCT,
    Ended,
    Headrace,
    ended,
    requests_of,
    wait_until,
)
from tests.support.sites import Sites, exchange, place, site
from tests.support.spoiling import readable, spoil, spoil_at_random

__all__ = ["headrace_home", "place", "prefect_server", "seaweed_url", "site"]

pytestmark = [pytest.mark.flows, pytest.mark.services, pytest.mark.timeout(600)]

KILLS = [
    # Of the repair,
    "after-aside",
    "during-sweep",
    "after-shortening",
    "before-checkpoint:1",
    "after-checkpoint:1",
    # and of the fetch of what it found, and made, missing.
    "after-fetch:1",
    "after-part:2",
    "before-checkpoint:2",
    "after-checkpoint:2",
    "during-renewal",
]
#: The first 8 pages of these are a block in 8 pieces, which the backfill's last commit merges.
TRADES = 9_300


def kill(headrace: Headrace, point: str) -> None:
    """Have a healing kill itself; what could be read before can be read after."""
    kept = readable(headrace.place.open(), PRODUCT)
    # Renewed every third of it: often enough that a run of some seconds comes to it.
    often = {"HEADRACE_LEASE_TTL_S": "3"} if point == "during-renewal" else {}
    end = headrace.run("audit", "--heal", HEADRACE_KILL_AT=point, **often)
    assert (end.code, end.said) == (-signal.SIGKILL, ""), end
    assert kept <= readable(headrace.place.open(), PRODUCT)


def heal(headrace: Headrace) -> Ended:
    """One normal healing, after which all is well."""
    end = headrace.run("audit", "--heal")
    assert end.code == 0, end
    headrace.truth.assert_complete(headrace.place, healed=True)
    return end


def test_a_healing_of_a_bucket_is_killed_as_it_repairs_and_as_it_fetches(
    tmp_path: Path, seaweed_url: str, site: Sites
) -> None:
    with exchange(TRADES, 0.02) as sim:
        headrace = site(sim, s3_place(seaweed_url, tmp_path))
        assert headrace.run("backfill").code == 0
        spoil(headrace.place.open(), PRODUCT)
        kill(headrace, "after-shortening")
        kill(headrace, "after-part:2")
        heal(headrace)


@pytest.mark.slow
@pytest.mark.parametrize("point", KILLS)
def test_killed_at_a_point_then_once_more(place: Place, point: str, site: Sites) -> None:
    with exchange(TRADES, 0.9 if point == "during-renewal" else 0.1) as sim:
        headrace = site(sim, place)
        assert headrace.run("backfill").code == 0
        spoil(place.open(), PRODUCT)
        kill(headrace, point)
        heal(headrace)
        sim.reset_log()
        found = headrace.run("audit", "--deep")
        assert (found.code, found.summary["requests"]) == (0, 1), found
        (product,) = found.summary["products"]
        assert product["status"] == Status.DONE.value
        assert set(product["kinds"]) <= {"set_aside"}


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_killed_at_random_moments_while_an_ingest_runs_and_the_product_grows(
    place: Place, site: Sites
) -> None:
    seed = random.randrange(1 << 32)
    print(f"dice of this run: random.Random({seed})")
    dice = random.Random(seed)
    met = 0
    with exchange(20_000, 0.1) as sim:
        headrace = site(sim, place)
        assert headrace.run("backfill").code == 0
        for number in range(15):
            sim.grow(PRODUCT, dice.randrange(500, 3_000))
            spoil_at_random(place.open(), PRODUCT, dice)
            kept = readable(place.open(), PRODUCT)
            sim.reset_log()
            beside = [headrace.start("ingest")] if dice.random() < 0.5 else []
            healing = headrace.start("audit", "--heal")
            # The audit's request is the first; how far it goes from there is left to chance.
            wait_until(partial(has_begun, sim, dice.randrange(1, 4 + 4 * len(beside)), healing))
            time.sleep(dice.uniform(0.0, dice.choice([0.3, 1.5])))
            victims = dice.choice([[healing], [healing, *beside]])
            for process in victims:
                process.kill()
            met += ended(healing).code == -signal.SIGKILL
            for process in beside:
                # It may have met a file that is half one, or the healing itself.
                assert ended(process).code in (-signal.SIGKILL, 0, 1, 3, 4), number
            assert kept <= readable(place.open(), PRODUCT), number

        heal(headrace)
        assert met >= 10, f"only {met} healings were at work when they were killed"


def has_begun(sim: SimulatedExchange, requests: int, healing: subprocess.Popen[str]) -> bool:
    """Whether so many requests have come, or the healing is over."""
    return requests_of(sim) >= requests or healing.poll() is not None


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before-checkpoint", "after-checkpoint"])
def test_a_rebuild_of_the_checkpoint_is_killed_then_once_more(
    tmp_path: Path, point: str, site: Sites
) -> None:
    with exchange(TRADES, 0.02) as sim:
        place = local_place(tmp_path)
        headrace = site(sim, place)
        assert headrace.run("backfill").code == 0
        rebuild = (HEADRACE, "checkpoint", "rebuild", PRODUCT, "--lake", place.location)
        forget = (HEADRACE, "checkpoint", "reset", PRODUCT, "--yes", "--lake", place.location)
        assert ended(headrace.start_command(*forget)).code == 0

        end = ended(headrace.start_command(*rebuild, HEADRACE_KILL_AT=point))
        assert end.code == -signal.SIGKILL, end
        assert headrace.server is not None
        saved = saved_checkpoint(
            headrace.server.api_url, open_lake(place.location).location, PRODUCT
        )
        assert (saved is not None) == (point == "after-checkpoint")

        assert ended(headrace.start_command(*rebuild)).code == 0
        headrace.truth.assert_complete(place)
