"""Which processes use a quota, and whether they still live."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import psutil


class Owner(NamedTuple):
    """A process, told apart from a later one with the same number by when it began."""

    pid: int
    started: int

    @classmethod
    def this(cls) -> Owner:
        """The running process."""
        pid = os.getpid()
        return cls(pid, _started(pid) or 0)

    @property
    def alive(self) -> bool:
        """Whether the process still runs (one that waits to be buried does not)."""
        return _started(self.pid) == self.started


def _started(pid: int) -> int | None:
    """When the process began, in clock ticks since boot on Linux; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _started_elsewhere(pid)
    except ProcessLookupError:
        return None
    state, *fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return None if state in "ZX" else int(fields[18])


def _started_elsewhere(pid: int) -> int | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else int(process.create_time())
    except psutil.NoSuchProcess:
        return None
