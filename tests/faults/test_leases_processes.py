"""Real processes that start at once, die, freeze, fork and crowd around one file of leases."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.leases import LeaseHeld, LeaseLost, LeaseStatus, SqliteLeases, hold

NAME = "coinbase/BTC-USD"

# Holds the lease, says so, then does what lines on stdin say.
HOLDER = """
import json, os, sys
from pathlib import Path
from headrace.leases import LeaseHeld, LeaseLost, SqliteLeases, hold

def say(**facts):
    # In one write: a child and its parent speak at the same time.
    sys.stdout.write(json.dumps(facts) + chr(10))
    sys.stdout.flush()

folder, run_id, ttl_s = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
lost = lambda loss: say(event="lost", reason=loss.reason)
try:
    with hold(SqliteLeases(folder), "coinbase/BTC-USD", run_id=run_id, ttl_s=ttl_s,
              on_lost=lost) as lease:
        say(event="holding", token=lease.token)
        for line in sys.stdin:
            if line.strip() == "end":
                break
            if line.strip() == "fork" and os.fork() == 0:
                break
            try:
                lease.check()
                say(event="checked")
            except LeaseLost as loss:
                say(event="refused", by=loss.holder.run_id if loss.holder else None)
    say(event="ended", pid=os.getpid())
except LeaseHeld as held:
    say(event="held", by=held.holder.run_id, pid=held.holder.pid)
    sys.exit(3)
"""


class Holder:
    """A process that holds, or fails to."""

    def __init__(self, folder: Path, run_id: str, ttl_s: float, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(folder), run_id, str(ttl_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
        )

    def says(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


Start = Callable[..., Holder]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Holder] = []

    def start_one(run_id: str, ttl_s: float = 60.0, **environment: str) -> Holder:
        started.append(Holder(tmp_path, run_id, ttl_s, **environment))
        return started[-1]

    yield start_one
    for holder in started:
        holder.process.kill()
        holder.process.communicate()


@pytest.fixture
def store(tmp_path: Path) -> SqliteLeases:
    return SqliteLeases(tmp_path)


def test_of_five_started_at_once_one_works(start: Start, store: SqliteLeases) -> None:
    holders = [start(f"run-{n}") for n in range(5)]
    said = [holder.says() for holder in holders]
    (winner,) = [n for n, answer in enumerate(said) if answer["event"] == "holding"]
    others = [n for n in range(5) if n != winner]
    assert [said[n]["by"] for n in others] == [f"run-{winner}"] * 4
    assert [said[n]["pid"] for n in others] == [holders[winner].process.pid] * 4
    assert [holders[n].process.wait(timeout=10) for n in others] == [3] * 4
    holders[winner].tell("end")
    assert holders[winner].says()["event"] == "ended"
    assert store.list()[0].status is LeaseStatus.FREE


def test_a_killed_holder_is_succeeded_at_once(start: Start, store: SqliteLeases) -> None:
    """Long before its hour is over, and while its parent has not even reaped it."""
    first = start("killed", 3600.0)
    token = first.says()["token"]
    with pytest.raises(LeaseHeld):
        store.acquire(NAME, run_id="next", ttl_s=60)
    first.process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, first.process.pid, os.WEXITED | os.WNOWAIT)
    grant = store.acquire(NAME, run_id="next", ttl_s=60)
    assert grant.token > token
    assert grant.predecessor is not None
    assert (grant.predecessor[0].run_id, grant.predecessor[1]) == ("killed", LeaseStatus.DEAD)


def test_a_frozen_holder_wakes_as_a_former_one(start: Start, store: SqliteLeases) -> None:
    frozen = start("frozen", 1.0)
    frozen.says()
    frozen.process.send_signal(signal.SIGSTOP)
    taken = acquired_within(store, 20)
    frozen.process.send_signal(signal.SIGCONT)
    frozen.tell("check")
    said = [frozen.says(), frozen.says()]
    assert {answer["event"] for answer in said} == {"lost", "refused"}
    # Its renewal ran again, and did not bring the lease back.
    frozen.tell("check")
    assert frozen.says()["event"] == "refused"
    frozen.tell("end")
    assert frozen.says()["event"] == "ended"
    store.check(taken)


def acquired_within(store: SqliteLeases, limit_s: float) -> Any:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return store.acquire(NAME, run_id="taker", ttl_s=60)
        except LeaseHeld:
            assert time.monotonic() < deadline, "the lease never ended"
            time.sleep(0.1)


def test_a_holder_killed_at_its_renewal_leaves_a_good_file(
    start: Start, store: SqliteLeases
) -> None:
    dying = start("dying", 3.0, HEADRACE_KILL_AT="during-renewal:2")
    dying.says()
    assert dying.process.wait(timeout=20) == -signal.SIGKILL
    assert store.acquire(NAME, run_id="next", ttl_s=60).predecessor is not None


def test_a_child_that_leaves_the_block_leaves_the_lease(start: Start, store: SqliteLeases) -> None:
    parent = start("parent")
    parent.says()
    parent.tell("fork")
    said = [parent.says(), parent.says()]
    (ended,) = [answer for answer in said if answer["event"] == "ended"]
    assert ended["pid"] != parent.process.pid
    parent.tell("check")
    assert parent.says() == {"event": "checked"}
    assert store.list()[0].status is LeaseStatus.HELD


CHURN = """
import sys
from pathlib import Path
from headrace.leases import SqliteLeases
store = SqliteLeases(Path(sys.argv[1]), busy_timeout_s=60)
print("ready", flush=True)
while True:
    grant = store.acquire(sys.argv[2], run_id="churn", ttl_s=600)
    for _ in range(3):
        grant = store.renew(grant)
    print(grant.token, flush=True)
    store.release(grant)
