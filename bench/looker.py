"""The extraction of a Looker against what its quota permits, and what it does without one.

`quota`: 50,000 dashboards from list bodies, pages of 100, at 10/s and 100/min; wall time against
what these rates permit for the login and the 500 pages. Takes some five minutes.
`throughput`: the same with the quota lifted: items a second over HTTP into the vault, peak memory.
`scaling`: 1 to 50 workers at 200 ms a request.
`writer`: one writer thread with a queue, against transactions on the threads that fetch.
"""

from __future__ import annotations

import json
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
from headrace.cli.server import managed_api
from headrace.looker.extract.writer import Batch, Writer
from headrace.looker.vault import Vault, item_of
from headrace.sim.looker import Library, LookerSettings, SimulatedLookerProcess

DASHBOARDS = 50_000
PAGE = 100
RATES = "10/s,100/m"
WORKERS = (1, 2, 4, 8, 16, 50)
LATENCY_S = 0.2
#: Pages per worker in the scaling, so that one worker takes 8 s.
_PAGES_EACH = 40
_MOST_PAGES = 640


def run(arguments: Sequence[str]) -> dict[str, Any]:
    """All parts, or those named in the arguments; `dashboards=N` makes the first two shorter."""
    parts = {"quota": _quota, "throughput": _throughput, "scaling": _scaling, "writer": _writer}
    sizes = [int(a.partition("=")[2]) for a in arguments if a.startswith("dashboards=")]
    count = sizes[0] if sizes else DASHBOARDS
    chosen = [name for name in arguments if name in parts] or list(parts)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        os.environ["HEADRACE_HOME"] = str(home)
        with managed_api(home):
            for name in chosen:
                print(f"-- {name}")
                results[name] = parts[name](Path(scratch), count)
    results["machine"] = machine_state()
    for name in chosen:
        save(f"looker-{name}", {name: results[name], "machine": results["machine"]})
    return results


def permitted_s(requests: int) -> float:
    """When the last of so many requests may leave, at ten a second and a hundred a minute."""
    last = requests - 1
    return last // 100 * 60.0 + last % 100 // 10 * 1.0


