"""The same backfill started five times at once, in three spellings: how soon the other four end.

No Prefect server is up, so the one that works has to start its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.machine import machine_state, save
from headrace.cli.exit_codes import Exit
from headrace.sim import SimulatedExchangeProcess, TokenBucket

SPELLINGS = ("btc-usd", "BTC-USD", "btc-usd", "BTC-USD", "Btc-Usd")
TRADES = 40_000
RATE = 10


def run(_arguments: Sequence[str]) -> dict[str, Any]:
    """Three rounds, each with an empty state and an empty lake."""
    with SimulatedExchangeProcess(
        f"BTC-USD:{TRADES}", limits=[TokenBucket(rate_per_s=RATE, burst=RATE)]
    ) as sim:
        rounds = [_round(sim.url) for _ in range(3)]
    for ends in rounds:
        print("exit code and seconds:", ", ".join(f"{code} {took_s:.1f}" for code, took_s in ends))
    slowest_s = max(took_s for ends in rounds for code, took_s in ends if code)
    print(f"the slowest of the others: {slowest_s:.1f} s")
    results = {"rounds": rounds, "slowest_s": round(slowest_s, 2), "machine": machine_state()}
    save("starts", results)
    return results


def _round(url: str) -> list[tuple[int, float]]:
    with tempfile.TemporaryDirectory() as scratch:

        def start(product: str) -> tuple[int, float]:
            command = [
                *(sys.executable, "-m", "headrace.cli.main", "backfill", product, "--json"),
                *(f"--base-url={url}", f"--rate={RATE}/s", f"--lake={Path(scratch) / 'lake'}"),
            ]
            environment = {**os.environ, "HEADRACE_HOME": str(Path(scratch) / "home")}
            began = time.monotonic()
            done = subprocess.run(command, env=environment, capture_output=True, check=False)
            return done.returncode, round(time.monotonic() - began, 2)

        with ThreadPoolExecutor(len(SPELLINGS)) as pool:
            ends = list(pool.map(start, SPELLINGS))
    if sorted(code for code, _ in ends) != [Exit.DONE] + [Exit.RUNNING_ELSEWHERE] * 4:
        raise SystemExit(f"one was to work and four to end with 3, but: {ends}")
    return ends
