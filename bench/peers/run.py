"""`python -m bench.peers [JOB ...] [--short] [--rounds N] [--peer NAME ...]`.

Measures, prints, and writes `bench/results/peers-JOB.json` (`peers-JOB-short.json` in the short
form, which is not in the docs). Clean runs of all peers take turns, so that a busy minute hits all
of them; medians count.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machine import RESULTS, machine_state, save
from bench.peers import environments, table
from bench.peers.job import CannotDo, Figures, Job, Peer, Prefect, prefect_server
from bench.peers.limiters import Limiters
from bench.peers.log import Log
from bench.peers.looker import Looker
from bench.peers.trades import Trades

JOBS = ("trades", "looker", "limiters", "log")
ROUNDS = 3


def run(arguments: Sequence[str]) -> None:
    """Measure the jobs named, or all."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}")
    parser.add_argument("--short", action="store_true", help="small amounts, once")
    parser.add_argument("--rounds", type=int, help=f"clean runs of each peer; default: {ROUNDS}")
    parser.add_argument(
        "--peer", action="append", help="only this one; the others' rows stay as they were measured"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.jobs) - set(JOBS):
        parser.error(f"there is no job {', '.join(unknown)}; there are {', '.join(JOBS)}")
    rounds = options.rounds or (1 if options.short else ROUNDS)
    with tempfile.TemporaryDirectory(prefix="headrace-peers-") as folder:
        scratch = Path(folder)
        with prefect_server(scratch / "home") as prefect:
            for name in options.jobs or JOBS:
                job = _job(name, prefect, scratch, short=options.short)
                wanted = [peer for peer in job.peers if peer.name in (options.peer or [peer.name])]
                saved = f"peers-{name}-short" if options.short else f"peers-{name}"
                measured = _measure(name, job, wanted, scratch / name, rounds)
                if options.peer:
                    earlier = json.loads((RESULTS / f"{saved}.json").read_text())
                    rows = {row["name"]: row for row in [*earlier["peers"], *measured["peers"]]}
                    measured = {**earlier, "peers": list(rows.values())}
                save(saved, measured)
                print(table.rendered(measured), flush=True)


def _job(name: str, prefect: Prefect, scratch: Path, *, short: bool) -> Job:
    match name:
        case "trades":
            return Trades(prefect, short=short)
        case "looker":
            return Looker(prefect, short=short)
        case "limiters":
            return Limiters(short=short)
        case _:
            return Log(prefect, scratch, short=short)


def _measure(
    name: str, job: Job, peers: Sequence[Peer], scratch: Path, rounds: int
) -> dict[str, Any]:
    before, began = machine_state(), time.monotonic()
    cannot: dict[str, str] = {}
    clean: dict[str, list[Figures]] = {peer.name: [] for peer in peers}
    killed: dict[str, Figures] = {}
    for peer in peers:
        try:
            environments.python_of(peer.environment)
        except environments.CannotInstall as error:
            cannot[peer.name] = f"It could not be installed: {error}"
    # The last round has a kill in it.
    for round_ in range(rounds + 1):
        for peer in peers:
            if peer.name in cannot or (round_ < rounds and round_ >= (peer.rounds or rounds)):
                continue
            folder = scratch / f"{peers.index(peer)}-{round_}"
            folder.mkdir(parents=True)
            try:
                if round_ < rounds:
                    clean[peer.name].append(job.clean(peer, folder))
                    print(name, peer.name, clean[peer.name][-1], flush=True)
                else:
                    killed[peer.name] = job.killed(peer, folder, medians(clean[peer.name]))
                    print(name, peer.name, "killed:", killed[peer.name], flush=True)
            except (CannotDo, TimeoutError) as error:
                cannot[peer.name] = str(error)
                print(name, peer.name, "cannot:", error, flush=True)
            shutil.rmtree(folder)
    return {
        "job": name,
        "about": job.about,
        "rounds": rounds,
        "real_time": os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR),
        "took_s": round(time.monotonic() - began),
        "machine_before": before,
        "machine_after": machine_state(),
        "peers": [
            _row(peer, clean[peer.name], killed.get(peer.name), cannot.get(peer.name))
            for peer in peers
        ],
    }


def _row(
    peer: Peer, clean: list[Figures], killed: Figures | None, cannot: str | None
) -> dict[str, Any]:
    return {
        "name": peer.name,
        "at": machine_state()["at"],
        "versions": environments.versions_of(peer.environment, peer.packages),
        "how": peer.how,
        "own_lines": environments.lines_of(peer.script),
        "cannot": cannot,
        "clean": medians(clean) if clean else None,
        "runs": clean,
        "killed": killed,
    }


def medians(runs: Sequence[Figures]) -> Figures:
    """The median of each figure over runs; the worst of what was lost; of words the last."""
    found: Figures = {}
    for name, last in runs[-1].items():
        if name in ("missing", "repeated") and last is not None:
            found[name] = max(run[name] for run in runs)
        elif isinstance(last, int | float) and not isinstance(last, bool):
            found[name] = round(statistics.median(run[name] for run in runs), 3)
        else:
            found[name] = last
    return found
