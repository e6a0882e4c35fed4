"""Small file systems to fill up, and databases that cannot be written.

from tests.support.disks import commits, small_disk  # noqa: F401
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 320 KB, where the machine lets us mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def enlarge(disk: Path) -> None:
    """Give it room for all that a test stores."""
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)


class FailingCommits:
    """Lets SQLite's statements of one kind fail while `full` is set, as on a full disk."""

    def __init__(self) -> None:
        self.full = False
        self.statement = "COMMIT"

    def connect(self, *args: Any, **how: Any) -> sqlite3.Connection:
        """As `sqlite3.connect`."""
        return _connect(*args, factory=partial(_Connection, commits=self), **how)


_connect = sqlite3.connect


class _Connection(sqlite3.Connection):
    def __init__(self, *args: Any, commits: FailingCommits, **how: Any) -> None:
        super().__init__(*args, **how)
        self._commits = commits

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if self._commits.full and sql.startswith(self._commits.statement):
            super().execute("ROLLBACK")  # SQLite does so by itself when the disk is full
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return super().execute(sql, *args)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> FailingCommits:
    """Every connection to SQLite that is opened from now on can be made to fail."""
    failing = FailingCommits()
    monkeypatch.setattr(sqlite3, "connect", failing.connect)
    return failing
