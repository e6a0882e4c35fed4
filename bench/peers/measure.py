"""A program as the kernel accounts for it: wall time, processor time, memory; and its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_LOOK_EVERY_S = 0.2
#: A search for children reads all of /proc.
_LOOKS_PER_SEARCH = 5
_HIGH_WATER = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Used:
    """What a program and its children took.

    Attributes:
        code: its exit code; negative for the signal that ended it.
        wall_s: from its start to its end.
        cpu_s: user and system, its own and that of the children it waited for (`wait4`).
        peak_mb: the most that all its processes held at once, shared pages divided among them,
            looked at every 0.2 s; never less than the kernel's high-water mark of one of them.
            (That of `wait4` is no use: it begins with what this process held when it forked.)
        last_line: the last line that it wrote.
    """

    code: int
    wall_s: float
    cpu_s: float
    peak_mb: int
    last_line: str


class Program:
    """A program in a session of its own, measured from its start to its end.

    Args:
        command: its path and arguments.
        log: where its output goes.
        cwd: where it runs.
        environment: its variables.
    """

    def __init__(
        self, command: Sequence[str], log: Path, *, cwd: Path, environment: Mapping[str, str]
    ) -> None:
        self._log = log
        self._family = Family()
        self._began = time.monotonic()
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._await_end, self._watch)]
        for thread in self._threads:
            thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            self._family.look(self._process.pid)

    def _await_end(self) -> None:
        _, status, usage = os.wait4(self._process.pid, 0)
        self._wall_s = time.monotonic() - self._began
        self._usage = usage
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._ended.set()

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._ended.is_set()

    def kill(self) -> None:
        """SIGKILL to it and to all of its session, unless it is over."""
        if not self.ended:
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, timeout_s: float, kill_when: Callable[[], bool] = lambda: False) -> Used:
        """Wait for its end.

        Args:
            timeout_s: then it is killed.
            kill_when: looked at five times a second; when it holds, the program is killed.

        Raises:
            TimeoutError: it was killed because it took too long.
        """
        late = False
        while not self._ended.wait(_LOOK_EVERY_S):
            late = time.monotonic() - self._began > timeout_s
            if late or kill_when():
                self.kill()
                break
        for thread in self._threads:
            thread.join()
        if late:
            raise TimeoutError(f"it took more than {timeout_s:.0f} s: {self._process.args!r}")
        lines = self._log.read_text(errors="replace").split("\n")
        usage = self._usage
        return Used(
            code=self._process.returncode,
            wall_s=round(self._wall_s, 2),
            cpu_s=round(usage.ru_utime + usage.ru_stime, 2),
            peak_mb=self._family.peak_kb // 1024,
            last_line=next((line.strip() for line in reversed(lines) if line.strip()), ""),
        )


class Family:
    """A process and all below it, looked at now and then."""

    def __init__(self) -> None:
        self.peak_kb = 0
        self._members: list[psutil.Process] = []
        self._looks = 0

    def look(self, pid: int) -> int:
        """What they hold now, in kB, which counts for the peak."""
        if self._looks % _LOOKS_PER_SEARCH == 0:
            self._members = _family(pid)
        self._looks += 1
        held_kb = 0
        for process in self._members:
            try:
                held_kb += process.memory_full_info().pss // 1024
                status = Path(f"/proc/{process.pid}/status").read_text()
            except (
                psutil.NoSuchProcess,
                psutil.AccessDenied,
                FileNotFoundError,
                ProcessLookupError,
            ):
                continue  # it has just ended
            if mark := _HIGH_WATER.search(status):
                self.peak_kb = max(self.peak_kb, int(mark[1]))
        self.peak_kb = max(self.peak_kb, held_kb)
        return held_kb


def _family(pid: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_s(pid: int) -> float:
    """User and system seconds of a process that runs, and of children that it waited for."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
