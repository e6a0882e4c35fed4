"""A run that is stopped for longer than its lease lasts, is replaced, and wakes: no row twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
import pytest

WRITER = Path(__file__).parents[1] / "lake_puller.py"
LAST_ID = 20_000
TTL_S = 1.0
#: Where it stops: before a part has its name, in the moment of it, and within a merge.
POINTS = [
    "after-fetch:3",
    "during-part:5",
    "before-rename:5",
    "publish:3",
    "publish:7",
    "after-part:5",
    "after-merge:1",
    "during-merge-removal:2",
    "during-merge-removal:5",
    "before-checkpoint:2",
]
FEW_POINTS = ["before-rename:5", "publish:5", "during-merge-removal:2"]


@dataclass
class Lake:
    """A lake in a folder, and processes that pull into it."""

    folder: Path

    def start(self, *, ttl_s: float, stop_at: str = "") -> subprocess.Popen[str]:
        (self.folder / "state").mkdir(exist_ok=True)
        where = [str(self.folder / "lake"), str(self.folder / "state")]
        return subprocess.Popen(
            [sys.executable, str(WRITER), *where, str(ttl_s), str(LAST_ID)],
            env={**os.environ, "HEADRACE_KILL_AT": stop_at},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def succeed(self) -> str:
        """Let another run take over as soon as the lease allows it; what it says in the end."""
        while True:
            successor = self.start(ttl_s=60)
            said, errors = successor.communicate(timeout=100)
            if successor.returncode != 3:
                assert "Traceback" not in errors
                return said + errors

    def check(self) -> None:
        """A plain reader, which knows nothing of parts, sees every trade once."""
        folder = self.folder / "lake" / "raw" / "trades"
        ids = ds.dataset(folder, partitioning="hive").to_table(columns=["trade_id"])["trade_id"]
        assert sorted(ids.to_pylist()) == list(range(1, LAST_ID + 1))


def wake(holder: subprocess.Popen[str]) -> str:
    """Let it go on to its end; what it says in the end."""
    os.kill(holder.pid, signal.SIGCONT)
    said, errors = holder.communicate(timeout=100)
    assert holder.returncode == 0, errors
    assert "Traceback" not in errors
    return said


def check_stopped_at(folder: Path, point: str) -> None:
    lake = Lake(folder)
    holder = lake.start(ttl_s=TTL_S, stop_at=point)
    try:
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        said = lake.succeed()
        assert "Status.DONE" in said, said
        assert "lost the lease" in wake(holder)
    finally:
        holder.kill()
    lake.check()


@pytest.mark.parametrize(
    "point", [FEW_POINTS[0], *(pytest.param(p, marks=pytest.mark.long) for p in FEW_POINTS[1:])]
)
def test_a_run_that_lost_its_lease_while_it_was_stopped_leaves_nothing_twice(
    tmp_path: Path, point: str
) -> None:
    check_stopped_at(tmp_path, point)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_stopped_at_every_point(tmp_path: Path, point: str) -> None:
    check_stopped_at(tmp_path, point)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_stopped_at_random_moments(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lake = Lake(tmp_path)
    holder = lake.start(ttl_s=TTL_S)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "under way\n"
        time.sleep(chance.uniform(0.0, 0.6))
        os.kill(holder.pid, signal.SIGSTOP)
        if chance.random() < 0.5:
            said = lake.succeed()
            wake(holder)
            if "Status.DONE" not in said:
                # It was stopped in the middle of a write to the leases.
                assert f"locked by pid {holder.pid}, which is stopped" in said
                assert f"`kill -CONT {holder.pid}` wakes it" in said
                said = lake.succeed()
            assert "Status.DONE" in said, said
        else:
            # It wakes while its successor is at work, if it was stopped before its end at all.
            time.sleep(TTL_S + 0.1)
            successor = lake.start(ttl_s=60)
            time.sleep(chance.uniform(0.2, 2.0))
            wake(holder)
            successor.communicate(timeout=100)
            assert "Status.DONE" in lake.succeed()
    finally:
        holder.kill()
    lake.check()
