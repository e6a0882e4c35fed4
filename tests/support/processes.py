"""`headrace backfill` and `ingest` as processes of their own, to be killed and started twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.cli.server import RunningServer
from headrace.sim import SimulatedExchange
from tests.support.places import Place, Truth

HEADRACE = str(Path(sys.executable).with_name("headrace"))
COMMAND = (HEADRACE, "{flow}")
MODULE = (sys.executable, "-m", "flows.{flow}")
PRODUCT = "BTC-USD"

#: A page per chunk, so that a short run has many parts, and pieces to merge.
SMALL_CHUNKS = ("--pages-per-chunk", "1", "--chunk-concurrency", "3")

#: What of a developer's environment would change how the command works.
_FOREIGN = ("PREFECT_", "HEADRACE_", "AWS_")


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code (negative: a signal), and what it said."""

    code: int
    said: str
    errors: str

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary, which must be all of stdout."""
        summary: dict[str, Any] = json.loads(self.said)
        return summary

    @property
    def product(self) -> dict[str, Any]:
        """The summary's only product."""
        (product,) = self.summary["products"]
        return dict(product)


@dataclass(frozen=True)
class Headrace:
    """The command line on one lake and one exchange.

    Args:
        home: `HEADRACE_HOME`.
        sim: the exchange.
        place: the lake.
        server: the Prefect server of `home`, where the test keeps one.
        environment: variables for every process, on top of those that the lake needs.
    """

    home: Path
    sim: SimulatedExchange
    place: Place
    server: RunningServer | None = None
    environment: Mapping[str, str] | None = None

    @property
    def truth(self) -> Truth:
        """What the lake is held against."""
        assert self.server is not None
        return Truth(self.sim, self.server.api_url, PRODUCT)

    def start(
        self,
        flow: str = "backfill",
        *options: str,
        product: str = PRODUCT,
        lake: str = "",
        command: Sequence[str] = COMMAND,
        **environment: str,
    ) -> subprocess.Popen[str]:
        """Start a flow; keyword arguments are variables of its environment."""
        return self.start_command(
            *(word.format(flow=flow) for word in command),
            *(product, "--json", "--rate", "none"),
            *("--base-url", self.sim.url, "--lake", lake or self.place.location),
            *(("--first-ingest-hours", "0") if flow == "ingest" else ()),
            *(options or SMALL_CHUNKS),
            **environment,
        )

    def start_command(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command line as it is, with what it has to find in its environment."""
        own = {name: text for name, text in os.environ.items() if not name.startswith(_FOREIGN)}
        return subprocess.Popen(
            words,
            env={
                **own,
                "HEADRACE_HOME": str(self.home),
                "AWS_EC2_METADATA_DISABLED": "true",
                **self.place.environment,
                **(self.environment or {}),
                **environment,
            },
            cwd=self.place.scratch,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, flow: str = "backfill", *options: str, **settings: Any) -> Ended:
        """Start a flow and wait for its end."""
        return ended(self.start(flow, *options, **settings))


def ended(process: subprocess.Popen[str], timeout_s: float = 150.0) -> Ended:
    """Wait for a process; a traceback is a bug whatever became of it."""
    try:
        said, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        _, errors = process.communicate()
        raise AssertionError(f"no end within {timeout_s:g} s: {errors[-2000:]}") from None
    assert "Traceback" not in errors, errors
    return Ended(process.returncode, said, errors)


def wait_until(
    true: Callable[[], bool], *processes: subprocess.Popen[str], timeout_s: float = 90.0
) -> None:
    """Wait for something to happen while all of these processes live."""
    deadline = time.monotonic() + timeout_s
    while not true():
        for process in processes:
            if process.poll() is not None:
                raise AssertionError(f"ended too early: {ended(process)}")
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def requests_of(sim: SimulatedExchange) -> int:
    """How many requests have arrived since the log was last reset."""
    return int(sim.stats()["requests"])
