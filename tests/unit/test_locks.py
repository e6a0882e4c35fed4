"""Every lock of ours while a stopped process holds it: a limited wait, a name, a way out."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from headrace import locks
from headrace.cli.server.state import UsersLock
from headrace.errors import HeadraceError
from headrace.lake.local import LocalStore
from headrace.leases import SqliteLeases
from headrace.leases.exceptions import LeaseStoreUnavailable
from headrace.locks import LockTimeout, locked
from headrace.looker.vault import VaultBusy
from headrace.looker.vault import file as vault_file
from headrace.metrics import Meter, SinkError, prometheus
from headrace.metrics.catalogue import REQUESTS
from headrace.metrics.prometheus import PrometheusFile
from headrace.quota import Gate, QuotaConfig, QuotaUnavailable, open_gate, storage
from headrace.quota.status import inspect, reset_quota
from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.exceptions import StoreUnavailable
from headrace.sot.unsharded_log import OldLog
from headrace.stopping import STOP
from tests.support.sot_streams import made, write
from tests.support.stopped import stopped_holder, stopped_writer
from tests.support.vaults import dashboard, new_vault, store


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "DEFAULT_LIMIT_S", 0.3)
    monkeypatch.setattr(locks, "LOG_AFTER_S", 0.1)
    monkeypatch.setattr(storage, "BUSY_TIMEOUT_S", 0.3)
    monkeypatch.setattr(vault_file, "BUSY_TIMEOUT_S", 0.3)
    monkeypatch.setattr(prometheus, "_LOCK_WAIT_S", 0.3)


def hold_once(path: Path, waits: threading.Event) -> bool:
    def sleep(seconds: float) -> None:
        waits.set()
        time.sleep(seconds)

    with locked(path, limit_s=60, sleep=sleep):
        return True


@contextmanager
def named(pid: int, error: type[HeadraceError]) -> Iterator[None]:
    """What is done in the block fails with a message that names the process and the way out."""
    with pytest.raises(error) as caught:
        yield
    assert f"pid {pid}, which is stopped" in str(caught.value)
    assert f"`kill -CONT {pid}` wakes it" in str(caught.value)


def test_a_stopped_holder_is_waited_for_with_a_limit_and_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.lock"
    with stopped_holder(path) as pid, named(pid, LockTimeout), locked(path):
        pytest.fail("two held it at once")
    assert f"{path}, held by pid {pid}, which is stopped" in caplog.text


def test_a_stopped_holder_is_not_waited_for_as_long_as_a_slow_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "STOPPED_LIMIT_S", 0.2)
    path = tmp_path / "a.lock"
    with stopped_holder(path) as pid, named(pid, LockTimeout), locked(path, limit_s=3600):
        pytest.fail("two held it at once")


def test_a_lock_that_is_given_back_in_time_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    waits = threading.Event()
    with ThreadPoolExecutor() as pool, suppress(RuntimeError), locked(path, limit_s=0):
        second = pool.submit(hold_once, path, waits)
        assert waits.wait(60)
        raise RuntimeError("an error gives it back as well")
    assert second.result()


def test_shared_holders_do_not_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with (
        locked(path, shared=True),
        locked(path, shared=True, limit_s=0),
        pytest.raises(LockTimeout, match=f"pid {os.getpid()} "),
        locked(path, limit_s=0),
    ):
        pytest.fail("held alone beside others")


def test_time_in_which_the_waiting_process_was_stopped_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    now_s, pauses = 0.0, 0

    def sleep(_: float) -> None:
        nonlocal now_s, pauses
        now_s, pauses = now_s + 3600.0, pauses + 1
        if pauses == 3:
            holder.__exit__(None, None, None)

    holder = locked(path)
    holder.__enter__()
    with locks.open_lock(path) as descriptor:
        locks.lock(descriptor, path, limit_s=10, sleep=sleep, monotonic=lambda: now_s)
    assert pauses == 3


def test_after_a_request_to_stop_a_wait_ends_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "AFTER_STOP_S", 0.1)
    path = tmp_path / "a.lock"
    STOP.set()
    try:
        with locked(path), pytest.raises(LockTimeout), locked(path, limit_s=3600):
            pytest.fail("two held it at once")
    finally:
        STOP.clear()


def test_where_the_kernel_does_not_list_locks_the_way_out_is_fuser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_LOCKS", tmp_path / "none")
    path = tmp_path / "a.lock"
    with locked(path), pytest.raises(LockTimeout, match="fuser -v"), locked(path):
        pytest.fail("two held it at once")


def test_the_users_of_the_server(tmp_path: Path) -> None:
    path = tmp_path / "users.lock"
    with stopped_holder(path) as pid, named(pid, LockTimeout), UsersLock(path).held():
        pytest.fail("a user beside one that looks whether there are any")


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    with open_gate(tmp_path, QuotaConfig(name="q", rates="100/s")) as opened:
        yield opened


@pytest.mark.parametrize("name", ["quota-q", "breaker-q"])
def test_quota_and_breaker(gate: Gate, tmp_path: Path, name: str) -> None:
    gate.take()
    with stopped_holder(tmp_path / f"{name}.sqlite.lock") as pid:
        with named(pid, QuotaUnavailable):
            gate.session.breaker.reset() if name == "breaker-q" else gate.take()
        with named(pid, QuotaUnavailable), open_gate(tmp_path, gate.config):
            pytest.fail("opened without its lock")
        if name == "quota-q":
            with named(pid, QuotaUnavailable):
                reset_quota(tmp_path, "q", bookings=False)
            assert inspect(tmp_path, "q").name == "q", "looking needs no lock of the quota"
    gate.take()


def test_many_threads_do_not_wait_for_the_quota_one_after_the_other(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "DEFAULT_LIMIT_S", 1.0)
    monkeypatch.setattr(storage, "_NEXT_LIMIT_S", 0.0)
    waits: list[float] = []
    lock = locks.lock

    def noting(*args: object, limit_s: float | None = None, **options: object) -> None:
        waits.append(1.0 if limit_s is None else limit_s)
        lock(*args, limit_s=limit_s, **options)

    monkeypatch.setattr(storage, "lock", noting)
    with stopped_holder(tmp_path / "quota-q.sqlite.lock"):
        for _ in range(3):
            with pytest.raises(QuotaUnavailable):
                gate.take()
    assert sum(waits) == 1.0
    gate.take()
    assert waits[-1] == 0.0
    gate.take()
    assert waits[-1] == 1.0


def test_a_writer_of_the_quotas_database(gate: Gate, tmp_path: Path) -> None:
    gate.take()
    gate.close()
    with (
        stopped_writer(tmp_path / "quota-q.sqlite") as pid,
        named(pid, QuotaUnavailable),
        open_gate(tmp_path, gate.config),
    ):
        pytest.fail("opened while another writes")


def test_the_vault(tmp_path: Path) -> None:
    with new_vault(tmp_path) as vault:
        store(vault, dashboard(1))
        path = vault.path
        with stopped_holder(path.with_name(path.name + ".lock")) as pid, named(pid, VaultBusy):
            store(vault, dashboard(2))
        with (
            stopped_writer(path) as pid,
            closing(vault_file.VaultFile(path)) as other,
            named(pid, VaultBusy),
            other.writing(),
        ):
            pytest.fail("two wrote at once")
        store(vault, dashboard(2))


def test_a_volume_of_the_log(tmp_path: Path) -> None:
    opened = EmbeddedStore(tmp_path)
    write(opened, made(10, symbols=1), per_chunk=5, linger_s=0)
    (volume,) = tmp_path.glob("volume-*.sot")
    with stopped_holder(volume) as pid:
        with named(pid, StoreUnavailable):
            list(opened.scan(1))
        with named(pid, StoreUnavailable):
            opened.claim(1, first_seq=1)
    assert list(opened.scan(1))
    opened.close()


def test_the_old_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.sot.unsharded_log._BUSY_MS", 100)
    old = OldLog(tmp_path / "old.sqlite", create=True)
    with stopped_writer(old.path) as pid, named(pid, StoreUnavailable):
        old.append(record.body for record in made(1, symbols=1))


def test_the_file_of_metrics(tmp_path: Path) -> None:
    path = tmp_path / "headrace.prom"
    meter = Meter()
    meter.count(REQUESTS, source="x", product="p")
    with stopped_holder(tmp_path / ".headrace.prom.lock") as pid, named(pid, SinkError):
        PrometheusFile(path).publish(meter.take(), 0.0)


def test_leases(tmp_path: Path) -> None:
    leases = SqliteLeases(tmp_path, busy_timeout_s=0.2)
    leases.acquire("a", run_id="r", ttl_s=60)
    with stopped_writer(leases.path) as pid, named(pid, LeaseStoreUnavailable):
        leases.acquire("b", run_id="r", ttl_s=60)
    leases.acquire("b", run_id="r", ttl_s=60)


def test_a_part_is_written_though_a_stopped_sweep_holds_its_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def taken_once(descriptor: int) -> bool:
        if not taken:
            other = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
            fcntl.flock(other, fcntl.LOCK_EX)
            taken.append(other)
        return locks.try_lock(descriptor)

    monkeypatch.setattr("headrace.lake.local.try_lock", taken_once)
    lake = LocalStore(tmp_path)
    lake.put("a/part", b"content")
    os.close(taken[0])
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["part"]
    assert lake.get("a/part") == b"content"
