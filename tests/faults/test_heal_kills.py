"""SIGKILL of healings at every point: no trade goes that was there, and the next one finishes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.audit.auditor import audited
from headrace.cli.server import RunningServer
from headrace.lake import RawLake
from headrace.lake.exceptions import PartUnreadable
from headrace.pull.receipts import Status
from headrace.sim import SimulatedExchange
from tests.lake_healer import FileCheckpoints
from tests.lake_samples import FETCHED_AT, SOURCE, trades
from tests.lake_writer import PRODUCT, open_raw
from tests.services_fixtures import BUCKET, seaweed_url
from tests.support.places import Place, local_place, s3_place
from tests.support.prefect_server import headrace_home, prefect_server
from tests.support.processes import Headrace
from tests.support.pulls import assert_lake_equals_source

__all__ = ["headrace_home", "prefect_server", "seaweed_url"]

HEALER = Path(__file__).parents[1] / "lake_healer.py"
ONE_AFTER_THE_OTHER = [
    "after-aside:1",
    "during-sweep:1",
    "after-shortening:1",
    "before-checkpoint",
    "after-checkpoint",
]
#: What `ailing` below gives a healing to do.
LAST_ID, DAMAGED = 4_000, (2_001, 2_500)


@dataclass
class Ward:
    """A lake that is ill, and the processes that heal it."""

    location: str
    state: Path
    endpoint: str | None = None

    @property
    def raw(self) -> RawLake:
        return open_raw(self.location, self.endpoint)

    def heal(self, kill_at: str = "") -> subprocess.CompletedProcess[str]:
        self.state.mkdir(exist_ok=True)
        command = [sys.executable, str(HEALER), self.location, str(self.state)]
        end = subprocess.run(
            [*command, self.endpoint] if self.endpoint else command,
            env={**os.environ, "HEADRACE_KILL_AT": kill_at},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert "Error" not in end.stderr, end
        return end


@pytest.fixture(params=["local", pytest.param("seaweed", marks=pytest.mark.services)])
def ward(request: pytest.FixtureRequest, tmp_path: Path) -> Ward:
    if request.param == "local":
        return Ward(str(tmp_path / "lake"), tmp_path / "state")
    url = request.getfixturevalue("seaweed_url")
    return Ward(f"s3://{BUCKET}/heals/{uuid4().hex}", tmp_path / "state", url)


def keep(raw: RawLake, lo: int, hi: int) -> str:
    rows = trades(range(lo, hi + 1))
    return raw.write(PRODUCT, lo, hi, rows, source=SOURCE, fetched_at=FETCHED_AT).part.key


def ailing(raw: RawLake) -> None:
    """Two left-overs, an overlap, half a file, a gap, and no checkpoint."""
    for lo, hi in ((1, 250), (251, 500), (1, 1_000), (751, 1_500), (1_501, 2_000)):
        keep(raw, lo, hi)
    raw.store.put(keep(raw, *DAMAGED), b"half of a file")
    keep(raw, 3_001, LAST_ID)


def readable(raw: RawLake) -> set[int]:
    """Every id that stands in a file under a part's name, by whoever reads the files."""
    listing = raw.parts(PRODUCT)
    found: set[int] = set()
    for part in (*listing.parts, *listing.hidden):
        try:
            found.update(raw.read_part(part)[0].column("trade_id").to_pylist())
        except PartUnreadable:
            assert (part.lo, part.hi) == DAMAGED
    return found


def copies(raw: RawLake) -> list[bytes]:
    """What stands in the lake of the damaged file: under its name, aside, or both."""
    listing = raw.parts(PRODUCT)
    keys = [part.key for part in listing.parts if (part.lo, part.hi) == DAMAGED]
    return [raw.store.get(key) for key in (*keys, *listing.foreign)]


def assert_nothing_is_lost(raw: RawLake) -> None:
    assert readable(raw) == {*range(1, 2_001), *range(3_001, LAST_ID + 1)}
    assert copies(raw)
    assert set(copies(raw)) == {b"half of a file"}


