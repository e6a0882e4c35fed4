"""An ingest of many products of which nothing is new, beside a bare flow that maps as many tasks.

Both run in processes of their own against one Prefect server. Wall and CPU seconds are those of the
flow run, imports not counted; the server's are the difference of its own CPU time.

Usage: python -m bench nothing-new [PRODUCTS]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from bench.machine import machine_state, save
from headrace.cli.server import ManagedServer, managed_api
from headrace.sim import SimulatedExchangeProcess

PRODUCTS = 400
WORKERS = 5


def run(arguments: Sequence[str]) -> dict[str, Any]:
    """A first ingest, which fetches a page of each product; then both, twice, in turn."""
    products = [f"P{at}-USD" for at in range(int(arguments[0]) if arguments else PRODUCTS)]
    rows: dict[str, list[dict[str, float]]] = {"bare": [], "ingest": []}
    with (
        tempfile.TemporaryDirectory() as scratch,
        SimulatedExchangeProcess(*(f"{product}:500" for product in products)) as sim,
        managed_api(Path(scratch)),
    ):
        lake = str(Path(scratch) / "lake")
        _child("ingest", scratch, sim.url, lake, products)
        for _ in range(2):
            for kind in rows:
                rows[kind].append(_child(kind, scratch, sim.url, lake, products))
    best = {kind: min(each, key=lambda row: row["wall_s"]) for kind, each in rows.items()}
    for kind, row in best.items():
        print(f"{kind:<7}", ", ".join(f"{name} {value:g}" for name, value in row.items()))
    ratios = {name: round(best["ingest"][name] / best["bare"][name], 2) for name in best["bare"]}
    print("ingest / bare:", ratios)
    results = {
        "products": len(products), "rows": rows, "ratios": ratios, "machine": machine_state(),
    }  # fmt: skip
    save("nothing-new", results)
    return results


def _child(kind: str, home: str, url: str, lake: str, products: Sequence[str]) -> dict[str, float]:
    """One run in a process of its own, and what the server spent on it."""
    server = ManagedServer(Path(home)).running()
    assert server is not None, "it is in use"
    process = psutil.Process(server.record.pid)
    before = process.cpu_times()
    task = json.dumps({"kind": kind, "url": url, "lake": lake, "products": list(products)})
    done = subprocess.run(
        [sys.executable, "-m", "bench.nothing_new"],
        input=task, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    after = process.cpu_times()
    row: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    spent = after.user + after.system - before.user - before.system
    return {**row, "server_cpu_s": round(spent, 2)}


def _bare(products: Sequence[str]) -> None:
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    from prefect.task_runners import ThreadPoolTaskRunner

    from tasks.prefect_defaults import flow, task

    @task(name="empty", description="Nothing.")
    def empty(product: str) -> str:
        return product

    @flow(name="bare")
    def bare() -> None:
        with ThreadPoolTaskRunner(max_workers=WORKERS) as pool:
            for future in pool.map(empty, {"product": list(products)}):
                future.result()

    bare()


def _ingest(url: str, lake: str, products: Sequence[str]) -> None:
    from headrace.cli.display import Display
    from headrace.cli.running import report_of

    parameters = {"products": list(products), "lake": lake, "base_url": url, "rate": "none",
                  "workers": WORKERS, "first_ingest_hours": 0}  # fmt: skip
    summary = report_of("ingest", parameters, Display(quiet=True))
    assert summary.status.value == "done", summary.status


def main() -> None:
    """The child: run what standard input names, say what it cost."""
    asked = json.load(sys.stdin)
    import tasks.pull  # noqa: F401 - imported before the clock starts

    began, began_cpu = time.monotonic(), time.process_time()
    if asked["kind"] == "bare":
        _bare(asked["products"])
    else:
        _ingest(asked["url"], asked["lake"], asked["products"])
    row = {"wall_s": time.monotonic() - began, "cpu_s": time.process_time() - began_cpu}
    print(json.dumps({name: round(value, 2) for name, value in row.items()}), flush=True)
    from headrace.cli.server import bounded_exit

    bounded_exit(0)


if __name__ == "__main__":
    main()
