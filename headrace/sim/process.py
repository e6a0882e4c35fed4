"""A simulated server in a process of its own: it shares no interpreter lock with a bench."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from typing import IO, Any, Generic, Self
from urllib.parse import urlsplit

from pydantic import BaseModel

from headrace.sim.arrivals import About, Arrival
from headrace.sim.exceptions import ControlError, ServerStartError
from headrace.sim.faults import F
from headrace.sim.http import HOST

_READY_S = 20.0
_STOP_S = 5.0
_CONTROL_TIMEOUT_S = 30.0

#: What control commands lie below; none of them counts for limits, latency, faults or the log.
PREFIX = "/_sim/"


class ChildServer(Generic[F]):
    """A simulated server as a child process, for the time of a `with` block.

    The child takes its settings as one line of JSON on stdin, writes its URL as one on stdout, and
    ends with this process, however that ends. It is controlled over its control endpoint.

    Args:
        kind: `exchange`, `keyed-exchange` or `looker`, as `headrace.sim.__main__` takes it.
        settings: of the simulation.
        fault_class: what faults are; text is read by its `parse`.
        subject: what arrivals are about, made from its fields.
        cpu: pin the child to this core, where the system can.

    Raises:
        ServerStartError: on entry, when the child does not come up.
    """

    def __init__(
        self,
        kind: str,
        settings: BaseModel,
        fault_class: type[F],
        subject: Callable[..., About],
        *,
        cpu: int | None,
    ) -> None:
        self._kind = kind
        self._fault_class = fault_class
        self._subject = subject
        self._settings = settings.model_dump_json()
        self._cpu = cpu
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "headrace.sim", self._kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        try:
            self.url = self._await_url(self._child)
        except BaseException:
            self._end()
            raise
        if self._cpu is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(self._child.pid, {self._cpu})
        return self

    def __exit__(self, *_raised: object) -> None:
        self._end()

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1."""
        return int(urlsplit(self.url).port or 0)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._running().pid

    def add_fault(self, fault: F | str) -> int:
        """Put a fault in force; returns its number."""
        fault = self._fault_class.parse(fault) if isinstance(fault, str) else fault
        return int(self._control("POST", "faults", fault.model_dump(mode="json"))["number"])

    def remove_fault(self, number: int) -> None:
        """Lift one fault."""
        self._control("DELETE", f"faults/{number}")

    def clear_faults(self) -> None:
        """Lift every fault."""
        self._control("DELETE", "faults")

    def stats(self, windows_s: Sequence[float] = (1.0,)) -> dict[str, Any]:
        """Counts; see `SimulatedService.stats`."""
        windows = ",".join(str(window) for window in windows_s)
        stats: dict[str, Any] = self._control("GET", f"stats?windows={windows}")
        return stats

    def arrivals(self) -> list[Arrival]:
        """The requests that arrived, oldest first."""
        return [
            Arrival(**{**arrival, "subject": self._subject(**arrival["subject"])})
            for arrival in self._control("GET", "arrivals")
        ]

    def reset_log(self) -> None:
        """Forget the requests so far."""
        self._control("POST", "reset", {})

    def _control(self, method: str, command: str, body: object = None) -> Any:
        wire = HTTPConnection(HOST, self.port, timeout=_CONTROL_TIMEOUT_S)
        try:
            wire.request(method, f"{PREFIX}{command}", None if body is None else json.dumps(body))
            answer = wire.getresponse()
            said = json.loads(answer.read())
        finally:
            wire.close()
        if answer.status != 200:
            raise ControlError(f"{method} {PREFIX}{command}", answer.status, said["message"])
        return said

    def _await_url(self, child: subprocess.Popen[bytes]) -> str:
        assert child.stdin is not None, "opened as a pipe"
        assert child.stdout is not None, "opened as a pipe"
        try:
            child.stdin.write(self._settings.encode() + b"\n")
            child.stdin.flush()
        except BrokenPipeError:
            pass  # it is gone already; its exit code and last output are reported below
        deadline = time.monotonic() + _READY_S
        readable, _, _ = select.select([child.stdout], [], [], _READY_S)
        line = child.stdout.readline() if readable else b""
        if not line:
            if readable:
                child.wait(max(0.1, deadline - time.monotonic()))
            raise ServerStartError(child.poll(), self._last_output())
        return str(json.loads(line)["url"])

    def _last_output(self) -> str:
        assert self._errors is not None, "opened before the child"
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-2000:]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise RuntimeError(f"enter the process first: with {type(self).__name__}(…)")
        return self._child

    def _end(self) -> None:
        child = self._running()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        child.terminate()
        try:
            child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if self._errors is not None:
            self._errors.close()