"""


@pytest.mark.long
def test_killed_at_random_moments(tmp_path: Path, store: SqliteLeases) -> None:
    """In the middle of whatever it is doing: the file stays good, the token never falls."""
    highest = 0
    for kill_after_s in (0.0, 0.003, 0.007, 0.011, 0.02, 0.05, 0.08, 0.13):
        churn = subprocess.Popen(
            [sys.executable, "-c", CHURN, str(tmp_path), NAME], stdout=subprocess.PIPE, text=True
        )
        assert churn.stdout is not None
        churn.stdout.readline()
        time.sleep(kill_after_s)
        churn.kill()
        said = churn.communicate()[0].split()
        grant = store.acquire(NAME, run_id="next", ttl_s=60)
        seen = [highest, *map(int, said), grant.token]
        assert seen == sorted(set(seen))
        highest = grant.token
        store.release(grant)
    with closing(sqlite3.connect(store.path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_crowd_of_threads_and_processes(tmp_path: Path) -> None:
    """Not one `database is locked`, although a reader keeps a transaction open all the time."""
    # Patient enough for a crowd on a slow disk; what does not wait for its turn fails all the same.
    store = SqliteLeases(tmp_path, busy_timeout_s=60)
    store.release(store.acquire("reader", run_id="r", ttl_s=600))
    errors: list[Exception] = []

    def work(name: str) -> None:
        try:
            for _ in range(5):
                grant = store.acquire(name, run_id="r", ttl_s=600)
                store.check(store.renew(grant))
                store.release(grant)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            errors.append(error)

    with closing(sqlite3.connect(store.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM lease").fetchone()
        churning = [
            subprocess.Popen(
                [sys.executable, "-c", CHURN, str(tmp_path), f"p{n}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for n in range(4)
        ]
        try:
            for churn in churning:
                assert churn.stdout is not None
                churn.stdout.readline()
            threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(50)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            ended = [churn.poll() for churn in churning]
        finally:
            complaints = []
            for churn in churning:
                churn.kill()
                complaints.append(churn.communicate()[1])
    assert errors == []
    assert complaints == [b""] * 4
    assert ended == [None] * 4
    assert len(store.list()) == 1 + 50 + 4


def test_renewal_survives_a_locked_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Locked for longer than a call waits, for less than the lease lasts."""
    store = SqliteLeases(tmp_path, busy_timeout_s=0.05)
    losses: list[LeaseLost] = []
    with hold(store, NAME, run_id="one", ttl_s=6.0, on_lost=losses.append) as lease:
        with closing(sqlite3.connect(store.path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            while lease.left_s > 3.0:
                time.sleep(0.1)
            writer.execute("ROLLBACK")
        while lease.left_s < 3.5 and not lease.lost:
            time.sleep(0.1)
        lease.check()
    assert losses == []
    assert "could not be renewed" in caplog.text


def test_a_file_locked_for_ever_loses_the_lease(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteLeases(tmp_path, busy_timeout_s=0.05)
    reported = threading.Event()
    with hold(store, NAME, run_id="one", ttl_s=0.6, on_lost=lambda loss: reported.set()) as lease:
        with closing(sqlite3.connect(store.path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            assert reported.wait(20)
        assert lease.lost
        with pytest.raises(LeaseLost, match=r"not renewed for 0\.6 s"):
            lease.check()
    assert "database is locked" in caplog.text
