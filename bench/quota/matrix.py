"""Processes by rates, our slots and the stock bucket in turn.

Low rates cost next to no processor time and need minutes for two hundred permits per process, so
their rows run side by side, and all five runs of them at once; rows of 100/s run side by side too,
each on a quota of its own. How many ran beside a row says its `beside`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from bench.quota.fleet import Outcome, Want, run
from headrace.quota.measures import excess, jain, used_share

SECOND = 1_000_000_000


class Row(NamedTuple):
    """One line of the matrix."""

    per_s: int
    processes: int
    threads: int = 1

    def __str__(self) -> str:
        return f"{self.processes} x {self.threads}"


SHAPES = [(1, 1), (3, 1), (8, 1), (16, 1), (1, 45)]


#: Fewer permits than this per process say little about fairness.
FAIR = 200


class Plan(NamedTuple):
    """Which rows run together, how often.

    Attributes:
        rows: run side by side.
        seconds: for how long at least,
        fair: and for each process's two hundred permits, if that takes longer.
        repeats: how often one after the other,
        at_once: and how often side by side.
    """

    rows: list[Row]
    seconds: float
    fair: bool = True
    repeats: int = 1
    at_once: int = 1

    def lasts_s(self, row: Row) -> float:
        """For how long a row runs: what is needed, with three windows for start and end."""
        return max(self.seconds, FAIR * row.processes / row.per_s + 5 if self.fair else 0)


def plans(*, quick: bool) -> list[Plan]:
    """The whole matrix; about ten minutes for one limiter, or half of one when quick."""
    low = [Row(rate, *shape) for rate in (10, 15) for shape in SHAPES]
    hundred = [Row(100, *shape) for shape in SHAPES]
    fast = [[Row(500, *shape)] for shape in SHAPES]
    if quick:
        return [Plan(rows, 6, fair=False) for rows in (low, hundred, *fast)]
    return [
        Plan(low, 60, at_once=5),
        Plan(hundred, 20, repeats=5),
        *(Plan(rows, 8, repeats=5) for rows in fast),
    ]


def measure(limiter: str, *, quick: bool) -> list[dict[str, Any]]:
    """Run the matrix with one limiter."""
    results = []
    for plan in plans(quick=quick):
        runs = [one for _ in range(plan.repeats) for one in _side_by_side(limiter, plan)]
        for row in plan.rows:
            outcomes = [outcome for measured, outcome in runs if measured == row]
            results.append(_result(limiter, row, outcomes, plan))
    return results


def _side_by_side(limiter: str, plan: Plan) -> list[tuple[Row, Outcome]]:
    def one(row: Row) -> tuple[Row, Outcome]:
        wants = [Want(threads=row.threads)] * row.processes
        return row, run(limiter, f"{row.per_s}/s", wants, plan.lasts_s(row))

    rows = plan.rows * plan.at_once
    with ThreadPoolExecutor(len(rows)) as pool:
        return list(pool.map(one, rows))


def _result(limiter: str, row: Row, outcomes: Sequence[Outcome], plan: Plan) -> dict[str, Any]:
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
        "beside": len(plan.rows) * plan.at_once - 1,
    }


def _median(values: Iterable[float]) -> float | None:
    """The median of those that could be measured; None when the machine was too slow for any."""
    known = [value for value in values if not math.isnan(value)]
    return round(statistics.median(known), 4) if known else None
