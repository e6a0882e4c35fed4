"""Several processes that share one quota, and want unequal amounts of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.peers.environments import PROJECT, SCRIPTS, python_of
from bench.peers.job import Figures, Peer, ended_well
from bench.peers.measure import Program, Used
from headrace.quota.selftest import jain
from headrace.sim import SimulatedExchangeProcess, TokenBucket
from headrace.sim.arrivals import Arrival

RATE, BURST = 10, 15
LATENCY = "lognormal:p50=0.1,p95=0.25"
SEED = 17
THREADS = 4
#: Requests that each process wants.
WANTS, SHORT_WANTS = (90, 30, 30, 30), (50, 15, 15, 15)
_LONGEST_S = 300.0

_SHARED = "One SQLite file for all processes"
PEERS = (
    Peer(
        "headrace quota",
        "`open_gate(…).admit()` around each request, which reports each answer. One folder for all "
        "processes.",
        packages=("pyrate-limiter",),
        script="limited.py",
        options={"limiter": "headrace"},
    ),
    Peer(
        "pyrate-limiter",
        f"`Limiter.try_acquire` on `SQLiteBucket` with its file lock. {_SHARED}.",
        environment="limiters",
        packages=("pyrate-limiter",),
        script="limited.py",
        options={"limiter": "pyrate"},
    ),
    Peer(
        "requests-ratelimiter",
        "`LimiterSession(per_second=10, bucket_class=SQLiteBucket)` with its file lock. "
        f"{_SHARED}.",
        environment="limiters",
        packages=("requests-ratelimiter", "pyrate-limiter"),
        script="limited.py",
        options={"limiter": "session"},
    ),
    Peer(
        "aiolimiter, a quarter each",
        "`AsyncLimiter(2.5, 1)` around aiohttp. It knows one event loop only, so the quota is "
        "divided by hand.",
        environment="limiters",
        packages=("aiolimiter",),
        script="limited_async.py",
        options={"limiter": "quarter"},
    ),
    Peer(
        "aiolimiter, all of it each",
        "`AsyncLimiter(10, 1)` in each process: what happens when the quota is not divided.",
        environment="limiters",
        packages=("aiolimiter",),
        script="limited_async.py",
        options={"limiter": "whole"},
    ),
)


class Limiters:
    """See the module."""

    peers: Sequence[Peer] = PEERS

    def __init__(self, *, short: bool) -> None:
        self._wants = SHORT_WANTS if short else WANTS
        every = sum(self._wants)
        self.about = (
            f"{len(self._wants)} processes of {THREADS} threads (or coroutines) want "
            f"{', '.join(map(str, self._wants))} requests of an exchange that allows {RATE}/s "
            f"with bursts of {BURST}: {(every - BURST) / RATE:.1f} s at the least. A refused "
            "request asks the limiter again. Missing are requests that were never answered. The "
            "greediest process is killed and started again. Fairness is Jain's index over the "
            "processes while all of them want."
        )

    def clean(self, peer: Peer, scratch: Path) -> Figures:
        """All processes until each has what it wants."""
        return self._measured(peer, scratch, kill_after=None)

    def killed(self, peer: Peer, scratch: Path, clean: Figures) -> Figures:
        """The greediest is killed after a third of all requests, and started again at once."""
        del clean
        return self._measured(peer, scratch, kill_after=sum(self._wants) // 3)

    def _measured(self, peer: Peer, scratch: Path, kill_after: int | None) -> Figures:
        with SimulatedExchangeProcess(
            *(f"{name}:1000" for name in self._products()),
            seed=SEED,
            latency=LATENCY,
            limits=[TokenBucket(rate_per_s=RATE, burst=BURST)],
        ) as sim:
            running = [self._start(peer, scratch, sim, at) for at in range(len(self._wants))]
            ended: list[Used] = []
            if kill_after is not None:
                greedy = running[0]
                ended.append(greedy.wait(_LONGEST_S, lambda: sim.stats()["requests"] >= kill_after))
                running[0] = self._start(peer, scratch, sim, 0)
            last = [program.wait(_LONGEST_S) for program in running]
            arrivals = sim.arrivals()
        answered = [_lines(scratch / f"done-{at}") for at in range(len(self._wants))]
        bad = [used for used in last if used.code]
        return {
            "missing": sum(max(0, w - n) for w, n in zip(self._wants, answered, strict=True)),
            "repeated": None,
            "requests": len(arrivals),
            "throttled": sum(arrival.status == 429 for arrival in arrivals),
            "wall_s": round(arrivals[-1].arrived_s - arrivals[0].arrived_s, 2),
            "cpu_s": round(sum(used.cpu_s for used in [*ended, *last]), 2),
            "peak_mb": sum(used.peak_mb for used in last),
            "fairness": self._fairness(arrivals),
            "was_killed": bool(ended) and ended[0].code == -9,
            "ended": ended_well(bad[0].code, bad[0].last_line) if bad else "done",
        }

    def _products(self) -> list[str]:
        return [f"P{at}-USD" for at in range(len(self._wants))]

    def _start(self, peer: Peer, scratch: Path, sim: SimulatedExchangeProcess, at: int) -> Program:
        url = f"{sim.url}/products/P{at}-USD/trades?limit=1"
        what = [url, str(scratch / f"done-{at}"), str(self._wants[at]), str(THREADS)]
        quota = [str(peer.options["limiter"]), str(RATE), str(scratch), str(len(self._wants))]
        return Program(
            [python_of(peer.environment), str(SCRIPTS / peer.script), *what, *quota],
            scratch / f"log-{at}.txt",
            cwd=PROJECT,
            environment=os.environ,
        )

    def _fairness(self, arrivals: Sequence[Arrival]) -> float:
        """Among answers other than 429, from when all had begun to when the first had its last."""
        good = [a for a in arrivals if a.subject.product and a.status != 429]
        moments: dict[str | None, list[float]] = {}
        for arrival in good:
            moments.setdefault(arrival.subject.product, []).append(arrival.arrived_s)
        begin, end = max(map(min, moments.values())), min(map(max, moments.values()))
        shares = Counter(a.subject.product for a in good if begin <= a.arrived_s <= end)
        return round(jain([shares[name] for name in self._products()]), 3)


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0
