"""Locks held by others: no process is starved, the event loop never waits, nothing dies."""

from __future__ import annotations

import asyncio
import fcntl
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.quota import Gate, PermitTimeout, QuotaConfig, QuotaUnavailable, open_gate
from headrace.quota.bucket import SlotLimiter
from headrace.stopping import StopEvent, Stopped


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    with open_gate(tmp_path, QuotaConfig(name="q", rates="100/s")) as opened:
        yield opened


@contextmanager
def lock_held(folder: Path, seconds: float) -> Iterator[None]:
    """Hold the lock file, as another process would in the middle of a booking."""
    with (folder / "quota-q.sqlite.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        timer = threading.Timer(seconds, fcntl.flock, (held, fcntl.LOCK_UN))
        timer.start()
        yield
        timer.join()


def test_a_booking_waits_for_the_lock_and_goes_on(gate: Gate, tmp_path: Path) -> None:
    with lock_held(tmp_path, 0.3):
        began = time.monotonic()
        gate.take()
        assert time.monotonic() - began >= 0.25


def test_the_event_loop_runs_on_while_another_holds_the_lock(gate: Gate, tmp_path: Path) -> None:
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.005)
            longest = max(longest, time.monotonic() - before)

    async def main() -> None:
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0.02)
        with lock_held(tmp_path, 1.0):
            assert await SlotLimiter(gate).try_acquire_async("x")
        watching.cancel()

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began > 0.9
    assert longest < 0.8


def test_a_reader_with_a_transaction_of_its_own_disturbs_no_other(
    gate: Gate, tmp_path: Path
) -> None:
    reader = sqlite3.connect(tmp_path / "quota-q.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM slots").fetchone()
    for _ in range(20):
        gate.take()
    reader.close()


def test_a_stranger_who_writes_is_waited_for(gate: Gate, tmp_path: Path) -> None:
    stranger = sqlite3.connect(
        tmp_path / "quota-q.sqlite", isolation_level=None, check_same_thread=False
    )
    stranger.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, stranger.execute, ("ROLLBACK",))
    timer.start()
    gate.take()
    timer.join()
    stranger.close()


def test_a_stranger_who_never_ends_is_named_and_no_permit_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.quota.storage.BUSY_TIMEOUT_S", 0.2)
    with open_gate(tmp_path, QuotaConfig(name="q", rates="100/s")) as gate:
        stranger = sqlite3.connect(tmp_path / "quota-q.sqlite", isolation_level=None)
        stranger.execute("BEGIN IMMEDIATE")
        with pytest.raises(QuotaUnavailable, match="locked"):
            gate.take()
        stranger.close()
        gate.take()


def test_a_hopeless_deadline_is_refused_without_sleeping(tmp_path: Path) -> None:
    with open_gate(tmp_path, QuotaConfig(name="slow", rates="1/h")) as gate:
        gate.take()
        with pytest.raises(PermitTimeout) as caught:
            gate.take(timeout_s=600)
        # What is left of the hour: after a wait it would be less.
        assert 3500 < caught.value.wait_s < 3700


def test_a_deadline_that_the_queue_makes_hopeless_is_refused_at_once(tmp_path: Path) -> None:
    stop = StopEvent()

    def wait() -> None:
        with pytest.raises(Stopped):
            gate.take(stop=stop)

    with open_gate(tmp_path, QuotaConfig(name="slow", rates="1/m")) as gate:
        gate.take()
        waiting = [threading.Thread(target=wait) for _ in range(3)]
        for thread in waiting:
            thread.start()
        while gate.counters._now_waiting["quota"] < 3:
            time.sleep(0.01)
        began = time.monotonic()
        with pytest.raises(PermitTimeout):
            gate.take(timeout_s=90)
        assert time.monotonic() - began < 30
        stop.set()
        for thread in waiting:
            thread.join()
