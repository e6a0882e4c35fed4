"""The locks of the state folder: exclusion, counting, and what a death leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.server import managed
from headrace.cli.server.exceptions import LockTimeoutError
from headrace.cli.server.locks import UsersLock, exclusive

HOLD = """
import sys
from pathlib import Path
from headrace.cli.server.locks import UsersLock
with UsersLock(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_waits_until_the_first_is_done(tmp_path: Path) -> None:
    lock = tmp_path / "control.lock"
    first = exclusive(lock, timeout_s=0)
    first.__enter__()
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 3:
            first.__exit__(None, None, None)

    with exclusive(lock, timeout_s=60, sleep=sleep):
        assert len(sleeps) == 3


def test_who_waits_too_long_is_told_what_for(tmp_path: Path) -> None:
    lock = tmp_path / "control.lock"
    with (
        exclusive(lock, timeout_s=0),
        pytest.raises(LockTimeoutError, match=str(lock)),
        exclusive(lock, timeout_s=0, sleep=lambda _: None),
    ):
        pytest.fail("two held it at once")


HOLD_ALONE = """
import sys
from pathlib import Path
from headrace.cli.server.locks import exclusive
with exclusive(Path(sys.argv[1]), timeout_s=0):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_frozen_holder_is_named_and_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(managed, "_EXIT_LOCK_TIMEOUT_S", 0.2, raising=False)
    monkeypatch.setattr(managed, "START_TIMEOUT_S", 0.2)
    server = managed.ManagedServer(tmp_path)
    server.folder.path.mkdir(parents=True, exist_ok=True)
    lock = server.folder.control_lock
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_ALONE, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        os.kill(holder.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            server._stop_if_unused()
        finally:
            holder.kill()
    assert f"pid {holder.pid}, which is frozen" in caplog.text


def test_an_error_inside_gives_the_lock_back(tmp_path: Path) -> None:
    lock = tmp_path / "control.lock"
    with pytest.raises(RuntimeError), exclusive(lock, timeout_s=0):
        raise RuntimeError
    with exclusive(lock, timeout_s=0):
        pass


def test_users_are_counted(tmp_path: Path) -> None:
    users = UsersLock(tmp_path / "users.lock")
    assert users.is_unused()
    with users.held():
        with users.held():
            assert not users.is_unused()
        assert not users.is_unused()
    assert users.is_unused()


def test_a_killed_user_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "users.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"held\n"
        assert not UsersLock(path).is_unused()
        user.kill()
        user.wait()
        assert UsersLock(path).is_unused()
