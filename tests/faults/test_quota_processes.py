"""Many threads and processes on one quota: starts, forks, kills, greed."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from bench.quota.fleet import Want, run
from headrace.quota import BreakerConfig, Gate, Lane, PermitTimeout, Phase, QuotaConfig, open_gate
from headrace.quota.selftest import excess, jain

ROOT = Path(__file__).parents[2]
SECOND = 1_000_000_000


def gate_at(folder: Path, rates: str, **settings: object) -> Gate:
    return open_gate(folder, QuotaConfig.model_validate({"name": "q", "rates": rates, **settings}))


def take_many(gate: Gate, permits: int, sender: Connection) -> None:
    taken = []
    for _ in range(permits):
        gate.take()
        taken.append(time.monotonic_ns())
    sender.send(taken)


# -- many at once -------------------------------------------------------------------------------


def test_four_processes_with_four_threads_keep_one_limit() -> None:
    done = run("headrace", "10/s", [Want(threads=4)] * 4, seconds=6)
    over = excess(done.all_grants, 10, SECOND)
    assert over.permits == 0 or over.early_ms <= done.stall_ms
    assert len(done.all_grants) >= 48


@pytest.mark.slow
def test_processes_that_always_want_get_the_same() -> None:
    done = run("headrace", "60/s", [Want()] * 4 + [Want(threads=20)], seconds=5)
    counts = [len(grants) for grants in done.grants]
    assert jain(counts) > 0.8, counts
    assert min(counts) > 20, counts


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_gate_made_before_a_child_works_in_the_child(tmp_path: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    with gate_at(tmp_path, "5/s") as gate:
        gate.take()
        child = context.Process(target=take_many, args=(gate, 4, sender))
        child.start()
        taken = [time.monotonic_ns() for _ in range(4) if gate.take() is None]
        assert receiver.poll(60)
        taken += receiver.recv()
        child.join()
    assert child.exitcode == 0
    assert excess(sorted(taken), 5, SECOND).permits == 0


def test_a_fork_in_the_middle_of_bookings_does_not_hang(tmp_path: Path) -> None:
    with gate_at(tmp_path, "2000/s") as gate:
        stop = threading.Event()

        def busy() -> None:
            while not stop.is_set():
                gate.take()

        threads = [threading.Thread(target=busy) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(10):
                child = os.fork()
                if child == 0:
                    gate.take()
                    os._exit(0)
                assert _wait(child) == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def _wait(pid: int) -> int:
    for _ in range(600):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


def test_200_threads_in_a_process(tmp_path: Path) -> None:
    with gate_at(tmp_path, "400/s") as gate:
        taken: list[int] = []

        def fetch() -> None:
            with gate.admit() as admission:
                admission.sending()
                taken.append(time.monotonic_ns())
                admission.answered(200)

        threads = [threading.Thread(target=fetch) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(taken) == 200


# -- lanes and greed ----------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["here", pytest.param("elsewhere", marks=pytest.mark.long)])
def test_ingest_beside_a_greedy_backfill_waits_two_seconds_at_most(
    tmp_path: Path, where: str
) -> None:
    greedy = Want(threads=60)
    if where == "elsewhere":
        done = run("headrace", "15/s", [greedy, Want(pause_s=0.4, lane="INGEST")], seconds=6)
        waits = done.waits[1]
        assert len(done.grants[0]) > 40
    else:
        waits = _ingest_beside_threads(tmp_path, greedy.threads)
    assert len(waits) >= 4
    assert max(waits) < 2 * SECOND


def _ingest_beside_threads(folder: Path, threads: int) -> list[int]:
    with gate_at(folder, "15/s") as gate:
        stop = threading.Event()

        def backfill() -> None:
            while not stop.is_set():
                gate.take(Lane.BACKFILL)

        workers = [threading.Thread(target=backfill) for _ in range(threads)]
        for worker in workers:
            worker.start()
        waits = []
        for _ in range(8):
            time.sleep(0.3)
            began = time.monotonic_ns()
            gate.take(Lane.INGEST)
            waits.append(time.monotonic_ns() - began)
        stop.set()
        for worker in workers:
            worker.join()
    return waits


@pytest.mark.long
def test_a_greedy_ingest_does_not_starve_backfill() -> None:
    done = run("headrace", "40/s", [Want(threads=4, lane="INGEST"), Want(threads=4)], seconds=5)
    ingest, backfill = (len(grants) for grants in done.grants)
    assert ingest > backfill
    assert backfill >= (ingest + backfill) // 12


def test_a_wait_for_one_quota_does_not_delay_another(tmp_path: Path) -> None:
    slow = open_gate(tmp_path, QuotaConfig(name="slow", rates="1/m"))
    quick = open_gate(tmp_path, QuotaConfig(name="quick", rates="1000/s"))
    with slow, quick:
        slow.take()
        refused = []

        def wait_in_vain() -> None:
            try:
                slow.take(timeout_s=0.5)
            except PermitTimeout as error:
                refused.append(error)

        waiter = threading.Thread(target=wait_in_vain)
        waiter.start()
        began = time.monotonic()
        for _ in range(20):
            quick.take()
        assert time.monotonic() - began < 30
        waiter.join()
    assert len(refused) == 1


# -- kills --------------------------------------------------------------------------------------

_VICTIM = """
import sys, threading, time; from pathlib import Path
from headrace.quota import QuotaConfig, open_gate
gate = open_gate(Path(sys.argv[1]), QuotaConfig(name="q", rates="50/s"))
def run():
    while True:
        gate.take()
        sys.stdout.write(f"{time.monotonic_ns()}\\n"); sys.stdout.flush()
