"""Whole flows under abuse: parts harmed in mid-run, runs frozen, leases not shared."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from headrace.cli.server import ManagedServer
from headrace.lake import open_lake
from headrace.sim import SimulatedExchange
from tests.services_fixtures import seaweed_url, settings_for
from tests.support.places import Place, local_place, s3_place
from tests.support.prefect_server import headrace_home, prefect_server
from tests.support.processes import PRODUCT, ended, requests_of, wait_until
from tests.support.sites import Sites, exchange, place, site
from tests.support.spoiling import HALF

__all__ = ["headrace_home", "place", "prefect_server", "seaweed_url", "site"]

pytestmark = [
    pytest.mark.flows,
    pytest.mark.services,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


def gone(place: Place, key: str) -> None:
    place.open().store.delete(key)


def cut(place: Place, key: str) -> None:
    store = place.open().store
    store.put(key, store.get(key)[:-200])


def empty(place: Place, key: str) -> None:
    place.open().store.put(key, b"")


def garbage(place: Place, key: str) -> None:
    place.open().store.put(key, HALF)


@pytest.mark.parametrize("harm", [gone, cut, empty, garbage])
def test_parts_harmed_under_a_run_cost_what_a_healing_brings_back(
    place: Place, site: Sites, harm: Callable[[Place, str], None]
) -> None:
    with exchange(24_300, 0.3) as sim:
        headrace = site(sim, place)
        process = headrace.start()
        wait_until(lambda: len(place.open().parts(PRODUCT).parts) >= 5, process)
        parts = place.open().parts(PRODUCT).parts
        for part in (parts[1], parts[-1]):
            harm(place, part.key)

        # Whether the run met them or passed them by: no traceback, and nothing claimed for good.
        end = ended(process)
        assert end.code in (0, 1, 4), end
        healed = headrace.run("audit", "--heal")
        assert healed.code == 0, healed
        headrace.truth.assert_complete(place, healed=True)


def test_a_run_frozen_beyond_its_lease_wakes_beside_its_successor(
    place: Place, site: Sites
) -> None:
    with exchange(40_300, 0.5) as sim:
        headrace = site(sim, place)
        short = {"HEADRACE_LEASE_TTL_S": "4"}
        frozen = headrace.start(**short)
        wait_until(lambda: requests_of(sim) > 8, frozen)
        frozen.send_signal(signal.SIGSTOP)
        try:
            time.sleep(5)
            successor = headrace.start(**short)
            before = requests_of(sim)
            wait_until(lambda: requests_of(sim) > before + 5, successor)
        finally:
            frozen.send_signal(signal.SIGCONT)
        late, end = ended(frozen), ended(successor)

        assert end.code == 0, end
        # It has lost its lease: what it had under way is harmless, and it says who has taken over.
        assert late.code in (1, 4), late
        assert "lease" in late.product["error"], late
        headrace.truth.assert_complete(place)


def test_runs_that_share_neither_leases_nor_checkpoints(
    place: Place, tmp_path: Path, site: Sites
) -> None:
    """Two users, or two machines without a common lease table, on one lake: work is done twice."""
    other_server = ManagedServer(tmp_path / "other-home")
    running = other_server.up()
    try:
        with exchange(24_300, 0.1) as sim:
            one = site(sim, place)
            other = replace(one, home=tmp_path / "other-home", server=running)
            for number in range(3):
                sim.grow(PRODUCT, 9_500)
                processes = [
                    each.start(flow) for each in (one, other) for flow in ("backfill", "ingest")
                ]
                wait_until(partial(has_taken, sim, requests_of(sim) + 12))
                processes[number].kill()
                for process in processes:
                    assert ended(process).code in (-signal.SIGKILL, 0, 1, 4)
                one.truth.assert_sound(place)

            for each in (one, other):
                end = each.run("backfill")
                assert end.code == 0, end
                each.truth.assert_complete(place)
    finally:
        other_server.down()


def has_taken(sim: SimulatedExchange, requests: int) -> bool:
    return requests_of(sim) > requests


def test_more_parts_than_a_page_of_a_listing(tmp_path: Path, seaweed_url: str, site: Sites) -> None:
    with exchange(1_100_000, 0.0, more=",density=0.01") as sim:
        place = s3_place(seaweed_url, tmp_path)
        # A cell per page: no merge makes fewer of them.
        open_lake(place.location, s3=settings_for(seaweed_url)).raw("coinbase", cell_pages=1)
        headrace = site(sim, place)
        end = headrace.run("backfill", "--chunk-concurrency", "16")
        assert end.code == 0, end
        listed = place.open().parts(PRODUCT).parts
        assert len(listed) > 1_000
        headrace.truth.assert_complete(place)

        gone(place, listed[3].key)
        gone(place, listed[-3].key)
        assert headrace.run("audit", "--workers", "1").code == 4
        sim.reset_log()
        assert headrace.run("audit", "--heal").code == 0
        assert requests_of(sim) <= 2 + 1 + 3
        headrace.truth.assert_complete(place)


def test_one_product_however_it_is_spelled(tmp_path: Path, site: Sites) -> None:
    with exchange(3_300, 0.0) as sim:
        place = local_place(tmp_path)
        headrace = site(sim, place)
        for flow, spelling in (
            ("backfill", "btc-usd"),
            ("ingest", "Btc-Usd"),
            ("audit", "bTC-usd"),
        ):
            sim.grow(PRODUCT, 700 if flow != "audit" else 0)
            options = ("--heal",) if flow == "audit" else ()
            end = headrace.run(flow, *options, product=spelling)
            assert end.code == 0, end
        headrace.truth.assert_complete(place)
        assert place.open().products() == [PRODUCT]
        # Small letters of other scripts fold to ASCII capitals: they are no spelling of it.
        for stranger in ("btc-uſd", "btc-usd ", "../BTC-USD", "BTC-USD\n", "ＢＴＣ-USD"):
            end = headrace.run("backfill", product=stranger)
            assert end.code == 2, end
        assert place.open().products() == [PRODUCT]
