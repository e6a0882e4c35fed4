"""A server that counts arrivals in a strict window, and a way there and back that varies.

10 requests/s, up to 80 ms of jitter, half of it on the way there: what a client sends evenly does
not arrive evenly. Each client has a server of its own; all run at the same time.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyrate_limiter import Limiter, SQLiteBucket

from headrace.quota import QuotaConfig, open_gate, parse_rates

LIMIT, WINDOW_S, WAY_S = 10, 1.0, 0.04
_THREADS = 8

#: Sends one request through a limiter; the argument does the request and returns the status.
Client = Callable[[Callable[[], int]], None]


class Server:
    """Counts arrivals; refuses with 429 what would be too many in any window.

    Args:
        seed: of all that is left to chance.
        limit: requests in any window.
        way_s: the longest way there, and back.
        work_s: how long an answer takes once the request was counted (median and 95th percentile,
            log-normal).
        refused: the share of requests that are refused whatever was counted.
    """

    def __init__(
        self,
        seed: int,
        *,
        limit: int = LIMIT,
        way_s: float = WAY_S,
        work_s: tuple[float, float] | None = None,
        refused: float = 0.0,
    ) -> None:
        self.limit = limit
        self._chance = random.Random(seed)
        self._way_s = way_s
        self._work_s = work_s
        self._refused_share = refused
        self._arrivals: deque[float] = deque()
        self._mutex = threading.Lock()
        self.served = 0
        self.refused = 0

    def request(self) -> int:
        """One request, with its ways."""
        time.sleep(self._chance.random() * self._way_s)
        with self._mutex:
            now = time.monotonic()
            while self._arrivals and now - self._arrivals[0] >= WINDOW_S:
                self._arrivals.popleft()
            allowed = len(self._arrivals) < self.limit
            allowed = allowed and self._chance.random() >= self._refused_share
            if allowed:
                self._arrivals.append(now)
                self.served += 1
            else:
                self.refused += 1
        time.sleep(self._chance.random() * self._way_s + self._work())
        return 200 if allowed else 429

    def _work(self) -> float:
        if self._work_s is None:
            return 0.0
        median, high = self._work_s
        return median * (high / median) ** (self._chance.gauss(0, 1) / 1.645)


def headrace_client(folder: Path, anchor_cap_ms: float = 150.0, rates: str = "10/s") -> Client:
    """Ours, with the slots anchored by the answers or not."""
    config = QuotaConfig(name="strict", rates=parse_rates(rates), anchor_cap_ms=anchor_cap_ms)
    gate = open_gate(folder, config)

    def send(request: Callable[[], int]) -> None:
        with gate.admit() as admission:
            admission.sending()
            admission.answered(request())

    return send


def stock_client(folder: Path) -> Client:
    """pyrate-limiter's bucket, as its documentation uses it."""
    rates = [rate.as_pyrate() for rate in parse_rates("10/s")]
    bucket = SQLiteBucket.init_from_file(
        rates, db_path=str(folder / "stock.sqlite"), use_file_lock=True
    )
    limiter = Limiter(bucket)

    def send(request: Callable[[], int]) -> None:
        limiter.try_acquire("strict")
        request()

    return send


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """All clients at once, two minutes (or ten seconds)."""
    seconds = 10.0 if quick else 120.0
    with TemporaryDirectory(prefix="headrace-bench-") as folder:
        clients = {
            "headrace": headrace_client(_made(Path(folder), "anchored"), 150.0),
            "headrace, not anchored": headrace_client(_made(Path(folder), "plain"), 0.0),
            "stock": stock_client(_made(Path(folder), "stock")),
        }
        with ThreadPoolExecutor(len(clients)) as pool:
            futures = [
                pool.submit(drive, name, client, Server(seed=11), seconds)
                for name, client in clients.items()
            ]
            return [{"limiter": row.pop("client"), **row} for row in (f.result() for f in futures)]


def _made(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def drive(
    name: str, send: Client, server: Server, seconds: float, threads: int = _THREADS
) -> dict[str, Any]:
    """A row: what the server served and refused of threads that ask all the time."""
    end = time.monotonic() + seconds

    def keep_sending() -> None:
        while time.monotonic() < end:
            send(server.request)

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(keep_sending) for _ in range(threads)]:
            future.result()
    requests = server.served + server.refused
    return {
        "client": name,
        "requests": requests,
        "refused": server.refused,
        "refused_share": round(server.refused / requests, 5),
        "used_share": round(server.served / (server.limit * seconds / WINDOW_S), 4),
    }
