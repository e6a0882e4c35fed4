"""What a quota and its breaker look like from outside, read without taking part in them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote

from headrace.errors import ConfigurationError
from headrace.locks import LockTimeout, locked, sqlite_holders
from headrace.quota.breaker import BreakerState, Phase
from headrace.quota.breaker_file import Breaker, read_breaker
from headrace.quota.clock import MS, NS, Clock, MonotonicClock
from headrace.quota.config import BreakerConfig, QuotaConfig
from headrace.quota.exceptions import QuotaUnavailable
from headrace.quota.lanes import Lane
from headrace.quota.location import Place, QuotaServer
from headrace.quota.processes import Owner
from headrace.quota.rates import QuotaRate
from headrace.quota.register import FORGET, REFUSALS, State
from headrace.quota.shared import open_keeper, open_ledger
from headrace.quota.storage import BUSY_TIMEOUT_S, lock_of


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """How full the last window of one rate is.

    Attributes:
        rate: the rate.
        used: permits that left within the last window.
    """

    rate: QuotaRate
    used: int


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One running process that has the quota open.

    Attributes:
        pid: its number on its machine.
        machine: the machine's name, where several share the quota.
        grants: permits given to it since it opened the quota (noted twice a second).
        waiting: its threads that wait to book, by lane (noted twice a second).
    """

    pid: int
    grants: int
    waiting: dict[Lane, int]
    machine: str = ""


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """The circuit breaker.

    Attributes:
        phase: closed, open or half-open.
        failures: consecutive failures of the server.
        reopens_in_s: when the first probe may go, in seconds; 0 unless it is open.
        outage_s: for how long the server has been failing, in seconds; 0 when it is not.
    """

    phase: Phase
    failures: int
    reopens_in_s: float
    outage_s: float

    @classmethod
    def read(cls, connection: sqlite3.Connection, now: int) -> BreakerStatus:
        """Read the tables; inside a look at them."""
        if connection.execute("SELECT 1 FROM breaker").fetchone() is None:
            return cls.of_nothing()
        return cls.of(read_breaker(connection), now)

    @classmethod
    def of_nothing(cls) -> BreakerStatus:
        """Of a breaker that was not used yet."""
        return cls.of(BreakerState(), 0)

    @classmethod
    def of(cls, state: BreakerState, now: int) -> BreakerStatus:
        """The breaker in the terms of a reader."""
        reopens = state.reopens if state.phase is Phase.OPEN else now
        began = state.outage_began or now
        return cls(state.phase, state.failures, max(0, reopens - now) / NS, (now - began) / NS)


@dataclass(frozen=True, slots=True)
class BookStatus:
    """The shared part of a quota.

    Attributes:
        windows: one per rate, shortest first.
        waiting: booked permits that have not left and threads that wait to book, by lane.
        processes: those that have the quota open.
        slowdown: what every window is stretched by after answers 429; 1 is normal.
        blocked_s: how long the server asked for a pause, in seconds from now.
    """

    windows: tuple[WindowStatus, ...]
    waiting: dict[Lane, int]
    processes: tuple[ProcessStatus, ...]
    slowdown: float
    blocked_s: float

    @classmethod
    def idle(cls, config: QuotaConfig) -> BookStatus:
        """Of a quota that was not used since the machine was started."""
        return replace(NO_BOOK, windows=tuple(WindowStatus(rate, 0) for rate in config.rates))

    @classmethod
    def read(
        cls, connection: sqlite3.Connection, config: QuotaConfig, state: State, now: int
    ) -> BookStatus:
        """Read the tables; inside a look at them."""
        processes = tuple(_processes(connection))
        booked = connection.execute(
            "SELECT lane, count(*) FROM slots WHERE at > ? AND until > 0 GROUP BY lane", (now,)
        )
        waiting = dict.fromkeys(Lane, 0) | {Lane(lane): count for lane, count in booked}
        for process in processes:
            for lane, count in process.waiting.items():
                waiting[lane] += count
        return cls(
            tuple(WindowStatus(rate, _used(connection, rate, now)) for rate in config.rates),
            waiting,
            processes,
            state.slowdown,
            max(0, state.blocked_until - now) / NS,
        )


