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

from headrace.audit.auditor import run_audit
from headrace.audit.parts import find_set_aside
from headrace.lake import RawLake
from headrace.lake.exceptions import PartUnreadable
from tests.lake_healer import FileCheckpoints
from tests.lake_samples import FETCHED_AT, SOURCE, trades
from tests.lake_writer import PRODUCT, open_raw
from tests.services_fixtures import BUCKET, seaweed_url

__all__ = ["seaweed_url"]

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
    """Every id that stands in a file under a part's name, as a reader of the files finds it."""
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
    return [raw.store.get(key) for key in (*keys, *find_set_aside(raw, PRODUCT))]


def assert_nothing_is_lost(raw: RawLake) -> None:
    assert readable(raw) == {*range(1, 2_001), *range(3_001, LAST_ID + 1)}
    assert copies(raw)
    assert set(copies(raw)) == {b"half of a file"}


def assert_well_but_for_the_gap(ward: Ward) -> None:
    raw = ward.raw
    found = run_audit(raw, PRODUCT, checkpoints=FileCheckpoints(ward.state), deep=True)
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


@pytest.mark.long
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
