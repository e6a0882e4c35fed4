"""Commands that are stopped (SIGSTOP) at any moment: those that share state with them go on or end.

Whatever was stopped, another command ends within a limit, without a traceback; if it fails, its
message names the stopped process, or says that what it asked for is under way elsewhere.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.sim.looker import SimulatedLooker
from tests.support.places import local_place
from tests.support.processes import HEADRACE, Ended, Headrace, ended
from tests.support.sites import exchange

pytestmark = [
    pytest.mark.flows,
    pytest.mark.services,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

#: Longer than the longest wait for a lock (120 s, for the managed server) and a run.
LIMIT_S = 240.0
#: A whole command takes some 5 to 10 s.
LAST_MOMENT_S = 8.0
SEEDS = range(3)


class Commands:
    """Command lines on one state folder, one lake, one vault, one log.

    Args:
        headrace: the command on that folder and lake.
        looker: the Looker that is extracted from.
    """

    def __init__(self, headrace: Headrace, looker: SimulatedLooker) -> None:
        self._headrace = headrace
        self._folder = headrace.place.scratch
        self._looker = looker
        stream = str(self._folder / "stream.frames")
        self.run(HEADRACE, "sot", "gen", stream, "--records", "200000")
        pull = (
            "--rate",
            "40/s",
            "--base-url",
            headrace.sim.url,
            "--lake",
            str(self._folder / "lake"),
        )
        lake = ("--lake", str(self._folder / "lake"))
        quota = ("--rate", "40/s", "--vault", str(self._folder / "vault.sqlite"))
        self.lines = {
            "backfill": (HEADRACE, "backfill", "BTC-USD", *pull),
            "ingest": (HEADRACE, "ingest", "BTC-USD", *pull),
            "audit": (HEADRACE, "audit", "BTC-USD", *lake),
            "up": (HEADRACE, "up"),
            "down": (HEADRACE, "down"),
            "status": (HEADRACE, "status"),
            "quota": (HEADRACE, "quota", "status"),
            "extract": (HEADRACE, "looker", "extract", "--base-url", looker.url, *quota),
            "write": (HEADRACE, "sot", "write", stream, "--store", str(self._folder / "log")),
        }

    def start(self, name: str) -> subprocess.Popen[str]:
        return self.start_line(self.lines[name])

    def start_line(self, line: tuple[str, ...]) -> subprocess.Popen[str]:
        return self._headrace.start_command(
            *line,
            HEADRACE_LEASE_TTL_S="10",
            LOOKERSDK_CLIENT_ID="simulated",
            LOOKERSDK_CLIENT_SECRET="simulated-secret",
        )

    def run(self, *line: str) -> Ended:
        return ended(self.start_line(line), LIMIT_S)


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    with exchange(100_000, 0.1) as sim, SimulatedLooker() as looker:
        headrace = Headrace(tmp_path / "home", sim, local_place(tmp_path))
        made = Commands(headrace, looker)
        try:
            yield made
        finally:
            made.run(HEADRACE, "down")


@contextmanager
def stopped(process: subprocess.Popen[str], after_s: float) -> Iterator[None]:
    """The process, not what it started, stopped after that time; killed at the end."""
    time.sleep(after_s)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        process.kill()
        process.communicate()


def check_other(commands: Commands, first: subprocess.Popen[str], name: str) -> str:
    """Run the other one to its end; what became of it."""
    other = ended(commands.start(name), LIMIT_S)
    said = other.said + other.errors
    if other.code == 0:
        return f"{name}: done"
    if other.code == 3:
        assert "already running" in said, said
        return f"{name}: already running"
    assert f"pid {first.pid}, which is stopped" in said, said
    assert f"`kill -CONT {first.pid}`" in said, said
    return f"{name}: {said.splitlines()[-1]}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("backfill", ["status", "quota", "ingest", "audit", "backfill"]),
        ("ingest", ["backfill", "ingest", "quota"]),
        ("audit", ["backfill", "audit"]),
        ("up", ["status", "backfill"]),
        ("quota", ["backfill"]),
        ("status", ["up"]),
        ("extract", ["extract", "quota", "backfill"]),
        ("write", ["write", "status"]),
    ],
)
def test_a_stopped_command_holds_up_no_other_without_a_limit(
    commands: Commands, name: str, others: list[str], seed: int
) -> None:
    after_s = random.Random(f"{name}-{seed}").uniform(0.1, LAST_MOMENT_S)
    first = commands.start(name)
    with stopped(first, after_s):
        print(f"{name} stopped after {after_s:.2f} s")
        for other in others:
            print(check_other(commands, first, other))
