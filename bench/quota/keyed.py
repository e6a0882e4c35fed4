"""Five API keys of 20/s at a server that counts arrivals in strict windows and wants rising nonces.

The server is a process on the same machine, as are the senders. Requests and answers are on their
way for 0 to 50 ms each, or with a heavy tail; or all wall clocks step by an hour every ten seconds.
A window that is stretched by all of 50 ms accepts 95.2/s.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from headrace.delivery.selftest import run_keyed_selftest
from headrace.quota import QuotaRate

RATE, KEYS = QuotaRate(20, 1000), 5
SECONDS, QUICK_SECONDS = 60.0, 10.0
EVEN = "uniform:low=0,high=0.05"
#: P99 of 300 ms.
HEAVY = "lognormal:p50=0.025,p95=0.145"
#: (delays, processes, step of the clocks in seconds, runs)
ROWS = (
    (EVEN, 1, 0.0, 5),
    (EVEN, 2, 0.0, 1),
    (EVEN, 4, 0.0, 1),
    (EVEN, 8, 0.0, 1),
    (EVEN, 1, 3600.0, 1),
    (HEAVY, 1, 0.0, 1),
)


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """A row for each run."""
    return [
        _row(delay, processes, step_s, QUICK_SECONDS if quick else SECONDS)
        for delay, processes, step_s, runs in ROWS
        for _ in range(1 if quick else runs)
    ]


def _row(delay: str, processes: int, step_s: float, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as scratch:
        found = run_keyed_selftest(
            Path(scratch), RATE, KEYS, processes, seconds, delay, clock_step_s=step_s
        )
    return {
        "delay each way": delay,
        "clocks step s": step_s,
        "processes": processes,
        "seconds": seconds,
        "successes/s": round(found.per_s, 1),
        "429": found.throttled,
        "400": found.nonces_refused,
        "blocked": found.blocked,
        "Jain": round(found.fairness, 4),
        "mean ms": found.mean_ms and round(found.mean_ms, 1),
        "p99 ms": found.p99_ms and round(found.p99_ms, 1),
    }
