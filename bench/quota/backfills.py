"""Eight backfills at once on one quota: what the exchange sees of all of them together.

Whole `headrace backfill` processes, each with a product of its own, one state folder, one quota,
answers after 3 s (P50) to 5 s (P95). What counts is the time in which all of them want permits:
from the moment at which the last of them has begun to the one at which the first of them has sent
its last request. The exchange would refuse what exceeds its token bucket.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from headrace.cli.server import managed_api
from headrace.sim import SimulatedExchangeProcess, TokenBucket
from headrace.sim.arrivals import Arrival, most_in_window

RATE = 15
LATENCY = "lognormal:p50=3,p95=5"
SEED = 17
BACKFILLS, POOL = 8, 12
PAGES, QUICK_PAGES = 150, 40


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """One row: requests of all against the quota, and how evenly they were given."""
    pages = QUICK_PAGES if quick else PAGES
    products = [f"P{number}-USD" for number in range(BACKFILLS)]
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as scratch,
        SimulatedExchangeProcess(
            *(f"{product}:{pages * 1000}" for product in products),
            seed=SEED,
            latency=LATENCY,
            limits=[TokenBucket(rate_per_s=RATE, burst=RATE)],
        ) as sim,
    ):
        summaries = _backfilled(products, sim.url, Path(scratch))
        arrivals = sim.arrivals()
    bad = [summary for summary in summaries if summary["status"] != "done"]
    if bad:
        raise SystemExit(f"a backfill is {bad[0]['status']}: {bad[0]}")
    return [_row(arrivals, summaries)]


def _backfilled(products: list[str], url: str, scratch: Path) -> list[dict[str, Any]]:
    home = scratch / "home"
    environment = {**os.environ, "HEADRACE_HOME": str(home)}
    with managed_api(home):
        running = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "headrace.cli.main", "backfill", product, "--json"),
                    *(f"--base-url={url}", f"--rate={RATE}/s", f"--lake={scratch / 'lake'}"),
                    *("--workers=1", f"--chunk-concurrency={POOL}"),
                ],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            for product in products
        ]
        try:
            said = [process.communicate(timeout=900)[0] for process in running]
        finally:
            for process in running:
                process.kill()
                process.wait()
    return [json.loads(text) for text in said]


def _row(arrivals: list[Arrival], summaries: list[dict[str, Any]]) -> dict[str, Any]:
    moments: dict[str, list[float]] = {}
    for arrival in arrivals:
        if arrival.subject.product:
            moments.setdefault(arrival.subject.product, []).append(arrival.arrived_s)
    begin, end = max(map(min, moments.values())), min(map(max, moments.values()))
    wanted = [each for each in arrivals if begin <= each.arrived_s < end]
    shares = Counter(each.subject.product for each in wanted).values()
    seen_s = end - begin
    return {
        "backfills": len(summaries),
        "quota": f"{RATE}/s",
        "all wanting s": round(seen_s, 1),
        "requests": len(wanted),
        "of the quota": round(len(wanted) / (RATE * seen_s), 4),
        "429": sum(each.status == 429 for each in arrivals),
        "most in 1 s": most_in_window([each.arrived_s for each in arrivals], 1.0),
        "Jain": round(sum(shares) ** 2 / (len(shares) * sum(n * n for n in shares)), 4),
        "requests in all": sum(summary["requests"] for summary in summaries),
        "pages in all": sum(p["pages"] for s in summaries for p in s["products"]),
    }
