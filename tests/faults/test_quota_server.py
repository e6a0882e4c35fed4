"""Against servers that count: strict windows, jitter, throttles, outages."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.quota import BreakerChange, BreakerConfig, Gate, Phase, QuotaConfig, open_gate


class StrictServer:
    """Counts arrivals in a strict window; a request takes some time to arrive and to come back."""

    def __init__(self, limit: int, window_s: float, delay_s: Callable[[], float]) -> None:
        self._limit = limit
        self._window_s = window_s
        self._delay_s = delay_s
        self._arrivals: deque[float] = deque()
        self._mutex = threading.Lock()
        self.accepted = 0
        self.refused = 0

    def request(self) -> int:
        time.sleep(self._delay_s())
        with self._mutex:
            now = time.monotonic()
            while self._arrivals and now - self._arrivals[0] >= self._window_s:
                self._arrivals.popleft()
            allowed = len(self._arrivals) < self._limit
            if allowed:
                self._arrivals.append(now)
            self.accepted += allowed
            self.refused += not allowed
        time.sleep(self._delay_s())
        return 200 if allowed else 429


def keep_asking(gate: Gate, server: StrictServer, seconds: float, threads: int) -> None:
    end = time.monotonic() + seconds

    def ask() -> None:
        while time.monotonic() < end:
            with gate.admit() as admission:
                admission.sending()
                admission.answered(server.request())

    with ThreadPoolExecutor(threads) as pool:
        for work in [pool.submit(ask) for _ in range(threads)]:
            work.result()


@pytest.mark.long
def test_a_strict_window_with_jitter_is_hardly_ever_exceeded(tmp_path: Path) -> None:
    chance = random.Random(7)
    server = StrictServer(10, 1.0, lambda: chance.random() * 0.04)
    with open_gate(tmp_path, QuotaConfig(name="q", rates="10/s")) as gate:
        keep_asking(gate, server, seconds=6, threads=6)
    assert server.refused <= 1
    assert server.accepted >= 40


def test_a_throttle_slows_down_and_recovers(tmp_path: Path) -> None:
    server = StrictServer(5, 0.5, lambda: 0.001)
    with open_gate(tmp_path, QuotaConfig(name="q", rates="20/500ms")) as gate:
        keep_asking(gate, server, seconds=3, threads=8)
        slowed = gate.status().book.slowdown
        asked = server.accepted + server.refused
    assert server.refused >= 1
    assert 1 < slowed <= 8
    assert server.refused < asked / 2


def test_an_outage_costs_those_in_flight_and_one_per_probe(tmp_path: Path) -> None:
    down_until = time.monotonic() + 1.2
    mutex, inside, outcomes = threading.Lock(), [0], {"failed": 0, "served": 0}
    changes: list[BreakerChange] = []

    def request() -> int:
        with mutex:
            inside[0] += 1
        time.sleep(0.02)
        with mutex:
            inside[0] -= 1
            failed = time.monotonic() < down_until
            outcomes["failed" if failed else "served"] += 1
        return 503 if failed else 200

    breaker = BreakerConfig(cooldown_s=0.3, cooldown_growth=1)
    with open_gate(tmp_path, QuotaConfig(name="q", rates="200/s"), breaker) as gate:
        gate.on_breaker_change(changes.append)

        def work() -> None:
            while outcomes["served"] < 60:
                with gate.admit() as admission:
                    admission.answered(request())

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert gate.status().breaker.phase is Phase.CLOSED
    probes = sum(change.after is Phase.HALF_OPEN for change in changes)
    assert outcomes["failed"] <= 5 + 8 + probes
    assert changes[0].after is Phase.OPEN
    assert changes[-1].after is Phase.CLOSED
