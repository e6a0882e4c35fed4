"""Extraction of a Looker's dashboards while some of them are deleted."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.peers.environments import SCRIPTS, python_of
from bench.peers.job import HEADRACE, Figures, Peer, Prefect
from bench.peers.served import ServedJob
from headrace.sim import SlidingWindow
from headrace.sim.looker import SimulatedLookerProcess

RATE = 10
LATENCY = "lognormal:p50=0.25,p95=0.6"
PAGE = 100
PAGES, SHORT_PAGES = 100, 40

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
        "A script in the manner of lookervault, which is on no package index: 8 threads take "
        "offsets from a counter, unsorted; a limiter in the process at 10/s; 429 tried again, "
        "nothing else; one transaction an item. A second run begins again.",
        environment="looker-sdk",
        packages=("looker-sdk",),
        script="looker_threads.py",
    ),
)


class Looker(ServedJob):
    """See the module.

    Args:
        prefect: the server for our own command.
        short: fewer dashboards.
    """

    peers: Sequence[Peer] = PEERS

    def __init__(self, prefect: Prefect, *, short: bool) -> None:
        super().__init__(prefect)
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

    def server(self) -> SimulatedLookerProcess:
        """See `ServedJob`."""
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

    def environment(self, server: SimulatedLookerProcess) -> Mapping[str, str]:
        """See `ServedJob`."""
        return {
            "LOOKERSDK_BASE_URL": server.url,
            "LOOKERSDK_CLIENT_ID": "headrace",
            "LOOKERSDK_CLIENT_SECRET": "simulated-secret",
        }

    def command(self, peer: Peer, scratch: Path, server: SimulatedLookerProcess) -> list[str]:
        """See `ServedJob`."""
        python, vault = python_of(peer.environment), str(scratch / "vault.sqlite")
        if peer.script:
            return [python, str(SCRIPTS / peer.script), vault, str(RATE)]
        extract = [*HEADRACE, "looker", "extract", "--types=dashboard", f"--base-url={server.url}"]
        return [python, *extract, f"--vault={vault}", f"--rate={RATE}/s", "--workers=8", "--json"]

    def lost(self, peer: Peer, scratch: Path, server: SimulatedLookerProcess) -> Figures:  # noqa: ARG002
        """See `ServedJob`."""
        database = sqlite3.connect(scratch / "vault.sqlite")
        table = "dashboards" if peer.script else "item WHERE type = 'dashboard'"
        ids = [int(item_id) for (item_id,) in database.execute(f"SELECT id FROM {table}")]
        database.close()
        stayed = set(range(1, self._pages * PAGE + 1)) - set(self._deleted)
        return {"missing": len(stayed - set(ids)), "repeated": len(ids) - len(set(ids))}
