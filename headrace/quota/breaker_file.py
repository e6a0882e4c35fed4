"""One circuit breaker for all processes, in SQLite; it survives restarts."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from headrace.amounts import counted
from headrace.quota.breaker import BreakerState, Pass, Phase
from headrace.quota.clock import NS, Clock
from headrace.quota.config import BreakerConfig
from headrace.quota.processes import Owner
from headrace.quota.server_outage import patiently
from headrace.quota.storage import Shareable, StateFile, StateStore

log = logging.getLogger(__name__)

T = TypeVar("T")

_TABLES = """
CREATE TABLE breaker (
    boot_id TEXT NOT NULL,
    phase TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    successes INTEGER NOT NULL,
    pauses INTEGER NOT NULL,
    outage_began INTEGER NOT NULL,
    reopens INTEGER NOT NULL,
    probe INTEGER NOT NULL,
    prober_pid INTEGER,
    prober_started INTEGER,
    probe_until INTEGER NOT NULL
)
"""
# Beside the table, since versions that do not know of it share the file.
_FAILING = "CREATE TABLE IF NOT EXISTS failing (request INTEGER PRIMARY KEY)"
#: All of them, where they are made together.
BREAKER_TABLES = f"{_TABLES};\n{_FAILING}"
_COLUMNS = (
    "phase", "epoch", "failures", "successes", "pauses", "outage_began", "reopens", "probe",
    "prober_pid", "prober_started", "probe_until",
)  # fmt: skip
_READ = f"SELECT {', '.join(_COLUMNS)} FROM breaker"
_WRITE = f"UPDATE breaker SET {', '.join(f'{name} = ?' for name in _COLUMNS)}"


@dataclass(frozen=True, slots=True)
class BreakerChange:
    """The breaker went from one phase to another.

    Attributes:
        name: whose breaker.
        before: the former phase.
        after: the phase now.
        failures: consecutive failures that led to it.
        pause_s: how long nothing goes now, in seconds (0 unless it opened).
    """

    name: str
    before: Phase
    after: Phase
    failures: int
    pause_s: float


Listener = Callable[[BreakerChange], object]


class Breaker:
    """The breaker of one server, as one process sees it. Safe for many threads.

    Args:
        path: its file, or the server of the ledger.
        name: whose breaker it is, for messages.
        config: when to open and for how long.
        clock: the time.
        listeners: called with every change that this process makes, in the thread that made it.
        ledger: what holds it where many machines share it.

    Raises:
        QuotaUnavailable: the file cannot be used.
    """

    def __init__(
        self,
        path: Path | str,
        name: str,
        config: BreakerConfig,
        clock: Clock,
        listeners: list[Listener] | None = None,
        ledger: Shareable | None = None,
    ) -> None:
        self.name = name
        self.config = config
        self.listeners = [] if listeners is None else listeners
        self._clock = clock
        #: Whether what `ask` says may be a little out of date, so that `still_holds` has to follow.
        self.shared = ledger is not None
        self._me = Owner.this(shared=self.shared)
        self._mutex = threading.Lock()
        self._file: StateStore = (
            StateFile(Path(path), schema=_TABLES, version=1, found=self._found)
            if ledger is None
            else ledger.attach(self._found)
        )

    def ask(self) -> Pass | int:
        """A pass for one request, or the moment (clock's nanoseconds) to ask again."""
        phase, epoch, _ = self._glance(lenient=True)
        if phase == Phase.CLOSED:
            return Pass(epoch)
        return self._change(lambda state, now: state.ask(now, self._me, self.config))

    def still_holds(self, given: Pass) -> bool:
        """Ask again just before the request leaves: is the pass still good?"""
        if not given.probe:
            phase, epoch, _ = self._glance()
            return phase == Phase.CLOSED and epoch == given.epoch

        def renew(state: BreakerState, now: int) -> tuple[BreakerState, bool]:
            if state.holds(given):
                return state.renewed(given, now, self.config), True
            return state, False

        return self._change(renew)

    def succeeded(self, given: Pass) -> None:
        """The server answered, be it with a refusal."""
        _, epoch, failures = patiently(lambda: self._glance(lenient=True))
        if epoch == given.epoch and (failures or given.probe):
            self._note(lambda state, _: state.succeeded(given, self.config))

    def failed(self, given: Pass, request: int | None = None) -> None:
        """The server failed: a 5xx, no answer in time, no connection, or a broken answer.

        Failures of the same `request` count once; those of None count each.
        """
        self._note(lambda state, now: state.failed(given, now, self.config, request))

    def dropped(self, given: Pass) -> None:
        """The request ended without saying anything about the server."""
        if given.probe:
            self._note(lambda state, _: state.dropped(given))

    def reset(self) -> None:
        """Close the breaker by hand and forget the outage."""
        self._change(
            lambda state, _: (BreakerState(epoch=state.epoch + 1, probe=state.probe), None)
        )

    def state(self) -> BreakerState:
        """Everything that the breaker knows now."""
        with self._mutex:
            return self._file.look(read_breaker)

    def hold(self) -> None:
        """Let no thread of this process into the file until `release`: a fork is under way."""
        self._mutex.acquire()

    def release(self) -> None:
        """End what `hold` began."""
        self._mutex.release()

    def close(self) -> None:
        """Close the file."""
        with self._mutex:
            self._file.close()

    def _glance(self, *, lenient: bool = False) -> tuple[str, int, int]:
        """Phase, epoch and failures, without the lock: this is asked twice for every request."""
        with self._mutex:
            return self._file.peek(_glance, lenient=lenient)

    def _note(self, step: Callable[[BreakerState, int], BreakerState]) -> None:
        """Note what became of a request; it is not lost because a server is away."""
        patiently(lambda: self._change(lambda state, now: (step(state, now), None)))

    def _change(self, step: Callable[[BreakerState, int], tuple[BreakerState, T]]) -> T:
        """Take one step of the machine in a transaction, then report a change of phase."""

        def transact(connection: sqlite3.Connection) -> tuple[BreakerState, BreakerState, T]:
            before = read_breaker(connection)
            after, result = step(before, self._clock.now())
            if after != before:
                _write(connection, after)
            if after.failing != before.failing:
                _write_failing(connection, after)
            return before, after, result

        with self._mutex:
            before, after, result = self._file.change(transact)
        if after.phase is not before.phase:
            self._report(before, after)
        return result

    def _report(self, before: BreakerState, after: BreakerState) -> None:
        pause_s = 0.0
        if after.phase is Phase.OPEN:
            pause_s = (after.reopens - self._clock.now()) / NS
            log.warning(
                "breaker %s: open after %s in a row; next probe in %.0f s",
                self.name,
                counted(after.failures, "failure"),
                pause_s,
            )
        elif after.phase is Phase.HALF_OPEN:
            log.info("breaker %s: half-open; one request at a time goes as a probe", self.name)
        else:
            log.info("breaker %s: closed", self.name)
        change = BreakerChange(self.name, before.phase, after.phase, after.failures, pause_s)
        for listener in self.listeners:
            listener(change)

    def _found(self, connection: sqlite3.Connection, _lost: bool) -> None:
        """Take over what an earlier run knew; a reboot begins an open breaker's pause again."""
        connection.execute(_FAILING)
        row = connection.execute("SELECT boot_id FROM breaker").fetchone()
        if row is None:
            connection.execute(
                f"INSERT INTO breaker VALUES (?{', ?' * 11})",
                (self._clock.boot_id, *_columns(BreakerState())),
            )
        elif row[0] != self._clock.boot_id:
            state = read_breaker(connection).restarted(self._clock.now(), self.config)
            connection.execute("UPDATE breaker SET boot_id = ?", (self._clock.boot_id,))
            _write(connection, state)


def _glance(connection: sqlite3.Connection) -> tuple[str, int, int]:
    row: tuple[str, int, int] = connection.execute(
        "SELECT phase, epoch, failures FROM breaker"
    ).fetchone()
    return row


def read_breaker(connection: sqlite3.Connection) -> BreakerState:
    """The state of the one breaker in these tables."""
    row = dict(zip(_COLUMNS, connection.execute(_READ).fetchone(), strict=True))
    pid, started = row.pop("prober_pid"), row.pop("prober_started")
    prober = None if pid is None else Owner(pid, started)
    # An earlier version counts up and down without the table: then it is of no account.
    failing = connection.execute("SELECT request FROM failing") if row["failures"] else ()
    row["failing"] = frozenset(request for (request,) in failing)
    return BreakerState(**{**row, "phase": Phase(row["phase"]), "prober": prober})


def _write(connection: sqlite3.Connection, state: BreakerState) -> None:
    connection.execute(_WRITE, _columns(state))


def _write_failing(connection: sqlite3.Connection, state: BreakerState) -> None:
    connection.execute("DELETE FROM failing")
    connection.executemany("INSERT INTO failing VALUES (?)", zip(state.failing, strict=True))


def _columns(state: BreakerState) -> tuple[object, ...]:
    return (
        state.phase.value,
        state.epoch,
        state.failures,
        state.successes,
        state.pauses,
        state.outage_began,
        state.reopens,
        state.probe,
        *(state.prober or (None, None)),
        state.probe_until,
    )
