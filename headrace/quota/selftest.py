"""How fast and how exact the quota is on this machine and this file system.

Statistics are made from the moments at which permits came, in nanoseconds.
"""

from __future__ import annotations

import multiprocessing
import secrets
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path
from typing import NamedTuple

from headrace.quota.config import QuotaConfig
from headrace.quota.exceptions import PermitTimeout
from headrace.quota.gate import Gate, open_gate
from headrace.quota.location import Place, QuotaServer
from headrace.quota.rates import QuotaRate
from headrace.quota.status import drop_quota, known_names, reset_quota

#: From so many moments of a window a stretch of time is begun.
_BEGINNINGS = 1000


class Excess(NamedTuple):
    """How far a limit was exceeded.

    Attributes:
        permits: the most above the limit in any window.
        early_ms: by how much the earliest permit came too early.
    """

    permits: int
    early_ms: float


def excess(grants: Sequence[int], limit: int, window_ns: int) -> Excess:
    """Check every window of a sorted sequence."""
    early = max(
        (window_ns - (b - a) for a, b in zip(grants, grants[limit:], strict=False)), default=0
    )
    most, first = 0, 0
    for index, moment in enumerate(grants):
        while moment - grants[first] >= window_ns:
            first += 1
        most = max(most, index - first + 1)
    return Excess(max(0, most - limit), max(0, early) / 1e6)


def used_share(grants: Sequence[int], limit: int, window_ns: int) -> float:
    """The share of the quota that was used, without the first two windows and the last.

    In the last one those who took permits have begun to stop. Permits come in groups, so how many
    lie in a stretch of time depends on where it begins: the mean over all beginnings within one
    window counts.
    """
    first, last = grants[0] + 2 * window_ns, grants[-1] - window_ns
    windows = (last - first) // window_ns - 1
    if windows < 1:
        return float("nan")
    length = windows * window_ns
    begins = range(first, first + window_ns, max(1, window_ns // _BEGINNINGS))
    seen = sum(bisect_left(grants, begin + length) - bisect_left(grants, begin) for begin in begins)
    return seen / (len(begins) * windows * limit)


def jain(counts: Sequence[int]) -> float:
    """Jain's index of fairness: 1 when all got the same, 1/n when one got everything.

    R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness", DEC TR-301, 1984.
    """
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else float("nan")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of all values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


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
    place: Place, rate: QuotaRate, processes: int = 3, seconds: float = 5.0
) -> SelfTest:
    """Measure a throw-away quota at `place`, so that its file system or server is measured."""
    with _scratch(place) as scratch:
        took_ms = _uncontended(scratch)
        grants = _contended(scratch, rate, processes, seconds)
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


class _Scratch(NamedTuple):
    """A place for throw-away quotas, and how their names begin."""

    place: Place
    prefix: str = ""

    def config(self, name: str, rate: QuotaRate) -> QuotaConfig:
        """One of them."""
        return QuotaConfig(name=self.prefix + name, rates=(rate,))


@contextmanager
def _scratch(place: Place) -> Iterator[_Scratch]:
    if not isinstance(place, QuotaServer):
        with tempfile.TemporaryDirectory(dir=place, prefix="selftest-") as folder:
            yield _Scratch(Path(folder))
        return
    scratch = _Scratch(place, f"selftest-{secrets.token_hex(4)}-")
    try:
        yield scratch
    finally:
        for name in known_names(place):
            if name.startswith(scratch.prefix):
                drop_quota(place, name)


def _open_new(scratch: _Scratch, config: QuotaConfig) -> Gate:
    """A quota of which no permit was ever given, whatever its server knows."""
    gate = open_gate(scratch.place, config)
    reset_quota(scratch.place, config.name, bookings=False)
    return gate


def _uncontended(scratch: _Scratch) -> list[float]:
    config = scratch.config("uncontended", QuotaRate(10_000, 60_000))
    took_ms = []
    with _open_new(scratch, config) as gate:
        for _ in range(_UNCONTENDED):
            began = time.perf_counter()
            with gate.admit() as admission:
                took_ms.append((time.perf_counter() - began) * 1e3)
                admission.failed(neutral=True)
    return took_ms


def _contended(
    scratch: _Scratch, rate: QuotaRate, processes: int, seconds: float
) -> list[list[int]]:
    context = multiprocessing.get_context("spawn")
    results: Queue[list[int]] = context.Queue()
    barrier = context.Barrier(processes)
    workers = [
        context.Process(target=_take_all, args=(scratch, rate, seconds, barrier, results))
        for _ in range(processes)
    ]
    with _open_new(scratch, scratch.config("contended", rate)):
        for worker in workers:
            worker.start()
        grants = [results.get(timeout=seconds + 60) for _ in workers]
        for worker in workers:
            worker.join()
    return grants


def _take_all(
    scratch: _Scratch, rate: QuotaRate, seconds: float, barrier: object, results: Queue[list[int]]
) -> None:
    grants: list[int] = []
    with open_gate(scratch.place, scratch.config("contended", rate)) as gate:
        barrier.wait()  # type: ignore[attr-defined]  # a proxy without a type of its own
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                gate.take(timeout_s=left)
            except PermitTimeout:
                break
            grants.append(time.monotonic_ns())
    results.put(grants)
