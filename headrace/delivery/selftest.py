"""How many requests a second several keys give, against a simulated server that counts arrivals."""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any, NamedTuple

from headrace.delivery.benchmark import Latencies
from headrace.delivery.client import Expired, KeyedClient
from headrace.delivery.model import ApiRequest, Pending
from headrace.quota import PoolKey, QuotaConfig, QuotaRate, open_key_pool
from headrace.quota.selftest import jain
from headrace.sim.keyed import PATH, KeyCounts, SimulatedKeyedExchangeProcess, make_keys
from headrace.sim.keyed.simulation import stepping
from headrace.stopping import StopEvent
from headrace.wire.exceptions import RequestError
from headrace.wire.transport import Transport

#: Left out at the beginning: the windows fill, and distances are not learnt yet.
WARM_UP_S = 2.0
#: Requests in flight in all processes together, for each one a second: permit, round trip, reserve.
_IN_FLIGHT_S = 0.3
_LEAST_IN_FLIGHT = 4


@dataclass(frozen=True, slots=True)
class KeyedSelfTest:
    """What was measured, after the warm-up unless it says otherwise.

    Attributes:
        per_s: successes a second.
        used_share: of what the keys allow.
        mean_ms, p99_ms: from departure to answer; None without one.
        throttled, nonces_refused: answers 429 and 400, from the start.
        blocked: keys that the server has blocked at the end.
        fairness: Jain's index of the successes over the processes; 1 is even.
        by_second: successes in each second, from the start.
    """

    per_s: float
    used_share: float
    mean_ms: float | None
    p99_ms: float | None
    throttled: int
    nonces_refused: int
    blocked: int
    fairness: float
    by_second: tuple[int, ...]


def run_keyed_selftest(
    folder: Path,
    rate: QuotaRate,
    keys: int = 5,
    processes: int = 1,
    seconds: float = 10.0,
    delay: str = "uniform:low=0,high=0.05",
    clock_step_s: float = 0.0,
) -> KeyedSelfTest:
    """Measure a throw-away quota in `folder`; the server is a process on this machine.

    Args:
        rate: of each key.
        keys: how many.
        processes: how many share the keys.
        seconds: more than `WARM_UP_S`.
        delay: of requests, and of answers, as `headrace sim keyed-exchange --inbound` takes it.
        clock_step_s: the clocks of the server and of the senders, by which they make nonces, step
            so far ahead and back again every ten seconds.
    """
    settings: dict[str, Any] = {
        "keys": make_keys(keys),
        "limit": rate.limit,
        "per_s": rate.interval_ms / 1000,
        "inbound": delay,
        "outbound": delay,
        "clock_step_s": clock_step_s,
    }
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="selftest-") as scratch,
        SimulatedKeyedExchangeProcess(**settings) as sim,
    ):
        task = _Task(sim.url, Path(scratch), rate, keys, seconds, clock_step_s)
        answers = _send_all(task, processes)
        counts = sim.key_stats()
    return _judged(answers, counts, rate, seconds)


def _judged(
    answers: list[list[tuple[float, float]]],
    counts: list[KeyCounts],
    rate: QuotaRate,
    seconds: float,
) -> KeyedSelfTest:
    latencies = Latencies()
    measured = []
    by_second = [0] * int(seconds)
    for of_process in answers:
        good = [took_s for at_s, took_s in of_process if WARM_UP_S <= at_s < seconds]
        measured.append(len(good))
        for took_s in good:
            latencies.add(took_s)
        for at_s, _ in of_process:
            if at_s < len(by_second):
                by_second[int(at_s)] += 1
    per_s = sum(measured) / (seconds - WARM_UP_S)
    mean_s, p99_s = latencies.mean_s, latencies.percentile_s(0.99)
    return KeyedSelfTest(
        per_s=per_s,
        used_share=per_s / (rate.per_second * len(counts)),
        mean_ms=None if mean_s is None else 1e3 * mean_s,
        p99_ms=None if p99_s is None else 1e3 * p99_s,
        throttled=sum(key.throttled for key in counts),
        nonces_refused=sum(key.bad_nonces for key in counts),
        blocked=sum(key.blocked for key in counts),
        fairness=jain(measured),
        by_second=tuple(by_second),
    )


class _Task(NamedTuple):
    """What each process does: see `run_keyed_selftest`."""

    url: str
    folder: Path
    rate: QuotaRate
    keys: int
    seconds: float
    clock_step_s: float


def _send_all(task: _Task, processes: int) -> list[list[tuple[float, float]]]:
    """The moment since the start and the duration of each success, by process."""
    in_flight = task.rate.per_second * task.keys * _IN_FLIGHT_S
    threads = max(_LEAST_IN_FLIGHT, round(in_flight / processes))
    context = multiprocessing.get_context("spawn")
    results: Queue[list[tuple[float, float]]] = context.Queue()
    barrier = context.Barrier(processes)
    senders = [
        context.Process(target=_send, args=(task, threads, barrier, results))
        for _ in range(processes)
    ]
    for sender in senders:
        sender.start()
    answers = [results.get(timeout=task.seconds + 60) for _ in senders]
    for sender in senders:
        sender.join()
    return answers


def _send(
    task: _Task, threads: int, barrier: object, results: Queue[list[tuple[float, float]]]
) -> None:
    pool_keys = [PoolKey(str(place), key) for place, key in enumerate(make_keys(task.keys), 1)]
    config = QuotaConfig(name="selftest", rates=(task.rate,))
    answers: list[tuple[float, float]] = []
    seconds, opened_s = task.seconds, time.monotonic()

    def wall() -> float:
        return stepping(time.time(), time.monotonic() - opened_s, task.clock_step_s)

    with (
        open_key_pool(task.folder, config, pool_keys, ordered=True, wall=wall) as pool,
        Transport(task.url, max_connections=threads) as transport,
    ):
        client = KeyedClient(transport, pool, stop=StopEvent())
        barrier.wait()  # type: ignore[attr-defined]  # a proxy without a type of its own
        began_s = time.monotonic()

        def work(thread: int) -> None:
            # The breaker needs ids to count failures of one request once.
            number = thread
            while (now_s := time.monotonic()) < began_s + seconds:
                # One that cannot leave before the end counts as expired.
                pending = Pending(number, ApiRequest(PATH), now_s, began_s + seconds)
                number += threads
                try:
                    took_s = client.try_once(pending)
                except (RequestError, Expired):
                    continue
                answers.append((time.monotonic() - began_s, took_s))

        workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    results.put(answers)