def _quota(scratch: Path, count: int) -> dict[str, Any]:
    with SimulatedLookerProcess(counts=_only(count)) as sim:
        done = _headrace(sim.url, scratch / "quota.sqlite", f"--rate={RATES}")
        windows = sim.stats((1.0, 60.0))["most_in_window"]
    pages = -(-count // PAGE)
    figures = {
        "dashboards": count,
        "pages": pages,
        "permitted_s": permitted_s(pages + 1),
        "flow_s": done["summary"]["elapsed_s"],
        "ratio": round(done["summary"]["elapsed_s"] / permitted_s(pages + 1), 4),
        "requests": done["summary"]["requests"],
        "throttled": done["summary"]["throttled"],
        "most_in_1_s": windows["1.0"],
        "most_in_60_s": windows["60.0"],
        "peak_mb": done["peak_mb"],
    }
    print(
        f"{count:,} dashboards on {pages:,} pages: {figures['flow_s']:.1f} s of "
        f"{figures['permitted_s']:.1f} s permitted ({figures['ratio']:.3f}), "
        f"{figures['requests']} requests, at most {windows['1.0']} in 1 s and {windows['60.0']} "
        f"in 60 s, {done['peak_mb']:.0f} MB"
    )
    return figures


def _throughput(scratch: Path, count: int) -> list[dict[str, Any]]:
    rows = []
    print("bytes each   items/s   flow s   CPU s   peak MB")
    for size_bytes in (4_000, 11_000):
        with SimulatedLookerProcess(counts=_only(count), dashboard_bytes=size_bytes) as sim:
            done = _headrace(sim.url, scratch / f"fast-{size_bytes}.sqlite", "--rate=none")
        elapsed_s = done["summary"]["elapsed_s"]
        row = {
            "dashboards": count,
            "body_bytes": size_bytes,
            "items_per_s": round(count / elapsed_s),
            "flow_s": elapsed_s,
            "cpu_s": done["cpu_s"],
            "peak_mb": done["peak_mb"],
        }
        rows.append(row)
        print(
            f"{size_bytes:>10} {row['items_per_s']:>9,} {elapsed_s:>8.1f} {done['cpu_s']:>7.1f} "
            f"{done['peak_mb']:>9.0f}",
            flush=True,
        )
    return rows


def _scaling(scratch: Path, _count: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    print("workers   pages   flow s   pages/s   items/s   per worker, of one's")
    for workers in WORKERS:
        pages = min(_PAGES_EACH * workers, _MOST_PAGES)
        latency = f"constant:s={LATENCY_S}"
        with SimulatedLookerProcess(
            counts=_only(pages * PAGE), dashboard_bytes=1_000, latency=latency
        ) as sim:
            done = _headrace(
                sim.url, scratch / f"w{workers}.sqlite", "--rate=none", f"--workers={workers}"
            )
        per_s = pages / done["summary"]["elapsed_s"]
        alone = rows[0]["pages_per_s"] if rows else per_s
        row = {
            "workers": workers,
            "pages": pages,
            "flow_s": done["summary"]["elapsed_s"],
            "pages_per_s": round(per_s, 2),
            "items_per_s": round(per_s * PAGE),
            "efficiency": round(per_s / alone / workers, 3),
        }
        rows.append(row)
        print(
            f"{workers:>7} {pages:>7} {row['flow_s']:>8.1f} {per_s:>9.1f} "
            f"{row['items_per_s']:>9,} {row['efficiency']:>10.2f}",
            flush=True,
        )
    return rows


def _writer(scratch: Path, _count: int, pages: int = 150, threads: int = 8) -> dict[str, float]:
    """Items a second into a vault, parsing and hashing included, on as many threads each way."""
    library = Library(LookerSettings.of(counts=_only(pages * PAGE)))
    bodies = list(library.content("dashboard").values())
    groups = [bodies[at : at + PAGE] for at in range(0, len(bodies), PAGE)]
    figures = {}
    for name in ("one writer", "every thread"):
        with Vault.open(scratch / f"{name}.sqlite", create=True) as vault:
            session = vault.sessions.begin("extract")
            began = time.monotonic()
            if name == "one writer":
                with Writer(vault, session, may_write=lambda: None) as writer:
                    _on_threads(
                        threads,
                        groups,
                        lambda items, put=writer.put: put(Batch("dashboard", items)),  # type: ignore[misc]
                    )
            else:
                _on_threads(
                    threads,
                    groups,
                    lambda items, vault=vault, session=session: vault.upsert_many(session, items),  # type: ignore[misc]
                )
            figures[name] = round(len(bodies) / (time.monotonic() - began))
        print(f"{name:<14} {figures[name]:>7,} items/s")
    return figures


def _on_threads(threads: int, groups: Sequence[Sequence[bytes]], store: Any) -> None:
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(
            lambda group: store([item_of("dashboard", body) for body in group]), groups
        ):
            pass


def _only(dashboards: int) -> dict[str, int]:
    return {"dashboard": dashboards, "lookml_dashboard": 0}


def _headrace(url: str, vault: Path, *arguments: str) -> dict[str, Any]:
    """`headrace looker extract` in a process of its own: its summary, CPU and peak memory."""
    command = [sys.executable, "-m", "headrace.cli.main", "looker", "extract", "--types=dashboard"]
    command += [f"--base-url={url}", f"--vault={vault}", "--json", *arguments]
    environment = {
        **os.environ,
        "LOOKERSDK_CLIENT_ID": "headrace",
        "LOOKERSDK_CLIENT_SECRET": "simulated-secret",
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None, "opened as a pipe"
        said = child.stdout.read()
        _pid, _status, usage = os.wait4(child.pid, 0)
        child.returncode = 0
    if not said:
        raise SystemExit(f"{' '.join(command)} said nothing")
    summary: dict[str, Any] = json.loads(said)
    if summary["status"] != "done":
        raise SystemExit(f"the run is {summary['status']}: {summary}")
    return {
        "summary": summary,
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": round(usage.ru_maxrss / 1024, 1),
    }
