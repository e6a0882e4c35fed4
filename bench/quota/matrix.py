"""Processes by rates, with our slots and with the stock bucket.

Low rates cost next to no processor time and need minutes for two hundred permits per process, so
all of their rows run at once, those of both limiters. Rows of 100/s run side by side too, one
limiter after the other. How many ran beside a row says its `beside`. Ours run five times, for
medians; of the stock bucket one run shows what there is to see.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, NamedTuple

from bench.quota.fleet import Outcome, StallWatch, Want, run
from headrace.quota.selftest import excess, jain, used_share

SECOND = 1_000_000_000


class Row(NamedTuple):
    """One line of the matrix."""

    per_s: int
    processes: int
    threads: int = 1

    def __str__(self) -> str:
        return f"{self.processes} x {self.threads}"


SHAPES = [(1, 1), (3, 1), (8, 1), (16, 1), (1, 45)]


OURS = "headrace"
#: Hundreds of workers take their time to start.
_READY_S = 600.0
#: Fewer permits than this per process say little about fairness.
FAIR = 200


class Plan(NamedTuple):
    """Which rows run together, how often.

    Attributes:
        rows: run side by side.
        seconds: for how long at least,
        fair: and for each process's two hundred permits, if that takes longer.
        repeats: how often ours run; others run once.
        at_once: all of that, of both limiters, at the same time.
    """

    rows: list[Row]
    seconds: float
    fair: bool = True
    repeats: int = 1
    at_once: bool = False

    def lasts_s(self, row: Row) -> float:
        """For how long a row runs: what is needed, with three windows for start and end."""
        return max(self.seconds, FAIR * row.processes / row.per_s + 5 if self.fair else 0)


class Job(NamedTuple):
    """One run of one row."""

    limiter: str
    row: Row


def plans(*, quick: bool) -> list[Plan]:
    """The whole matrix; about a quarter of an hour, or one minute when quick."""
    low = [Row(rate, *shape) for rate in (10, 15) for shape in SHAPES]
    hundred = [Row(100, *shape) for shape in SHAPES]
    fast = [[Row(500, *shape)] for shape in SHAPES]
    if quick:
        return [Plan(rows, 6, fair=False) for rows in (low, hundred, *fast)]
    return [
        Plan(low, 60, repeats=5, at_once=True),
        Plan(hundred, 20, repeats=5),
        *(Plan(rows, 8, repeats=5) for rows in fast),
    ]


def measure(limiters: Sequence[str], *, quick: bool) -> list[dict[str, Any]]:
    """Run the matrix with each limiter."""
    results = []
    for plan in plans(quick=quick):
        batches = [
            [Job(limiter, row) for row in plan.rows]
            for limiter in limiters
            for _ in range(plan.repeats if limiter == OURS else 1)
        ]
        if plan.at_once:
            batches = [[job for batch in batches for job in batch]]
        outcomes: dict[Job, list[Outcome]] = {}
        for batch in batches:
            for job, outcome in zip(batch, _side_by_side(batch, plan), strict=True):
                outcomes.setdefault(job, []).append(outcome)
        beside = len(batches[0]) - 1
        results += [_result(job, runs, beside) for job, runs in outcomes.items()]
    return results


def _side_by_side(jobs: Sequence[Job], plan: Plan) -> list[Outcome]:
    def one(job: Job) -> Outcome:
        limiter, row = job
        wants = [Want(threads=row.threads)] * row.processes
        seconds = plan.lasts_s(row)
        return run(limiter, f"{row.per_s}/s", wants, seconds, ready=ready, watch=watch)

    watch = StallWatch()
    ready = Barrier(len(jobs), action=watch.forget, timeout=_READY_S)
    with watch, ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(one, jobs))


def _result(job: Job, outcomes: Sequence[Outcome], beside: int) -> dict[str, Any]:
    limiter, row = job
    everything = [outcome.all_grants for outcome in outcomes]
    over = [excess(grants, row.per_s, SECOND) for grants in everything]
    counts = [[len(grants) for grants in outcome.grants] for outcome in outcomes]
    permits = sum(map(len, everything))
    return {
        "limiter": limiter,
        "rate": f"{row.per_s}/s",
        "shape": str(row),
        "used_share": _median(used_share(grants, row.per_s, SECOND) for grants in everything),
        "over_limit_runs": sum(one.permits > 0 for one in over),
        "over_limit_permits": max(one.permits for one in over),
        "over_limit_early_ms": round(max(one.early_ms for one in over), 3),
        "stall_ms": round(max(outcome.stall_ms for outcome in outcomes), 1),
        "jain": _median(map(jain, counts)),
        "permits_per_process": round(statistics.median(sum(one) / len(one) for one in counts)),
        "cpu_ms_per_permit": round(sum(one.cpu_s for one in outcomes) / permits * 1e3, 3),
        "wakeups_per_permit": round(sum(one.wakeups for one in outcomes) / permits, 2),
        "runs": len(outcomes),
        "beside": beside,
    }


def _median(values: Iterable[float]) -> float | None:
    """The median of those that could be measured; None when the machine was too slow for any."""
    known = [value for value in values if not math.isnan(value)]
    return round(statistics.median(known), 4) if known else None