NO_BOOK = BookStatus((), dict.fromkeys(Lane, 0), (), 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class QuotaStatus:
    """A quota and its breaker, as all processes share them."""

    name: str
    book: BookStatus
    breaker: BreakerStatus

    @property
    def health(self) -> str:
        """One word: `ok`, `slowed`, `blocked` (by Retry-After), `half-open` or `open`."""
        if self.breaker.phase is not Phase.CLOSED:
            return self.breaker.phase.value
        if self.book.blocked_s > 0:
            return "blocked"
        return "slowed" if self.book.slowdown > 1 else "ok"


def _used(connection: sqlite3.Connection, rate: QuotaRate, now: int) -> int:
    # Slots that count for nothing are at 0, which is within an interval that began before the boot.
    since = max(0, now - rate.interval_ms * MS)
    row: tuple[int] = connection.execute(
        "SELECT count(*) FROM slots WHERE until > ? AND at <= ?", (since, now)
    ).fetchone()
    return row[0]


def _processes(connection: sqlite3.Connection) -> list[ProcessStatus]:
    rows = connection.execute(
        "SELECT pid, started, grants, retry, ingest, backfill FROM owners ORDER BY owner"
    )
    found = [(Owner(pid, started), grants, waiting) for pid, started, grants, *waiting in rows]
    machines: dict[int, str] = {}
    if any(owner.machine for owner, *_ in found):
        machines = dict(connection.execute("SELECT machine, name FROM hosts").fetchall())
    return [
        ProcessStatus(
            owner.number,
            grants,
            dict(zip(Lane, waiting, strict=True)),
            machines.get(owner.machine, ""),
        )
        for owner, grants, waiting in found
        if owner.alive
    ]


_PREFIXES = ("quota-", "breaker-")
_SUFFIX = ".sqlite"


def quota_path(folder: Path, name: str) -> Path:
    """Where the quota of that name keeps its slots; one name, one file."""
    return folder / f"quota-{quote(name, safe='')}{_SUFFIX}"


def breaker_path(folder: Path, name: str) -> Path:
    """Where the breaker of that name keeps its state."""
    return folder / f"breaker-{quote(name, safe='')}{_SUFFIX}"


def known_names(place: Place) -> list[str]:
    """The names of all quotas and breakers at a place.

    Raises:
        QuotaUnavailable, ConfigurationError: it is a server that cannot be asked.
    """
    if isinstance(place, QuotaServer):
        with closing(open_keeper(place)) as keeper:
            return keeper.names()
    return sorted(
        {
            unquote(path.name.removeprefix(prefix).removesuffix(_SUFFIX))
            for prefix in _PREFIXES
            for path in place.glob(f"{prefix}*{_SUFFIX}")
        }
    )


def inspect(place: Place, name: str, clock: Clock | None = None) -> QuotaStatus:
    """The quota and its breaker as they stand; nothing is written.

    Raises:
        ConfigurationError: the place knows no such quota.
        QuotaUnavailable: a file cannot be read, or a server cannot be asked.
    """
    check_known(place, name)
    if isinstance(place, QuotaServer):
        return _inspect_shared(place, name)
    folder = place
    clock = clock or MonotonicClock()
    now = clock.now()
    book = NO_BOOK
    if quota_path(folder, name).exists():
        with _reading(quota_path(folder, name)) as connection:
            row = connection.execute(
                "SELECT boot_id, rates, blocked_until, slowdown, episode FROM state"
            ).fetchone()
            if row is None:
                raise sqlite3.DatabaseError("it holds no state")
            boot_id, recorded, *state = row
            config = _recorded_config(name, recorded)
            if boot_id == clock.boot_id:
                book = BookStatus.read(connection, config, State(*state), now)
            else:
                book = BookStatus.idle(config)
    return QuotaStatus(name, book, inspect_breaker(folder, name, clock))


def _inspect_shared(server: QuotaServer, name: str) -> QuotaStatus:
    ledger = open_ledger(server, name)

    def read(connection: sqlite3.Connection) -> QuotaStatus:
        now, book = ledger.clock.now(), NO_BOOK
        row = connection.execute(
            "SELECT rates, blocked_until, slowdown, episode FROM state"
        ).fetchone()
        if row is not None:
            recorded, *state = row
            config = _recorded_config(name, recorded)
            book = BookStatus.read(connection, config, State(*state), now)
        return QuotaStatus(name, book, BreakerStatus.read(connection, now))

    with closing(ledger):
        return ledger.change(read)


def inspect_breaker(place: Place, name: str, clock: Clock | None = None) -> BreakerStatus:
    """The breaker alone, without its quota.

    Raises:
        ConfigurationError: the place knows no such quota.
        QuotaUnavailable: the file cannot be read, or the server cannot be asked.
    """
    check_known(place, name)
    if isinstance(place, QuotaServer):
        return _inspect_shared(place, name).breaker
    clock = clock or MonotonicClock()
    if not breaker_path(place, name).exists():
        return BreakerStatus.of_nothing()
    with open_breaker(place, name, clock) as opened:
        return BreakerStatus.of(opened.state(), clock.now())


def drop_quota(server: QuotaServer, name: str) -> None:
    """Remove a quota and its breaker from a server; processes that use it begin again.

    Raises:
        ConfigurationError: the server knows no such quota.
        QuotaUnavailable: it cannot be asked.
    """
    check_known(server, name)
    with closing(open_keeper(server)) as keeper:
        keeper.drop(name)


def reset_quota(place: Place, name: str, *, bookings: bool) -> None:
    """Forget what the server's answers did to a quota.

    Args:
        place: of the state.
        name: of the quota.
        bookings: forget the permits given as well: the next window starts empty, so the server may
            see up to twice the quota in the window at hand.

    Raises:
        ConfigurationError: the place knows no such quota.
        QuotaUnavailable: it cannot be read or written.
    """
    check_known(place, name)
    if isinstance(place, QuotaServer):
        with closing(open_ledger(place, name)) as ledger:
            ledger.change(_reset, bookings)
        return
    path = quota_path(place, name)
    if not path.exists():
        return
    with (
        _problems_named(path),
        locked(lock_of(path)),
        closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection,
    ):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(REFUSALS)
        _reset(connection, bookings)
        connection.execute("COMMIT")


def _reset(connection: sqlite3.Connection, bookings: bool) -> None:
    connection.execute("UPDATE state SET slowdown = 1, blocked_until = 0, episode = 0")
    connection.execute("DELETE FROM refusals")
    if bookings:
        connection.execute(FORGET)


@contextmanager
def open_breaker(place: Place, name: str, clock: Clock | None = None) -> Iterator[Breaker]:
    """The breaker of that name, to look at or to reset.

    Raises:
        ConfigurationError: the place knows no such breaker.
        QuotaUnavailable: it cannot be read.
    """
    check_known(place, name)
    if isinstance(place, QuotaServer):
        ledger = open_ledger(place, name)
        breaker = Breaker(str(place), name, BreakerConfig(), ledger.clock, ledger=ledger)
    else:
        path = breaker_path(place, name)
        breaker = Breaker(path, name, BreakerConfig(), clock or MonotonicClock())
    try:
        yield breaker
    finally:
        breaker.close()


def check_known(place: Place, name: str) -> None:
    """Refuse a name that the place does not know."""
    known = known_names(place)
    if name not in known:
        raise ConfigurationError(
            f"{place} has no quota {name!r}", hint=f"Known: {', '.join(known) or 'none'}"
        )


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    with (
        _problems_named(path),
        closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection,
    ):
        yield connection


@contextmanager
def _problems_named(path: Path) -> Iterator[None]:
    try:
        yield
    except LockTimeout as error:
        raise QuotaUnavailable(path, error.message, hint=error.hint) from error
    except (OSError, sqlite3.Error) as error:
        if (holders := sqlite_holders(path, error)) is not None:
            raise QuotaUnavailable(path, f"{error} by {holders}", hint=holders.way_out) from error
        raise QuotaUnavailable(
            path, str(error), hint="The next run that uses it sets a damaged file aside"
        ) from error


def _recorded_config(name: str, recorded: str) -> QuotaConfig:
    rates, _, burst = recorded.partition(" burst ")
    return QuotaConfig.model_validate(
        {"name": name, "rates": rates, "burst": int(burst) if burst else None}
    )
