"""Four scenarios that a limiter across processes should pass, and the price of one permit.

They are those of the limiter that this one replaces, at its 120 requests a minute, except that the
fairness one is paced (a burst of a whole minute at once cannot show fairness), and that the herd
is judged by wake-ups per permit: a spread of first permits rewards wasted time.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.quota.fleet import Want, run
from bench.quota.worker import LIMITERS
from headrace.quota.selftest import jain, percentile

SECOND = 1_000_000_000


def measure(limiter: str, *, quick: bool) -> dict[str, Any]:
    """Run all of them with one limiter."""
    return {
        "limiter": limiter,
        "throughput": _throughput(limiter, 5.0),
        "herd": _herd(limiter),
        "latency": _latency(limiter),
        **({"latency of the whole gate": _latency("gate")} if limiter == "headrace" else {}),
        "fairness": _fairness(limiter, 10.0 if quick else 60.0),
    }


def _throughput(limiter: str, seconds: float) -> dict[str, Any]:
    """Three greedy processes at 120/min: never more than the minute allows."""
    done = run(limiter, "120/m", [Want()] * 3, seconds)
    permits = len(done.all_grants)
    return {"permits": permits, "allowed": 120, "kept": permits <= 120}


def _herd(limiter: str) -> dict[str, Any]:
    """Eight processes that start at once on a quota that limits nothing."""
    done = run(limiter, "10000/m", [Want(pause_s=0.05)] * 8, 2.0)
    permits = len(done.all_grants)
    waits_ms = [wait / 1e6 for waits in done.waits for wait in waits]
    return {
        "permits": permits,
        "wakeups_per_permit": round(done.wakeups / permits - 1, 2),  # one is the caller's pause
        "wait_p99_ms": round(percentile(waits_ms, 0.99), 3),
        "wait_max_ms": round(max(waits_ms), 3),
    }


def _latency(limiter: str) -> dict[str, Any]:
    """One process alone: what a permit costs when no other process wants one."""
    with TemporaryDirectory(prefix="headrace-bench-") as folder:
        acquire = LIMITERS[limiter](Path(folder), "10000/m", "BACKFILL")
        took_ms = []
        began_cpu = time.process_time()
        for _ in range(1000):
            began = time.monotonic_ns()
            took_ms.append((acquire(5.0) - began) / 1e6)
        cpu_s = time.process_time() - began_cpu
    return {
        "p50_ms": round(percentile(took_ms, 0.5), 3),
        "p95_ms": round(percentile(took_ms, 0.95), 3),
        "p99_ms": round(percentile(took_ms, 0.99), 3),
        "cpu_ms_per_permit": round(cpu_s, 3),
    }


def _fairness(limiter: str, seconds: float) -> dict[str, Any]:
    """Two greedy processes and a patient one that wants two a second, at 1 per 500 ms as well.

    The patient one wants as much as there is, so a fair third is what it should get.
    """
    done = run(limiter, "1/500ms,120/m", [Want(), Want(), Want(pause_s=0.5)], seconds)
    counts = [len(grants) for grants in done.grants]
    return {"permits": counts, "jain": round(jain(counts), 3), "patient": counts[2]}
