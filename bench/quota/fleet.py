"""Runs worker processes side by side and collects what they report."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: From telling the workers when to start until they start, in nanoseconds.
_TO_READ_IT = 200_000_000


@dataclass(frozen=True)
class Want:
    """What one worker does: `threads` threads that take a permit, pause, and take the next."""

    threads: int = 1
    pause_s: float = 0.0
    lane: str = "BACKFILL"


@dataclass
class Outcome:
    """What a fleet did; times are nanoseconds of the monotonic clock.

    Attributes:
        grants: per worker, when its permits came.
        waits: per worker, how long it waited for each.
        cpu_s: processor seconds of all workers.
        wakeups: voluntary context switches of all workers.
        stall_ms: by how much the machine woke an idle thread late, at the worst.
    """

    grants: list[list[int]]
    waits: list[list[int]]
    cpu_s: float
    wakeups: int
    stall_ms: float

    @property
    def all_grants(self) -> list[int]:
        """All permits in the order in which they came."""
        return sorted(moment for grants in self.grants for moment in grants)


@dataclass
class StallWatch:
    """A thread that sleeps a millisecond at a time and notes by how much it overslept."""

    worst_ms: float = 0.0
    _done: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> StallWatch:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def forget(self) -> None:
        """What was until now does not count: the workers were still starting."""
        self.worst_ms = 0.0

    def _watch(self) -> None:
        while not self._done.is_set():
            before = time.monotonic_ns()
            time.sleep(0.001)
            self.worst_ms = max(self.worst_ms, (time.monotonic_ns() - before) / 1e6 - 1)


def run(
    limiter: str,
    rates: str,
    wants: list[Want],
    seconds: float,
    *,
    ready: threading.Barrier | None = None,
    watch: StallWatch | None = None,
) -> Outcome:
    """Run one worker per want on a fresh quota for so many seconds, all starting at once.

    Args:
        limiter: which.
        rates: of the quota.
        wants: one worker each.
        seconds: for how long.
        ready: passed when all workers are ready, with other fleets that shall run beside this one.
        watch: of the stalls of all fleets; one is made for this one alone if there is none.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        workers = [_start(limiter, rates, want, folder) for want in wants]
        try:
            for worker in workers:
                _read(worker)  # it is ready
            if ready is not None:
                ready.wait()
            with nullcontext(watch) if watch else StallWatch() as watching:
                start = time.monotonic_ns() + _TO_READ_IT
                for worker in workers:
                    _tell(worker, f"{start} {start + int(seconds * 1e9)}")
                reports = [json.loads(_read(worker)) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()
    return Outcome(
        [report["grants"] for report in reports],
        [report["waits"] for report in reports],
        sum(report["cpu_s"] for report in reports),
        sum(report["wakeups"] for report in reports),
        watching.worst_ms,
    )


def _start(limiter: str, rates: str, want: Want, folder: str) -> subprocess.Popen[str]:
    task = {"limiter": limiter, "folder": folder, "rates": rates, **asdict(want)}
    return subprocess.Popen(
        [sys.executable, "-m", "bench.quota.worker", json.dumps(task)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _read(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise RuntimeError(f"a worker ended early ({worker.wait()}): {worker.args}")
    return line


def _tell(worker: subprocess.Popen[str], line: str) -> None:
    assert worker.stdin is not None
    worker.stdin.write(line + "\n")
    worker.stdin.flush()
