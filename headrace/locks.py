"""File locks (flock) that are waited for with a limit, and the processes that hold a lock.

A lock ends with its holder, however that dies. But a holder that is stopped (SIGSTOP, a debugger)
keeps its locks for as long as it is stopped, and flock itself knows no time-out. So a process waits
here for a limited time, logs which process it waits for, and fails with the commands that wake or
end that process. The kernel lists the holders (`proc_locks(5)`): no file has to name them.

`docs/locks.md` lists every lock: its file, its holders, how long one waits for it, and what then.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.stopping import STOP

_log = logging.getLogger(__name__)

#: How long a lock is waited for unless its user says otherwise, in seconds.
DEFAULT_LIMIT_S = 30.0
#: After a wait of that many seconds the holder is logged.
LOG_AFTER_S = 5.0
#: A holder that is stopped is not waited for any longer than that, whatever the limit.
STOPPED_LIMIT_S = 30.0
#: Once this process was asked to stop, a wait goes on for at most that many seconds.
AFTER_STOP_S = 3.0
_SHORTEST_PAUSE_S = 0.0001
_LONGEST_PAUSE_S = 0.01
_LATE_PAUSE_S = 0.1
# A pause that took longer than that was spent stopped, or starved of the CPU, as the holder may
# have been: it must not use up the limit.
_LONGEST_COUNTED_S = 1.0

_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}
_LOCKS = Path("/proc/locks")
#: The bytes of a SQLite file, and of its -shm file, that a writer locks
#: (https://www.sqlite.org/walformat.html, "WAL_WRITE_LOCK"; os.h, "PENDING_BYTE").
_SQLITE_LOCKS = {"": 0x4000_0000, "-shm": 120}


@dataclass(frozen=True, slots=True)
class LockHolders:
    """The processes that hold a lock on a file.

    Attributes:
        path: the file.
        pids: their ids; empty where the system does not show them.
    """

    path: Path
    pids: tuple[int, ...] = ()

    def __str__(self) -> str:
        if not self.pids:
            return "another process"
        return " and ".join(
            f"pid {pid}, which is stopped" if is_stopped(pid) else f"pid {pid}" for pid in self.pids
        )

    @property
    def are_stopped(self) -> bool:
        """Whether all of them are; False where the system does not show them."""
        return bool(self.pids) and all(map(is_stopped, self.pids))

    @property
    def way_out(self) -> str:
        """What a person can do about them, as a sentence without its full stop."""
        if not self.pids:
            return f"`fuser -v {self.path}` shows the process; wake it or end it, then try again"
        pids = " ".join(map(str, self.pids))
        # A stopped process meets SIGTERM only once it is awake.
        return f"`kill -CONT {pids}` wakes it if it is stopped, `kill -KILL {pids}` ends it"


class LockTimeout(HeadraceError):
    """Another process kept a file locked for longer than the limit."""

    def __init__(self, holders: LockHolders, waited_s: float) -> None:
        super().__init__(
            f"{holders.path} is locked by {holders} (waited {waited_s:.3g} s)", hint=holders.way_out
        )
        self.path = holders.path
        self.pids = holders.pids
        self.waited_s = waited_s


def lock(
    descriptor: int,
    path: Path,
    *,
    shared: bool = False,
    limit_s: float | None = None,
    sleep: Callable[[float], object] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Lock the open file, waiting for other holders up to `limit_s` seconds (`DEFAULT_LIMIT_S`).

    A wait of more than five seconds is logged once, with the holder; one that is stopped is waited
    for at most 30 s. Time in which this process was stopped itself does not count. After a request
    to stop the wait goes on for three seconds at most.

    Args:
        descriptor: the open file; the lock ends when it is closed or unlocked.
        path: its path, for messages.
        shared: beside other shared holders.
        sleep: may raise to end the wait.

    Raises:
        LockTimeout: other processes kept it for longer.
        OSError: it cannot be locked.
    """
    if try_lock(descriptor, shared=shared):
        return
    waited_s, logged = 0.0, False
    until_s = DEFAULT_LIMIT_S if limit_s is None else limit_s
    while True:
        if STOP.is_set():
            until_s = min(until_s, waited_s + AFTER_STOP_S)
        if waited_s >= min(until_s, STOPPED_LIMIT_S):
            holders = flock_holders(descriptor, path)
            if waited_s >= until_s or holders.are_stopped:
                raise LockTimeout(holders, waited_s)
        if waited_s >= LOG_AFTER_S and not logged:
            logged = True
            holders = flock_holders(descriptor, path)
            _log.warning("waiting for the lock on %s, held by %s", path, holders)
        began = monotonic()
        # Short at first: most locks are held for less than a millisecond.
        longest_s = _LONGEST_PAUSE_S if waited_s < LOG_AFTER_S else _LATE_PAUSE_S
        pause_s = min(longest_s, max(_SHORTEST_PAUSE_S, waited_s / 4))
        sleep(pause_s * random.uniform(0.5, 1.0))
        if try_lock(descriptor, shared=shared):
            return
        waited_s += min(monotonic() - began, _LONGEST_COUNTED_S)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock the open file unless another holder has it; whether it is locked now.

    Raises:
        OSError: it cannot be locked; the text says so if its file system has no file locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        problem = f"{error.strerror}: the file system has no file locks; use one that has"
        raise OSError(error.errno, problem) from error
    return True


