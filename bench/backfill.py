"""The backfill against the least time that any client could take, and its cost beside a script.

`quota`: pages at 15 requests/s with log-normal latency (P50 3 s, P95 5 s), for several pools; wall
time against a discrete-event ideal with the same seed, pools and latencies, drain included: of the
pages alone, and with the one question per product (how far does it go?) that comes before them.
`cost`: a million trades with the quota lifted; CPU and memory of the bare library and of the flow,
beside a plain script.
`usual`: the command as it is typed, with its default pools and the quota lifted, beside the plain
script on the same products; what each process took is what the kernel says at its end (`wait4`).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.ideal import ideal_s
from bench.machine import machine_state, save
from headrace.cli.server import managed_api
from headrace.sim import LatencySource, SimulatedExchangeProcess, TokenBucket, parse_latency

RATE = 15
LATENCY = "lognormal:p50=3,p95=5"
SEED = 17
#: (products, places per product, pages per product, runs, of which the median counts)
POOLS = ((1, 1, 24, 1), (1, 6, 150, 1), (2, 6, 150, 1), (5, 9, 270, 1), (5, 12, 270, 3))

#: (products, trades each, options) of the command as it is typed.
USUAL: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (5, 500_000, ()),
    (1, 5_000_000, ()),
    (10, 250_000, ("--workers=10", "--chunk-concurrency=20")),
)
_COMMAND = "from headrace.cli.entry import main; main()"


def run(arguments: Sequence[str]) -> dict[str, Any]:
    """All parts, or those named in the arguments."""
    parts = {"quota": _quota, "cost": _cost, "usual": _usual}
    chosen = [name for name in arguments if name in parts] or list(parts)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        os.environ["HEADRACE_HOME"] = str(home)
        with managed_api(home):
            results = {name: parts[name](Path(scratch)) for name in chosen}
    results["machine"] = machine_state()
    for name in chosen:
        save(f"backfill-{name}", {name: results[name], "machine": results["machine"]})
    return results


def _quota(scratch: Path) -> list[dict[str, Any]]:
    rows = []
    print(
        "pools    pages   pages s   ideal s   flow s   /pages   /ideal   process s   429s   req/s"
    )
    for products, pool, pages, runs in POOLS:
        found = [_quota_row(scratch / str(run), products, pool, pages) for run in range(runs)]
        row = sorted(found, key=lambda each: each["flow_s"])[runs // 2]
        row["flow_s_of_all"] = [each["flow_s"] for each in found]
        rows.append(row)
        print(
            f"{products} x {pool:<4} {products * pages:>5} {row['ideal_of_pages_s']:>9.1f} "
            f"{row['ideal_s']:>9.1f} {row['flow_s']:>8.1f} {row['ratio_to_pages']:>8.3f} "
            f"{row['ratio']:>8.3f} {row['process_s']:>11.1f} {row['throttled']:>6} "
            f"{row['requests_per_s']:>7.2f}",
            flush=True,
        )
    return rows


def _quota_row(scratch: Path, products: int, pool: int, pages: int) -> dict[str, Any]:
    names = [f"P{number}-USD" for number in range(products)]
    latency = LatencySource(parse_latency(LATENCY), SEED)
    bare, ideal = (
        ideal_s(
            [pages] * products,
            pool,
            limit=RATE,
            window_s=1.0,
            delay_s=latency.delay_s,
            asks_first=asks_first,
        )
        for asks_first in (False, True)
    )
    with SimulatedExchangeProcess(
        *(f"{name}:{pages * 1000}" for name in names),
        seed=SEED,
        latency=LATENCY,
        limits=[TokenBucket(rate_per_s=RATE, burst=RATE)],
    ) as sim:
        began = time.monotonic()
        summary = headrace(
            *names,
            f"--workers={products}",
            f"--chunk-concurrency={pool}",
            f"--rate={RATE}/s",
            f"--base-url={sim.url}",
            f"--lake={scratch / f'lake-{products}-{pool}'}",
        )
        process_s = time.monotonic() - began
    if summary["status"] != "done":
        raise SystemExit(f"the run is {summary['status']}: {summary}")
    return {
        "products": products,
        "pool": pool,
        "pages": products * pages,
        "ideal_of_pages_s": round(bare, 2),
        "ideal_s": round(ideal, 2),
        "flow_s": summary["elapsed_s"],
        "process_s": round(process_s, 2),
        "ratio": round(summary["elapsed_s"] / ideal, 4),
        "ratio_to_pages": round(summary["elapsed_s"] / bare, 4),
        "requests": summary["requests"],
        "throttled": summary["throttled"],
        "requests_per_s": round(summary["requests"] / summary["elapsed_s"], 2),
    }


def _cost(scratch: Path, trades: int = 1_000_000, rounds: int = 5) -> dict[str, Any]:
    measured: dict[str, list[dict[str, Any]]] = {"library": [], "flow": [], "script": []}
    with SimulatedExchangeProcess(f"BTC-USD:{trades}", seed=SEED) as sim:
        arguments = [sim.url, "BTC-USD", str(trades)]
        for round_ in range(rounds):
            for name, module in (
                ("library", "bench.bare_library"),
                ("flow", "bench.flow_cost"),
                ("script", "bench.plain_script"),
            ):
                folder = scratch / f"{name}-{round_}"
                measured[name].append(_json_of([module, *arguments, str(folder)]))
    medians = {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for name, runs in measured.items()
    }
    print("               CPU s   wall s   peak MB")
    for name, figures in medians.items():
        print(
            f"{name:<12} {figures['cpu_s']:>7.2f} {figures['wall_s']:>8.2f} "
            f"{figures['peak_mb']:>9.0f}"
        )
    share = medians["library"]["cpu_s"] / medians["script"]["cpu_s"]
    print(f"library / script: {share:.2f} of the CPU")
    return {"trades": trades, "medians": medians, "library_share": round(share, 3)}


def _usual(scratch: Path, rounds: int = 3) -> list[dict[str, Any]]:
    rows = []
    print("products x trades, options: CPU s, peak MB and wall s; the script's CPU s and peak MB")
    for count, trades, options in USUAL:
        names = [f"P{number}-USD" for number in range(count)]
        runs: dict[str, list[dict[str, float]]] = {"command": [], "script": []}
        with SimulatedExchangeProcess(*(f"{name}:{trades}" for name in names), seed=SEED) as sim:
            for round_ in range(rounds):
                folder = scratch / f"usual-{count}-{trades}-{len(options)}-{round_}"
                script = [sim.url, ",".join(names), str(trades), str(folder), "10"]
                where = [f"--base-url={sim.url}", f"--lake={folder}-lake", "--rate=none"]
                runs["command"].append(
                    _cost_of(["-c", _COMMAND, "backfill", *names, *where, *options])
                )
                runs["script"].append(_cost_of(["-m", "bench.plain_script", *script]))
        medians = {
            name: {key: statistics.median(each[key] for each in found) for key in found[0]}
            for name, found in runs.items()
        }
        command, plain = medians["command"], medians["script"]
        share = round(command["cpu_s"] / plain["cpu_s"], 3)
        rows.append(
            {"products": count, "trades": trades, "options": list(options), "runs": runs,
             "medians": medians, "cpu_share": share}
        )  # fmt: skip
        print(
            f"{count} x {trades:<14,} {' '.join(options):<24} {command['cpu_s']:>6.1f} "
            f"{command['peak_mb']:>8.0f} {command['wall_s']:>9.1f} {plain['cpu_s']:>13.1f} "
            f"{plain['peak_mb']:>5.0f}   {share:.2f} of the CPU",
            flush=True,
        )
    return rows


def _cost_of(arguments: Sequence[str]) -> dict[str, float]:
    """What a Python process took, by the kernel's account of it. Its output goes nowhere."""
    began = time.monotonic()
    silent = [(os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_WRONLY, 0) for each in (1, 2)]
    pid = os.posix_spawn(
        sys.executable, [sys.executable, *arguments], _environment(), file_actions=silent
    )
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}")
    return {
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "wall_s": round(time.monotonic() - began, 2),
        "peak_mb": used.ru_maxrss // 1024,
    }


def headrace(*arguments: str) -> dict[str, Any]:
    """A backfill by the command line, in a process of its own; its summary."""
    command = [sys.executable, "-m", "headrace.cli.main", "backfill", *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if not done.stdout:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def _json_of(module: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", *module],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        env=_environment(),
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _environment() -> dict[str, str]:
    """As a shell has it: what this process set for its own Arrow is not the script's."""
    return {k: v for k, v in os.environ.items() if k != "ARROW_DEFAULT_MEMORY_POOL"}
