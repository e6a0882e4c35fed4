"""How fast and how exact the quota is on this machine and this file system."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path

from headrace.quota.config import QuotaConfig
from headrace.quota.exceptions import PermitTimeout
from headrace.quota.gate import open_gate
from headrace.quota.rates import QuotaRate
from headrace.quota.statistics import excess, jain, percentile, used_share

_UNCONTENDED = 500


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What was measured.

    Attributes:
        p50_ms: half of the uncontended permits took no longer than this.
        p99_ms: nor 99 of 100 than this.
        permits: given in the contended part.
        over_limit: the most permits above the limit in any window; 0 is right.
        used_share: the used part of the quota, from the third window on; NaN in a short test.
        fairness: Jain's index over the processes; 1 is even.
    """

    p50_ms: float
    p99_ms: float
    permits: int
    over_limit: int
    used_share: float
    fairness: float


def run_selftest(
    folder: Path, rate: QuotaRate, processes: int = 3, seconds: float = 5.0
) -> SelfTest:
    """Measure a throw-away quota in `folder`, so that its file system is what is measured."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="selftest-") as scratch:
        took_ms = _uncontended(Path(scratch))
        grants = _contended(Path(scratch), rate, processes, seconds)
    everyone = sorted(moment for one in grants for moment in one)
    window = rate.interval_ms * 1_000_000
    return SelfTest(
        percentile(took_ms, 0.5),
        percentile(took_ms, 0.99),
        len(everyone),
        excess(everyone, rate.limit, window).permits,
        used_share(everyone, rate.limit, window),
        jain([len(one) for one in grants]),
    )


def _uncontended(folder: Path) -> list[float]:
    config = QuotaConfig(name="uncontended", rates=(QuotaRate(10_000, 60_000),))
    took_ms = []
    with open_gate(folder, config) as gate:
        for _ in range(_UNCONTENDED):
            began = time.perf_counter()
            with gate.admit() as admission:
                took_ms.append((time.perf_counter() - began) * 1e3)
                admission.failed(neutral=True)
    return took_ms


def _contended(folder: Path, rate: QuotaRate, processes: int, seconds: float) -> list[list[int]]:
    context = multiprocessing.get_context("spawn")
    results: Queue[list[int]] = context.Queue()
    barrier = context.Barrier(processes)
    workers = [
        context.Process(target=_take_all, args=(folder, rate, seconds, barrier, results))
        for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    grants = [results.get(timeout=seconds + 60) for _ in workers]
    for worker in workers:
        worker.join()
    return grants


def _take_all(
    folder: Path,
    rate: QuotaRate,
    seconds: float,
    barrier: object,
    results: Queue[list[int]],
) -> None:
    grants: list[int] = []
    with open_gate(folder, QuotaConfig(name="contended", rates=(rate,))) as gate:
        barrier.wait()  # type: ignore[attr-defined]  # a proxy without a type of its own
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                gate.take(timeout_s=left)
            except PermitTimeout:
                break
            grants.append(time.monotonic_ns())
    results.put(grants)
