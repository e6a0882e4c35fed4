"""Extraction of a Looker's dashboards while somebody deletes some of them."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from bench.peers.environments import PROJECT, SCRIPTS, python_of
from bench.peers.job import HEADRACE, Figures, Peer, Prefect, ended_well
from bench.peers.measure import Program, Used
from headrace.sim import SlidingWindow
from headrace.sim.looker import SimulatedLookerProcess

RATE = 10
LATENCY = "lognormal:p50=0.25,p95=0.6"
PAGE = 100
PAGES, SHORT_PAGES = 100, 40
_LONGEST_S = 900.0

PEERS = (
    Peer(
        "headrace",
        "`headrace looker extract --types dashboard` with `--rate 10/s` and 8 workers, on a "
        "Prefect server that is up.",
        packages=("looker-sdk", "prefect"),
    ),
    Peer(
        "looker-sdk script",
        "A loop over `search_dashboards`, sorted by id; five tries a page with growing pauses; an "
        "SQLite table with a primary key, one transaction a page. A second run begins again.",
        environment="looker-sdk",
        packages=("looker-sdk",),
        script="looker_script.py",
    ),
    Peer(
        "lookervault's way",
        "Written anew in the manner of lookervault, which is on no package index: 8 threads take "
        "offsets from a counter, unsorted; a limiter in the process at 10/s; 429 tried again, "
        "nothing else; one transaction an item. A second run begins again.",
        environment="looker-sdk",
        packages=("looker-sdk",),
        script="looker_threads.py",
    ),
)


class Looker:
    """See the module.

    Args:
        prefect: the server for our own command.
        short: fewer dashboards.
    """

    peers = PEERS

    def __init__(self, prefect: Prefect, *, short: bool) -> None:
        self._prefect = prefect
        self._pages = SHORT_PAGES if short else PAGES
        #: One of the first page, of the middle, and not yet read.
        self._deleted = (7, self._pages * PAGE // 3, self._pages * PAGE - 5)
        self.about = (
            f"{self._pages * PAGE:,} dashboards of 4 kB, {self._pages} pages of {PAGE}. The "
            f"Looker allows {RATE} requests in any second, answers after 0.25 s (P50) to 0.6 s "
            "(P95), answers the page in the middle with 502 once, and loses three dashboards "
            f"while it is read: no client can do it in less than {self._pages // RATE} s. "
            "Missing is what was there all the time and was not stored."
        )

    def clean(self, peer: Peer, scratch: Path) -> Figures:
        """One extraction."""
        with self._looker() as sim:
            used, figures = self._run(peer, scratch, sim)
            stats = sim.stats()
            return {
                **self._lost(scratch),
                "requests": stats["requests"],
                "throttled": stats["throttled"],
                "wall_s": used.wall_s,
                "cpu_s": used.cpu_s,
                "peak_mb": used.peak_mb,
                **figures,
                "ended": ended_well(used.code, used.last_line),
            }

    def killed(self, peer: Peer, scratch: Path, clean: Figures) -> Figures:
        """Killed after half of the requests of a clean run, then again."""
        half = clean["requests"] // 2
        with self._looker() as sim:
            first, _ = self._run(peer, scratch, sim, kill_after=half)
            asked = sim.stats()["requests"]
            second, _ = self._run(peer, scratch, sim)
            stats = sim.stats()
            return {
                **self._lost(scratch),
                "requests_before": asked,
                "requests": stats["requests"],
                "throttled": stats["throttled"],
                "second_s": second.wall_s,
                "was_killed": first.code == -9,
                "ended": ended_well(second.code, second.last_line),
            }

    def _looker(self) -> SimulatedLookerProcess:
        quarter = self._pages // 4
        return SimulatedLookerProcess(
            counts={"dashboard": self._pages * PAGE, "lookml_dashboard": 0},
            limits=[SlidingWindow(requests=RATE, per_s=1.0)],
            latency=LATENCY,
            faults=[f"respond,status=502,ask=list,covers={self._pages // 2 * PAGE},calls=1"],
            changes=[
                f"remove dashboard:{number} after {quarter * (at + 1)}"
                for at, number in enumerate(self._deleted)
            ],
        )

    def _run(
        self,
        peer: Peer,
        scratch: Path,
        sim: SimulatedLookerProcess,
        *,
        kill_after: int | None = None,
    ) -> tuple[Used, Figures]:
        figures: Figures = {}
        python = python_of(peer.environment)
        vault = str(scratch / "vault.sqlite")
        if peer.script:
            command = [python, str(SCRIPTS / peer.script), vault, str(RATE)]
        else:
            extract = [python, *HEADRACE, "looker", "extract", "--types=dashboard", "--json"]
            command = [*extract, f"--vault={vault}", f"--rate={RATE}/s", "--workers=8"]
        program = Program(
            command,
            scratch / "log.txt",
            cwd=PROJECT,
            environment={
                **os.environ,
                "LOOKERSDK_BASE_URL": sim.url,
                "LOOKERSDK_CLIENT_ID": "headrace",
                "LOOKERSDK_CLIENT_SECRET": "simulated-secret",
            },
        )

        def half_way() -> bool:
            return kill_after is not None and sim.stats()["requests"] >= kill_after

        if peer.script:
            return program.wait(_LONGEST_S, half_way), figures
        with self._prefect.watched(figures):
            return program.wait(_LONGEST_S, half_way), figures

    def _lost(self, scratch: Path) -> Figures:
        database = sqlite3.connect(scratch / "vault.sqlite")
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        query = (
            "SELECT id FROM item WHERE type = 'dashboard'"
            if "item" in tables
            else "SELECT id FROM dashboards"
        )
        ids = [int(item_id) for (item_id,) in database.execute(query)]
        database.close()
        stayed = set(range(1, self._pages * PAGE + 1)) - set(self._deleted)
        return {"missing": len(stayed - set(ids)), "repeated": len(ids) - len(set(ids))}
