"""An ingest of many products of which nothing is new, beside a bare flow that maps as many tasks.

All run in processes of their own against one Prefect server. Wall and CPU seconds are those of the
flow run, imports not counted; the server's are the difference of its own CPU time until it is idle
again, since it records task runs after the run has ended. A third row is the same ingest over S3.
Requests are counted as they leave the process: to the Prefect API, events to it, and to S3.

Usage: python -m bench nothing-new [PRODUCTS]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench.lake import s3_location
from bench.machine import machine_state, save
from headrace.cli.server import ManagedServer, managed_api
from headrace.sim import SimulatedExchangeProcess

PRODUCTS = 400
WORKERS = 5
#: Of each kind, in turn; the medians count.
ROUNDS = 5


def run(arguments: Sequence[str]) -> dict[str, Any]:
    """A first ingest, which fetches a page of each product; then each, some times, in turn."""
    products = [f"P{at}-USD" for at in range(int(arguments[0]) if arguments else PRODUCTS)]
    rows: dict[str, list[dict[str, float]]] = {"bare": [], "ingest": [], "ingest over s3": []}
    with (
        tempfile.TemporaryDirectory() as scratch,
        SimulatedExchangeProcess(*(f"{product}:500" for product in products)) as sim,
        s3_location(Path(scratch) / "weed") as remote,
        managed_api(Path(scratch)),
    ):
        lakes = {"ingest": str(Path(scratch) / "lake"), "ingest over s3": remote}
        for lake in lakes.values():
            _child("ingest", scratch, sim.url, lake, products)
        for _ in range(ROUNDS):
            for kind in rows:
                lake = lakes.get(kind, "")
                rows[kind].append(_child(kind, scratch, sim.url, lake, products))
    middle = {
        kind: {name: median(row[name] for row in each) for name in each[0]}
        for kind, each in rows.items()
    }
    for kind, row in middle.items():
        print(f"{kind:<14}", ", ".join(f"{name} {value:g}" for name, value in row.items()))
    ratios = {
        name: round(middle["ingest"][name] / middle["bare"][name], 2)
        for name in ("wall_s", "cpu_s", "server_cpu_s")
    }
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
    before = _cpu_when_idle(process)
    task = json.dumps({"kind": kind, "url": url, "lake": lake, "products": list(products)})
    done = subprocess.run(
        [sys.executable, "-m", "bench.nothing_new"],
        input=task, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    row: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {**row, "server_cpu_s": round(_cpu_when_idle(process) - before, 2)}


def _cpu_when_idle(process: psutil.Process) -> float:
    """The CPU seconds of a process once it has taken less than a tenth of one for a second."""
    spent = -1.0
    while True:
        times = process.cpu_times()
        now = times.user + times.system
        if now - spent < 0.1:
            return now
        spent = now
        time.sleep(1.0)


def _count_requests() -> Counter[str]:
    """Count what this process sends from now on: to the Prefect API, its events, and to S3."""
    import httpx
    from prefect.events.worker import EventsWorker

    from headrace.lake.s3_retry import S3Call

    sent: Counter[str] = Counter(api_requests=0, events=0, s3_requests=0)
    send, send_async = (
        httpx.HTTPTransport.handle_request,
        httpx.AsyncHTTPTransport.handle_async_request,
    )
    handle, call = EventsWorker._handle, S3Call.run

    def counted(self: Any, request: Any) -> Any:
        sent["api_requests"] += 1
        return send(self, request)

    async def counted_async(self: Any, request: Any) -> Any:
        sent["api_requests"] += 1
        return await send_async(self, request)

    async def counted_event(self: Any, event: Any) -> None:
        sent["events"] += 1
        await handle(self, event)

    def counted_call(self: Any, attempt: Any) -> Any:
        def counted_attempt(nth: int) -> Any:
            sent["s3_requests"] += 1
            return attempt(nth)

        return call(self, counted_attempt)

    for owner, name, function in (
        (httpx.HTTPTransport, "handle_request", counted),
        (httpx.AsyncHTTPTransport, "handle_async_request", counted_async),
        (EventsWorker, "_handle", counted_event),
        (S3Call, "run", counted_call),
    ):
        setattr(owner, name, function)
    return sent


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
    from headrace.cli.running import DRAIN_S
    from headrace.cli.server import bounded_exit, drain

    sent = _count_requests()
    began, began_cpu = time.monotonic(), time.process_time()
    if asked["kind"] == "bare":
        _bare(asked["products"])
    else:
        _ingest(asked["url"], asked["lake"], asked["products"])
    row = {"wall_s": time.monotonic() - began, "cpu_s": time.process_time() - began_cpu}
    drain(DRAIN_S)
    print(json.dumps({name: round(value, 2) for name, value in (row | sent).items()}), flush=True)
    bounded_exit(0)


if __name__ == "__main__":
    main()