for _ in range(3): threading.Thread(target=run).start()
"""


def _kill_at_random(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    granted: list[int] = []
    log = folder / "victims"
    with gate_at(folder, "50/s") as gate, log.open("w") as output:
        for _ in range(kills):
            victim = subprocess.Popen(
                [sys.executable, "-c", _VICTIM, str(folder)], cwd=ROOT, stdout=output
            )
            size = log.stat().st_size
            while log.stat().st_size == size:
                time.sleep(0.01)
            time.sleep(chance.random() * 0.4)
            victim.kill()
            victim.wait()
            began = time.monotonic()
            gate.take(timeout_s=20)
            granted.append(time.monotonic_ns())
            assert time.monotonic() - began < 15, "a killed process took permits with it"
    lines = log.read_text().splitlines()
    granted += [int(line) for line in lines if len(line) == len(lines[0])]
    assert len(granted) > kills
    over = excess(sorted(granted), 50, SECOND)
    assert over.permits == 0 or over.early_ms < 25, over


def test_kills_lose_no_permit_for_longer_than_a_window(tmp_path: Path) -> None:
    _kill_at_random(tmp_path, kills=4, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_kills_at_any_moment(tmp_path: Path) -> None:
    _kill_at_random(tmp_path, kills=50, seed=2)


_PROBER = """
import sys, time; from pathlib import Path
from headrace.quota import BreakerConfig, QuotaConfig, open_gate
config = QuotaConfig(name="q", rates="none")
gate = open_gate(Path(sys.argv[1]), config, BreakerConfig(cooldown_s=0.2))
with gate.admit():
    print("probing", flush=True)
    time.sleep(60)
"""


def test_a_killed_probe_does_not_block_the_others(tmp_path: Path) -> None:
    config = BreakerConfig(cooldown_s=0.2)
    with open_gate(tmp_path, QuotaConfig(name="q", rates="none"), config) as gate:
        for _ in range(5):
            with gate.admit() as admission:
                admission.answered(500)
        prober = subprocess.Popen(
            [sys.executable, "-c", _PROBER, str(tmp_path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert prober.stdout is not None
        assert prober.stdout.readline() == "probing\n"
        with pytest.raises(PermitTimeout), gate.admit(timeout_s=0.6):
            pass
        prober.kill()
        prober.communicate()
        for _ in range(3):
            with gate.admit(timeout_s=10) as admission:
                admission.answered(200)
        assert gate.status().breaker.phase is Phase.CLOSED


def _probe_storm(folder: Path, sender: Connection) -> None:
    breaker = BreakerConfig(cooldown_s=0.3, cooldown_growth=1)
    probes: list[tuple[int, int]] = []
    with open_gate(folder, QuotaConfig(name="q", rates="none"), breaker) as gate:

        def fetch() -> None:
            with gate.admit() as admission:
                phase = gate.status().breaker.phase
                began = time.monotonic_ns()
                time.sleep(0.03)
                if phase is Phase.HALF_OPEN:
                    probes.append((began, time.monotonic_ns()))
                admission.answered(200)

        threads = [threading.Thread(target=fetch) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    sender.send(probes)


def test_one_probe_at_a_time_over_all_processes(tmp_path: Path) -> None:
    breaker = BreakerConfig(cooldown_s=0.3, cooldown_growth=1)
    with open_gate(tmp_path, QuotaConfig(name="q", rates="none"), breaker) as gate:
        for _ in range(5):
            with gate.admit() as admission:
                admission.answered(500)
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    children = [context.Process(target=_probe_storm, args=(tmp_path, sender)) for _ in range(3)]
    for child in children:
        child.start()
    probes = []
    for _ in children:
        assert receiver.poll(60)
        probes += receiver.recv()
    for child in children:
        child.join()
    probes.sort()
    assert len(probes) == 3
    assert all(later[0] >= earlier[1] for earlier, later in itertools.pairwise(probes))
