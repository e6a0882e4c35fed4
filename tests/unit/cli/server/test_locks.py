"""The locks of the state folder: a stopped holder, counting, and what a death leaves behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.server import managed
from headrace.cli.server.state import UsersLock
from tests.support.stopped import stopped_holder

HOLD = """
import sys
from pathlib import Path
from headrace.cli.server.state import UsersLock
with UsersLock(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_stopped_holder_of_the_servers_lock_is_named_and_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(managed, "_EXIT_LOCK_TIMEOUT_S", 0.2)
    server = managed.ManagedServer(tmp_path)
    with stopped_holder(server.folder.control_lock) as pid:
        server._stop_if_unused()
    assert f"pid {pid}, which is stopped" in caplog.text


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