@contextmanager
def locked(
    path: Path,
    *,
    shared: bool = False,
    limit_s: float | None = None,
    sleep: Callable[[float], object] = time.sleep,
    mode: int = 0o600,
) -> Iterator[None]:
    """Hold the lock on the file at `path`, which is made with `mode` if missing; see `lock`."""
    with open_lock(path, mode=mode) as descriptor:
        lock(descriptor, path, shared=shared, limit_s=limit_s, sleep=sleep)
        yield


@contextmanager
def open_lock(path: Path, *, mode: int = 0o600) -> Iterator[int]:
    """The file at `path`, made with `mode` if missing, open for a lock until the block ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def flock_holders(descriptor: int, path: Path) -> LockHolders:
    """The processes that hold a flock on the open file."""
    return LockHolders(path, _pids([(os.fstat(descriptor), "FLOCK", 0)]))


def sqlite_holders(path: Path, error: BaseException) -> LockHolders | None:
    """Whom SQLite waited for in vain: the processes with a write transaction on the file at `path`.

    None unless `error` says that SQLite gave up waiting.
    """
    # Extended codes carry the primary one in their low byte; errors of the module have none.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return None
    wanted = []
    for suffix, byte in _SQLITE_LOCKS.items():
        try:
            # Never opened: closing a file takes this process's own SQLite locks on it away.
            found = path.with_name(path.name + suffix).stat()
        except OSError:
            continue
        wanted.append((found, "POSIX", byte))
    return LockHolders(path, _pids(wanted))


def _pids(wanted: list[tuple[os.stat_result, str, int]]) -> tuple[int, ...]:
    """Who holds one of the locks: file, kind of lock, first byte."""
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return ()
    exact: set[int] = set()
    alike: set[int] = set()
    for line in lines:
        fields = line.split()
        # 1: FLOCK  ADVISORY  WRITE 4242 fe:00:9981834 0 EOF, and `->` before those who wait.
        if len(fields) != 8 or fields[1] == "->":
            continue
        _, kind, _, access, pid, place, first, _ = fields
        device, _, inode = place.rpartition(":")
        for file, wanted_kind, byte in wanted:
            if (kind, first, inode) != (wanted_kind, str(byte), str(file.st_ino)):
                continue
            if kind == "POSIX" and access != "WRITE":
                continue
            alike.add(int(pid))
            # Some file systems show another device number here than in `stat`.
            if device == f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}":
                exact.add(int(pid))
    return tuple(sorted(pid for pid in exact or alike if pid > 0))


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped (SIGSTOP, Ctrl-Z, a debugger); False if it cannot be seen."""
    try:
        status = Path("/proc", str(pid), "stat").read_text(errors="replace")
    except OSError:
        return False
    # The command may hold brackets: the state follows the last one.
    return status.rpartition(")")[2].split()[0] in ("T", "t")