def assert_well_but_for_the_gap(ward: Ward) -> None:
    raw = ward.raw
    found = audited(raw, PRODUCT, checkpoints=FileCheckpoints(ward.state), deep=True)
    assert sorted(finding.kind.value for finding in found.findings) == ["missing", "set_aside"]
    assert found.counted.missing.ranges == ((2_001, 3_000),)
    names = [part.name for part in raw.parts(PRODUCT).parts]
    assert [(name.lo, name.hi) for name in names] == [
        (1, 1_000),
        (1_001, 1_500),
        (1_501, 2_000),
        (3_001, LAST_ID),
    ]
    keep(raw, 2_001, 3_000)
    assert raw.read(PRODUCT).equals(trades(range(1, LAST_ID + 1)))


def test_killed_again_and_again(ward: Ward) -> None:
    ailing(ward.raw)
    for point in ONE_AFTER_THE_OTHER:
        assert ward.heal(point).returncode == -signal.SIGKILL, point
        assert_nothing_is_lost(ward.raw)

    assert ward.heal().returncode == 0
    assert ward.heal().stdout == ""
    assert_well_but_for_the_gap(ward)


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "after-aside:1",
        "during-sweep:1",
        "during-sweep:2",
        "after-part:1",
        "after-shortening:1",
        "before-checkpoint",
        "after-checkpoint",
    ],
)
def test_killed_at_a_point_then_one_normal_healing(ward: Ward, point: str) -> None:
    ailing(ward.raw)
    assert ward.heal(point).returncode == -signal.SIGKILL
    assert_nothing_is_lost(ward.raw)
    assert ward.heal().returncode == 0
    assert_well_but_for_the_gap(ward)


#: Of the whole command: the repair, then the fetch of what it found and made missing.
KILLS = [
    "after-aside",
    "during-sweep",
    "after-shortening",
    "before-checkpoint:1",
    "after-checkpoint:1",
    "after-fetch:1",
    "after-part:2",
    "before-checkpoint:2",
    "after-checkpoint:2",
    "during-renewal",
]
TRADES = 9_300


@pytest.fixture(params=["local", "seaweed"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        return local_place(tmp_path)
    return s3_place(request.getfixturevalue("seaweed_url"), tmp_path)


@pytest.mark.slow
@pytest.mark.flows
@pytest.mark.services
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", KILLS)
def test_the_command_killed_at_a_point_then_once_more(
    place: Place, point: str, headrace_home: Path, prefect_server: RunningServer
) -> None:
    spec, latency = f"{PRODUCT}:{TRADES}", "constant:s=0.3"
    with SimulatedExchange(spec, seed=3, latency=latency) as sim:
        site = Headrace(headrace_home, sim, place, prefect_server)
        assert site.run("backfill").code == 0
        spoil(place.open())
        # Renewed every third of it: often enough that a short run comes to it.
        often = {"HEADRACE_LEASE_TTL_S": "1.5"} if point == "during-renewal" else {}
        end = site.run("audit", "--heal", HEADRACE_KILL_AT=point, **often)
        assert (end.code, end.said) == (-signal.SIGKILL, ""), end
        assert set(range(4_001, TRADES + 1)) <= readable_of(place.open())

        end = site.run("audit", "--heal")
        assert end.code == 0, end
        assert_lake_equals_source(place.copy(), sim, PRODUCT)
        sim.reset_log()
        found = site.run("audit", "--deep")
        assert (found.code, found.summary["requests"]) == (0, 1), found
        (product,) = found.summary["products"]
        assert product["status"] == Status.DONE.value
        assert set(product["kinds"]) <= {"set_aside"}


def spoil(raw: RawLake) -> None:
    """1 to 3,000 gone, 3,001 to 4,000 half a file, the rest with left-overs and an overlap."""

    def store(lo: int, hi: int) -> str:
        rows = raw.read(PRODUCT, lo, hi)
        kept = raw.write(PRODUCT, lo, hi, rows, source="localhost", fetched_at=FETCHED_AT)
        return kept.part.key

    damaged = store(3_001, 4_000)
    later = [store(lo, hi) for lo, hi in ((4_001, 6_000), (5_501, 8_000), (4_001, 5_000))]
    for part in raw.parts(PRODUCT).parts:
        if part.lo <= 8_000 and part.key not in (damaged, *later):
            raw.store.delete(part.key)
    raw.store.put(damaged, b"half of a file")


def readable_of(raw: RawLake) -> set[int]:
    listing = raw.parts(PRODUCT)
    found: set[int] = set()
    for part in (*listing.parts, *listing.hidden):
        try:
            found.update(raw.read_part(part)[0].column("trade_id").to_pylist())
        except PartUnreadable:
            assert (part.lo, part.hi) == (3_001, 4_000)
    return found
