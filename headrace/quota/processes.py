"""The processes of a quota: which of them still run, and what a fork of one needs.

While a process forks, no thread of ours is inside SQLite, whose own mutexes would stay locked in
the child for ever. The child makes sessions of its own; it neither uses nor closes the parent's,
or SQLite would tidy up files that the parent works on.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol
from weakref import WeakSet

import psutil

from headrace.quota.clock import boot_id

#: What numbers of processes fit into; above them, a shared quota has what stands for the machine.
_PID_BITS = 24


class Owner(NamedTuple):
    """A process, distinct from a later one with the same number by when it began."""

    pid: int
    started: int

    @classmethod
    def this(cls, *, shared: bool = False) -> Owner:
        """The running process; `shared` distinguishes it from those of other machines, too."""
        pid = os.getpid()
        return cls(pid | this_machine() << _PID_BITS if shared else pid, _started(pid) or 0)

    @property
    def number(self) -> int:
        """Its number on its machine."""
        return self.pid & ((1 << _PID_BITS) - 1)

    @property
    def machine(self) -> int:
        """What stands for its machine; 0 where only this one is meant."""
        return self.pid >> _PID_BITS

    @property
    def elsewhere(self) -> bool:
        """Whether it runs on another machine (or in another container), out of our sight."""
        return self.machine not in (0, this_machine())

    @property
    def alive(self) -> bool:
        """Whether the process still runs (a zombie does not), or may do so elsewhere."""
        return self.elsewhere or _started(self.number) == self.started


@cache
def this_machine() -> int:
    """What stands for this machine since it was started, and for this container: 32 bits."""
    parts = [socket.gethostname(), boot_id()]
    with suppress(OSError):  # not Linux: no containers with numbers of their own
        parts.append(os.readlink("/proc/self/ns/pid"))  # noqa: PTH115 - not a path
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=4).digest()
    return int.from_bytes(digest) | 1


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


class Holdable(Protocol):
    """Something that can keep its threads out of its files for a moment."""

    def hold(self) -> None:
        """Wait until no thread is inside, and let none in."""

    def release(self) -> None:
        """Let them in again."""


_watched: WeakSet[Holdable] = WeakSet()
_held: list[Holdable] = []
_from_before: list[Holdable] = []
_opening = threading.Lock()


def watch(session: Holdable) -> None:
    """Hold a session while the process forks, for as long as it is in use."""
    _watched.add(session)


def keep(session: Holdable) -> None:
    """In the child: never close a session of the parent."""
    _from_before.append(session)


def opening() -> threading.Lock:
    """What a child's threads hold while one of them makes its session."""
    return _opening


def _before() -> None:
    _held.extend(_watched)
    for session in _held:
        session.hold()


def _in_parent() -> None:
    while _held:
        _held.pop().release()


def _in_child() -> None:
    global _opening
    _opening = threading.Lock()
    _from_before.extend(_held)
    _held.clear()
    _watched.clear()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
