"""A named process that outlives the command which started it, and is found again by later ones.

A pid alone says little: the process may be dead and its number another's. So each process of ours
carries a random token in its environment, which its children inherit: who carries it is ours,
whatever the clock did meanwhile, and no other process is ever signalled.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Mapping, Sequence

import psutil

from headrace.cli.server.state import ProcessRecord, StateFolder
from headrace.errors import HeadraceError
from headrace.locks import is_stopped

TOKEN_VARIABLE = "HEADRACE_PROCESS_TOKEN"

#: A program that has just been started has its environment by then, on any machine.
_EXEC_TAKES_S = 1.0

# Popen warns when it is forgotten while its process runs, which is what these are made for.
_started_here: dict[int, subprocess.Popen[bytes]] = {}


class ManagedProcessError(HeadraceError):
    """A process of ours did not start or stop."""

    def __init__(self, name: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.name = name


class ProcessStopError(ManagedProcessError):
    """A process of ours is still there after SIGTERM, SIGKILL and a wait."""

    def __init__(self, name: str, pids: list[int]) -> None:
        numbers = ", ".join(map(str, pids))
        super().__init__(
            name,
            f"{name} (pid {numbers}) does not end, not even after SIGKILL",
            hint="It may hang in the kernel on a disk; look at it with `ps -o pid,stat,wchan`",
        )
        self.pids = pids


class NamedProcess:
    """One process under a name, for example `server`, of which at most one runs per state folder.

    Not locked: a caller of `start` or `stop` holds `StateFolder.control_lock`.
    """

    def __init__(self, folder: StateFolder, name: str) -> None:
        self.folder = folder
        self.name = name
        #: Where in the log the output of the process begins that was started here.
        self.log_begin = 0

    def running(self) -> ProcessRecord | None:
        """Return the note on this process if it lives; None for a dead or a recycled pid."""
        record = self.folder.read_record(self.name)
        if record is None:
            return None
        deadline = time.monotonic() + _EXEC_TAKES_S
        while _begins(record.pid) and time.monotonic() < deadline:
            time.sleep(0.005)
        return record if _carries(record.pid, record.token) else None

    def stopped(self) -> list[int]:
        """The ids of this process and of its children that are stopped (SIGSTOP, Ctrl-Z)."""
        record = self.running()
        if record is None:
            return []
        try:
            children = [child.pid for child in psutil.Process(record.pid).children()]
        except psutil.NoSuchProcess:
            return []
        return [pid for pid in (record.pid, *sorted(children)) if is_stopped(pid)]

    def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        pass_fds: Sequence[int] = (),
        port: int | None = None,
        kept: bool = True,
    ) -> ProcessRecord:
        """Start `command` away from the terminal, its output appended to its log.

        It runs in the state folder, in a session of its own (a Ctrl-C reaches the command that
        started it, not the process), with files for the user alone.
        """
        self.folder.turn_log(self.name)
        token = secrets.token_hex(16)
        with self.folder.log_path(self.name).open("ab") as log:
            self.log_begin = log.tell()
            child = subprocess.Popen(
                command,
                env={**environment, TOKEN_VARIABLE: token},
                cwd=self.folder.path,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=pass_fds,
                umask=0o077,
            )
        _started_here[child.pid] = child
        record = ProcessRecord(
            name=self.name, pid=child.pid, token=token, started_at=time.time(), port=port, kept=kept
        )
        self.folder.write_record(record)
        return record

    def stop(self, *, grace_s: float = 10.0) -> bool:
        """End the process and all its descendants; return whether there was anything to end.

        SIGTERM to the process, `grace_s` seconds, SIGTERM to what it left behind, then SIGKILL.

        Raises:
            ProcessStopError: something is still there after that.
        """
        record = self.folder.read_record(self.name)
        if record is None:
            return False
        family = _all_carrying(record.token)
        _signal_and_wait([p for p in family if p.pid == record.pid], "terminate", grace_s)
        left = _all_carrying(record.token)
        _signal_and_wait(left, "terminate", min(grace_s, 3.0))
        _signal_and_wait(_all_carrying(record.token), "kill", 5.0)
        if still_there := _all_carrying(record.token):
            raise ProcessStopError(self.name, [p.pid for p in still_there])
        _started_here.pop(record.pid, None)
        self.folder.remove_record(self.name)
        return bool(family)


def end_others_carrying(token: str, *, grace_s: float) -> bool:
    """End whatever carries this token, except the calling process; return whether there was any."""
    others = _all_carrying(token)
    _signal_and_wait(others, "terminate", grace_s)
    _signal_and_wait(_all_carrying(token), "kill", 5.0)
    return bool(others)


def _begins(pid: int) -> bool:
    """Whether a process is at its very beginning, where its environment cannot be read yet."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and not process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _carries(pid: int, token: str) -> bool:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            _reap(pid)
            return False
        return process.environ().get(TOKEN_VARIABLE) == token
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _reap(pid: int) -> None:
    if pid in _started_here:
        _started_here.pop(pid).wait()


def _all_carrying(token: str) -> list[psutil.Process]:
    # The token reaches this process too when it is a descendant, which must not end itself.
    return [p for p in psutil.process_iter() if p.pid != os.getpid() and _carries(p.pid, token)]


def _signal_and_wait(processes: list[psutil.Process], move: str, timeout_s: float) -> None:
    # psutil compares start times before it signals, which closes the gap since the token was read.
    for process in processes:
        try:
            getattr(process, move)()
        except psutil.NoSuchProcess:
            continue
    deadline = time.monotonic() + timeout_s
    while any(_lives(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.02)


def _lives(process: psutil.Process) -> bool:
    """False for one that has ended but that its parent, as the init of a container, leaves."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
