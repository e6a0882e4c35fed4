"""SIGKILL at every point of a write and a merge, and at random: nothing lost, nothing doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.lake import RawLake
from tests.lake_samples import trades
from tests.lake_writer import PRODUCT, open_raw
from tests.services_fixtures import BUCKET, seaweed_url

__all__ = ["seaweed_url"]

WRITER = Path(__file__).parents[1] / "lake_writer.py"
#: In the order in which one lake meets them; the ninth part is the first merged one.
FEW_POINTS = ["during-merge-removal:3"]
IN_ANY_STORE = ["after-part:2", "after-part:9", "after-merge", "during-merge-removal:3"]
IN_A_FOLDER = ["during-part:3", "before-rename:1", "before-rename:4"]


@dataclass
class Target:
    """A lake that processes of their own fill."""

    location: str
    endpoint: str | None = None

    def start(self, last_id: int, kill_at: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, str(WRITER), self.location, str(last_id)]
        return subprocess.Popen(
            [*command, self.endpoint] if self.endpoint else command,
            env={**os.environ, "HEADRACE_KILL_AT": kill_at},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, last_id: int, kill_at: str = "") -> int:
        process = self.start(last_id, kill_at)
        _, errors = process.communicate(timeout=100)
        assert "Traceback" not in errors, errors
        return process.returncode

    def open(self) -> RawLake:
        return open_raw(self.location, self.endpoint)


@pytest.fixture(params=["local", pytest.param("seaweed", marks=pytest.mark.services)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    if request.param == "local":
        return Target(str(tmp_path / "lake"))
    url = request.getfixturevalue("seaweed_url")
    return Target(f"s3://{BUCKET}/kills/{uuid4().hex}", url)


def check_what_is_there(raw: RawLake) -> None:
    """Whatever happened: every name holds a whole part, and readers see each trade once."""
    listing = raw.parts(PRODUCT)
    assert listing.foreign == listing.overlaps == ()
    for part in (*listing.parts, *listing.hidden):
        raw.verify(part)
    expected = [n for lo, hi in listing.coverage for n in range(lo, hi + 1)]
    assert raw.read(PRODUCT).equals(trades(expected))


def check_all_is_there(target: Target, last_id: int) -> None:
    raw = target.open()
    listing = raw.parts(PRODUCT)
    assert raw.read(PRODUCT).equals(trades(range(1, last_id + 1)))
    assert [part.hi - part.lo + 1 for part in listing.parts] == [2_000] * (last_id // 2_000)
    assert listing.hidden == listing.foreign == ()
    if target.endpoint is None:
        strange = [p for p in Path(target.location).rglob("*") if p.name.endswith(".tmp")]
        assert strange == []


@pytest.mark.parametrize("often", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_killed_at_named_points(target: Target, often: bool) -> None:
    last_id = 8_000 if often else 2_000
    points = IN_ANY_STORE if often else FEW_POINTS
    if target.endpoint is None:
        points = (IN_A_FOLDER if often else IN_A_FOLDER[:1]) + points
    for point in points:
        assert target.run(last_id, point) == -signal.SIGKILL, point
        check_what_is_there(target.open())

    assert target.run(last_id) == 0
    check_all_is_there(target, last_id)


@pytest.mark.slow
def test_killed_at_thirty_random_moments(target: Target) -> None:
    last_id = 200_000
    dice = random.Random(7)
    for _ in range(30):
        process = target.start(last_id)
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        time.sleep(dice.uniform(0.0, 0.4))
        process.kill()
        process.communicate(timeout=30)
        check_what_is_there(target.open())

    rest = target.open().coverage(PRODUCT).count // 2_000 * 2_000 + 2_000
    assert target.run(rest) == 0
    check_all_is_there(target, rest)


def test_a_kill_point_that_does_not_exist_is_a_clear_error(tmp_path: Path) -> None:
    process = Target(str(tmp_path)).start(2_000, "after-prat:1")
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "names no kill point" in errors
    assert "after-part" in errors


@pytest.mark.slow
def test_of_processes_that_fill_one_lake_at_once_none_does_harm(tmp_path: Path) -> None:
    target = Target(str(tmp_path / "lake"))
    processes = [target.start(2_000) for _ in range(2)]
    for process in processes:
        process.communicate(timeout=60)

    check_what_is_there(target.open())
    assert target.run(2_000) == 0
    check_all_is_there(target, 2_000)
