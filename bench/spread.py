"""One product of two million trades without a quota: one run beside `--spread 4`.

Both through what `headrace up` serves, five chunks at once in each process, with answers of the
simulated exchange at once, after 50 ms and after 100 ms.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machine import machine_state, save
from headrace.sim import SimulatedExchangeProcess
from tests.support.served import Server, served

TRADES, PARTS = 2_000_000, 4
LATENCIES_S = (0.0, 0.05, 0.1)
_LIMIT_S = 1800.0


def run(arguments: Sequence[str]) -> dict[str, Any]:
    """Measure each latency; with `--quick`, a tenth of the trades."""
    trades = TRADES // 10 if "--quick" in arguments else TRADES
    before, rows = machine_state(), []
    for latency_s in LATENCIES_S:
        rows += _pair(trades, latency_s)
        for row in rows[-2:]:
            print(row)
    results = {
        "trades": trades,
        "rows": rows,
        "machine_before": before,
        "machine_after": machine_state(),
    }
    save("spread", results)
    return results


def _pair(trades: int, latency_s: float) -> list[dict[str, Any]]:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        SimulatedExchangeProcess(
            f"BTC-USD:{trades}", seed=1, latency=f"constant:s={latency_s}"
        ) as sim,
        served(Path(folder), sim.url) as server,
    ):
        server.up()
        rows = [
            _row(server, trades, latency_s, "one run"),
            _row(server, trades, latency_s, f"--spread {PARTS}", "--spread", str(PARTS)),
        ]
    if len({row.pop("digest") for row in rows}) != 1:
        raise RuntimeError("the two lakes differ")
    return rows


def _row(server: Server, trades: int, latency_s: float, name: str, *words: str) -> dict[str, Any]:
    lake = name.strip("-").replace(" ", "-")
    began = time.monotonic()
    said = server.command(
        *("backfill", "BTC-USD", "--lake", lake, "--chunk-concurrency", "5", "--json", *words),
        timeout_s=_LIMIT_S,
    )
    wall_s = time.monotonic() - began
    summary = json.loads(said.stdout)
    [product] = summary["products"]
    if product["new_rows"] != trades or product["watermark"] != trades:
        raise RuntimeError(f"{name}: not every trade was stored: {product}")
    audit = json.loads(server.command("audit", "--lake", lake, "--json", timeout_s=_LIMIT_S).stdout)
    parts_s = [each["elapsed_s"] for each in summary.get("parts") or ()]
    return {
        "latency_s": latency_s,
        "run": name,
        "wall_s": round(wall_s, 1),
        "slowest_part_s": round(max(parts_s), 1) if parts_s else "",
        "watermark": product["watermark"],
        "digest": audit["products"][0]["digest"],
    }
