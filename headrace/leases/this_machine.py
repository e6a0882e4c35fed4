"""This machine as the leases see it: its clocks, and which processes are still alive.

Sources: `proc_pid_stat(5)`, `proc_sys_kernel(5)`, `namespaces(7)`, `time_namespaces(7)`.
"""

from __future__ import annotations

import os
import socket
import time
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Protocol

from headrace.leases.model import Process

_PROC = Path("/proc")


class Liveness(Enum):
    """What can be proven about a process."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


class Machine(Protocol):
    """The clocks and processes that a store judges by."""

    def now(self) -> datetime:
        """Wall clock, UTC."""

    def boot_s(self) -> float:
        """Seconds since boot, suspension included; never steps."""

    def me(self) -> Process:
        """The process that asks."""

    def liveness(self, process: Process, *, one_machine: bool) -> Liveness:
        """What can be proven about `process`.

        Args:
            process: the process in question.
            one_machine: only this machine can have written it, so that another boot id under our
                own host name means a reboot, not a namesake elsewhere.
        """


class ThisMachine:
    """`Machine` over the real clocks and `/proc`."""

    def now(self) -> datetime:
        """Wall clock, UTC."""
        return datetime.now(UTC)

    def boot_s(self) -> float:
        """Seconds since boot; where the system lacks that clock, monotonic seconds."""
        clock = getattr(time, "CLOCK_BOOTTIME", None)
        return time.monotonic() if clock is None else time.clock_gettime(clock)

    def me(self) -> Process:
        """The calling process; never remembered, since a fork changes it."""
        pid = os.getpid()
        stat = _stat(pid) if _proc_is_ours(pid) else None
        return Process(
            host=socket.gethostname(),
            pid=pid,
            boot_id=_text(_PROC / "sys/kernel/random/boot_id"),
            start_ticks=stat[0] if stat else None,
            pid_ns=_link(_PROC / "self/ns/pid"),
            time_ns=_link(_PROC / "self/ns/time"),
        )

    def liveness(self, process: Process, *, one_machine: bool) -> Liveness:
        """What boot id, pid namespace, pid and start time prove about `process`."""
        me = self.me()
        if process.boot_id is None or me.boot_id is None:
            return Liveness.UNKNOWN
        if process.boot_id != me.boot_id:
            rebooted = one_machine and process.host == me.host
            return Liveness.GONE if rebooted else Liveness.UNKNOWN
        seen_alike = (process.pid_ns, process.time_ns) == (me.pid_ns, me.time_ns)
        if not seen_alike or process.start_ticks is None or me.start_ticks is None:
            return Liveness.UNKNOWN
        try:
            os.kill(process.pid, 0)
        except ProcessLookupError:
            return Liveness.GONE
        except PermissionError:
            pass  # it exists and is another user's: its start time decides the rest
        stat = _stat(process.pid)
        if stat is None:
            # It ended just now, or /proc hides it (hidepid). Only the first may count as proof,
            # and the next look will show it.
            return Liveness.UNKNOWN
        start_ticks, finished = stat
        return Liveness.GONE if finished or start_ticks != process.start_ticks else Liveness.ALIVE


def _proc_is_ours(pid: int) -> bool:
    """Whether `/proc` counts processes as we do: not so after `unshare --pid` without a mount."""
    return _link(_PROC / "self") == str(pid)


def _stat(pid: int) -> tuple[int, bool] | None:
    """Start time in ticks, and whether only the exit status is left of it (a zombie)."""
    text = _text(_PROC / str(pid) / "stat")
    if text is None:
        return None
    # The command may hold blanks and brackets: the fields that matter follow the last one.
    fields = text.rpartition(")")[2].split()
    state, threads, start_ticks = fields[0], int(fields[17]), int(fields[19])
    # A process whose first thread has ended looks like a zombie while others still work.
    return start_ticks, state in "ZX" and threads <= 1


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _link(path: Path) -> str | None:
    try:
        return str(path.readlink())
    except OSError:
        return None


#: Where leases are judged unless a test says otherwise.
THIS_MACHINE = ThisMachine()
