"""A process that is stopped (SIGSTOP) while it holds a lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FLOCK = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(descriptor, fcntl.LOCK_EX)
"""
_WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
"""
_WAIT = 'print("held", flush=True)\nsys.stdin.read()\n'


@contextmanager
def stopped_holder(path: Path) -> Iterator[int]:
    """The id of a stopped process that holds a flock on the file at `path`; it is killed after."""
    with _stopped(_FLOCK, path) as pid:
        yield pid


@contextmanager
def stopped_writer(path: Path) -> Iterator[int]:
    """The same of one with a write transaction on the SQLite file at `path`."""
    with _stopped(_WRITER, path) as pid:
        yield pid


@contextmanager
def _stopped(program: str, path: Path) -> Iterator[int]:
    command = [sys.executable, "-c", program + _WAIT, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            stop(process.pid)
            yield process.pid
        finally:
            process.kill()


def stop(pid: int) -> None:
    """Stop a child and wait until it is."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
