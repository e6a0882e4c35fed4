"""A whole flow onto a disk that fills up: it ends in time, keeps what it had, and goes on later."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.server import RunningServer
from headrace.exchange.planning import plan_pages, whole_pages
from headrace.sim import SimulatedExchange
from tests.support.disks import enlarge, small_disk
from tests.support.places import Place
from tests.support.prefect_server import headrace_home, prefect_server
from tests.support.processes import PRODUCT, Headrace, requests_of

__all__ = ["headrace_home", "prefect_server", "small_disk"]

pytestmark = [pytest.mark.flows, pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(300)]

#: Twice what the disk takes.
TRADES = 80_000


def test_a_disk_that_fills_up_and_is_enlarged(
    small_disk: Path, tmp_path: Path, headrace_home: Path, prefect_server: RunningServer
) -> None:
    place = Place(str(small_disk / "lake"), tmp_path)
    with SimulatedExchange(f"{PRODUCT}:{TRADES}", seed=3) as sim:
        site = Headrace(headrace_home, sim, place, prefect_server)
        end = site.run()
        assert end.code == 4, end
        assert end.product["status"] == "partial"
        for word in ("No space left", str(small_disk), "Free some space"):
            assert word in end.product["error"]
        kept = site.truth.assert_sound(place)
        assert 0 < kept.count < TRADES
        assert [path.name for path in small_disk.rglob("*.tmp")] == []
        # It stopped when the disk was full, rather than spend the quota on what cannot be kept.
        assert requests_of(sim) < TRADES // 1_000

        enlarge(small_disk)
        missing = plan_pages(whole_pages(kept.gaps(1, TRADES), TRADES))
        sim.reset_log()
        end = site.run()
        assert end.code == 0, end
        assert requests_of(sim) <= missing + 3
        site.truth.assert_complete(place)
