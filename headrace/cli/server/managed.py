"""The local Prefect server that Headrace starts, finds again, restarts and stops."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headrace.cli.server import address
from headrace.cli.server.environment import server_environment
from headrace.cli.server.process import ManagedProcessError, NamedProcess
from headrace.cli.server.state import SERVER, ProcessRecord, StateFolder, UsersLock
from headrace.errors import ConfigurationError, StateError
from headrace.locks import LockTimeout, locked
from headrace.stopping import STOP, StopEvent

logger = logging.getLogger(__name__)

#: The slowest start was 23 s on two busy cores (nothing compiled, no database); at a load of 47 it
#: took more than two minutes. A server that ends meanwhile is noticed at once.
START_TIMEOUT_S = 240.0
#: Load for each core from which a start that takes too long is put down to it.
_HIGH_LOAD = 3.0
#: How long a server that lives may owe an answer before it is taken for stuck and replaced.
ANSWER_TIMEOUT_S = 30.0
#: How long a server may take to record its events before it ends (see `launch`: 20 s, and 3 s
#: for open pages), and how long one that is stuck or never came up may take.
_END_TIMEOUT_S = 30.0
# A run that is over does not wait for long: an unused server ends by itself.
_EXIT_LOCK_TIMEOUT_S = 10.0
_BROKEN_END_TIMEOUT_S = 2.0
#: The same after a Ctrl-C: who interrupts a command wants it to be over.
_INTERRUPTED_END_TIMEOUT_S = 4.0
_VACUUM_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Beside:
    """A process that `up` keeps beside the server.

    Attributes:
        name: what it is called in the state folder.
        command: what is started.
        environment: its whole environment, given the server's port.
    """

    name: str
    command: Sequence[str]
    environment: Callable[[int], Mapping[str, str]]


@dataclass(frozen=True)
class RunningServer:
    """A server that answers.

    Attributes:
        started_now: whether this call started it.
    """

    record: ProcessRecord
    started_now: bool

    @property
    def port(self) -> int:
        """The loopback port it listens on."""
        assert self.record.port is not None, "every server record has a port"
        return self.record.port

    @property
    def api_url(self) -> str:
        """What `PREFECT_API_URL` has to be."""
        return address.api_url(self.port)

    @property
    def ui_url(self) -> str:
        """Where a browser finds it."""
        return address.ui_url(self.port)


class ProcessStartError(ManagedProcessError):
    """A process ended, or did not answer, before it was ready."""

    def __init__(self, name: str, what: str, *, log_path: Path, last_lines: list[str]) -> None:
        shown = "".join(f"\n    {line}" for line in last_lines)
        said = f"The end of its log {log_path} reads:{shown}" if shown else "It wrote nothing"
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        if load > _HIGH_LOAD * cores:
            said = (
                f"The machine is busy (load {load:.0f} on {cores} cores): try again when it is "
                f"less so. {said}"
            )
        super().__init__(name, f"{name} {what}", hint=said)
        self.log_path = log_path
        self.last_lines = last_lines


class ServerElsewhereError(ConfigurationError):
    """The server already runs, but not on the port that was asked for."""

    def __init__(self, port: int, asked_for: int) -> None:
        super().__init__(
            f"the Prefect server already runs on port {port}, not on {asked_for}",
            hint="Run `headrace down` first to move it",
        )
        self.port = port


class ManagedServer:
    """The one Prefect server of a state folder, shared by all commands that use that folder.

    Args:
        home: `HEADRACE_HOME`.
        stop: looked at while waiting for a lock or for the server's first answer.

    Raises:
        StateFolderError: the folder cannot be made.
    """

    def __init__(self, home: Path, *, stop: StopEvent = STOP) -> None:
        self.folder = StateFolder(home)
        self.process = NamedProcess(self.folder, SERVER)
        self._users = UsersLock(self.folder.users_lock)
        self._stop = stop

    def running(self) -> RunningServer | None:
        """Return the server if its process lives, whether or not it answers yet."""
        record = self.process.running()
        return None if record is None else RunningServer(record, started_now=False)

    def in_use_now(self) -> bool:
        """Whether some command uses the server at this moment."""
        return not self._users.is_unused()

    def up(self, *, port: int | None = None, beside: Sequence[Beside] = ()) -> RunningServer:
        """Make the server run until `down`, and return it once it answers.

        Args:
            port: where it has to listen; by default where it did last, else 4200, else anywhere.
            beside: what has to run beside it. Started while the server starts, and restarted if
                it is gone or was started for a server on another port.

        Raises:
            PortTakenError: `port` is in use by someone else.
            ServerElsewhereError: it already runs, on another port.
            ProcessStartError: it did not start; the error shows the end of its log.
        """

        def starting(server: RunningServer) -> None:
            for each in beside:
                self._keep_beside(each, server.port)

        with self._controlled():
            try:
                running = self._running_or_started(port=port, kept=True, while_starting=starting)
            except BaseException:
                for each in beside:
                    self._stopped(each.name)
                raise
            if port not in (None, running.port):
                raise ServerElsewhereError(running.port, port)
            starting(running)
            if not running.record.kept:
                record = msgspec.structs.replace(running.record, kept=True)
                self.folder.write_record(record)
                running = RunningServer(record, running.started_now)
            return running

    def down(self) -> list[str]:
        """Stop everything that runs in this state folder; return the names of what was stopped.

        Raises:
            ProcessStopError: a process is still there after SIGKILL.
        """
        # What uses the server goes first.
        with locked(self.folder.control_lock, limit_s=START_TIMEOUT_S):
            names = sorted(self.folder.record_names(), key=lambda name: (name == SERVER, name))
            return [name for name in names if self._stopped(name)]

    def vacuum(self) -> tuple[int, int]:
        """Rewrite the database without its free pages, while no server runs; bytes before, after.

        Retention deletes rows (see `environment.RETENTION`); SQLite keeps their space for later.
        Needs as much free disk as the database has content. A kill leaves it as it was.

        Raises:
            StateError: it is in use, it is damaged, or the disk is full.
            LockTimeout: another command starts or stops something.
        """
        database, before = self.folder.database, self.folder.database_bytes()
        if not database.exists():
            return 0, 0
        with locked(self.folder.control_lock, limit_s=_VACUUM_TIMEOUT_S):
            if self.process.running() is not None:
                raise StateError(
                    f"{database} is in use: a server was started meanwhile",
                    hint="Run `headrace down --vacuum` when no command needs it",
                )
            try:
                with closing(sqlite3.connect(database, timeout=_VACUUM_TIMEOUT_S)) as connection:
                    connection.execute("VACUUM")
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:
                raise StateError(
                    f"{database} cannot be vacuumed ({error})",
                    hint="It is unchanged; check that nothing uses it and that the disk has room",
                ) from error
        return before, self.folder.database_bytes()

    @contextmanager
    def used(
        self, *, while_starting: Callable[[RunningServer], None] | None = None
    ) -> Iterator[RunningServer]:
        """Use the server for the time of a `with` block; start it for that time if it is not up.

        On the way out it is stopped, unless it is kept or another command uses it. Should this
        process be killed instead, the server notices and ends within seconds.

        Args:
            while_starting: called once the address is known and before the server answers, to do
                something useful in the seconds until then. Not called when it already runs.
        """
        try:
            # A user first and a starter second, so that no command stops what we are about to use.
            with self._users.held():
                with self._controlled():
                    server = self._running_or_started(kept=False, while_starting=while_starting)
                yield server
        finally:
            self._stop_if_unused()

    def _keep_beside(self, beside: Beside, port: int) -> None:
        process = NamedProcess(self.folder, beside.name)
        record = process.running()
        if record is None or record.port != port:
            # One that was killed may have left children; without this nothing would tell of them.
            process.stop(grace_s=_END_TIMEOUT_S)
            process.start(beside.command, environment=beside.environment(port), port=port)

    def _stopped(self, name: str) -> bool:
        return NamedProcess(self.folder, name).stop(grace_s=_END_TIMEOUT_S)

    def _controlled(self) -> AbstractContextManager[None]:
        return locked(self.folder.control_lock, limit_s=START_TIMEOUT_S, sleep=self._stop.sleep)

    def _running_or_started(
        self,
        *,
        kept: bool,
        port: int | None = None,
        while_starting: Callable[[RunningServer], None] | None = None,
    ) -> RunningServer:
        record = self.process.running()
        if record is not None and record.ending:
            self.process.stop(grace_s=_END_TIMEOUT_S)
        elif record is not None:
            server = RunningServer(record, started_now=False)
            if self._answers(server, ANSWER_TIMEOUT_S):
                return server
            logger.warning("the Prefect server (pid %d) is stuck; starting another", record.pid)
        # What `up` started and something else ended is missed until `down` says otherwise.
        last = self.folder.read_record(SERVER)
        kept = kept or (last is not None and last.kept)
        self.process.stop(grace_s=_BROKEN_END_TIMEOUT_S)
        return self._started(kept=kept, port=port, while_starting=while_starting)

    def _started(
        self,
        *,
        kept: bool,
        port: int | None,
        while_starting: Callable[[RunningServer], None] | None,
    ) -> RunningServer:
        preferred = (self.folder.last_port(), address.PREFERRED_PORT)
        with address.listen(port, preferred) as listener:
            port = listener.getsockname()[1]
            descriptor = listener.fileno()
            module = "headrace.cli.server.launch"
            record = self.process.start(
                [sys.executable, "-m", module, str(self.folder.path), str(descriptor)],
                environment=server_environment(self.folder, port),
                pass_fds=(descriptor,),
                port=port,
                kept=kept,
            )
        server = RunningServer(record, started_now=True)
        try:
            if while_starting is not None:
                while_starting(server)
            if not self._answers(server, START_TIMEOUT_S):
                raise self._start_error()
        except BaseException:
            self.process.stop(grace_s=_BROKEN_END_TIMEOUT_S)
            raise
        self.folder.remember_port(port)
        return server

    def _answers(self, server: RunningServer, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.process.running() is not None:
            if address.is_healthy(server.port):
                return True
            self._stop.sleep(0.05)
        return False

    def _start_error(self) -> ProcessStartError:
        ended = self.process.running() is None
        return ProcessStartError(
            "the Prefect server",
            "ended while it started" if ended else f"did not answer for {START_TIMEOUT_S:.0f} s",
            log_path=self.folder.log_path(SERVER),
            last_lines=self.folder.last_lines(SERVER, since=self.process.log_begin),
        )

    def _stop_if_unused(self) -> None:
        grace_s = _INTERRUPTED_END_TIMEOUT_S if self._stop.is_set() else _END_TIMEOUT_S
        # Not with the stop event's sleep: it is set when we get here after a Ctrl-C.
        try:
            with locked(self.folder.control_lock, limit_s=_EXIT_LOCK_TIMEOUT_S):
                record = self.process.running()
                if record is not None and not record.kept and self._users.is_unused():
                    self.process.stop(grace_s=grace_s)
        except LockTimeout as error:
            # The run itself is done: a process that keeps the lock must not change its result.
            logger.warning("the Prefect server is left to end by itself: %s", error)
