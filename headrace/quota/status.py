"""What a quota and its breaker look like from outside."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace

from headrace.quota.breaker import BreakerState, Phase
from headrace.quota.clock import MS, NS
from headrace.quota.config import QuotaConfig
from headrace.quota.lanes import Lane
from headrace.quota.owners import Owner
from headrace.quota.rates import QuotaRate
from headrace.quota.register import State


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
    """One live process that has the quota open.

    Attributes:
        pid: its number.
        grants: permits given to it since it opened the quota (noted twice a second).
        waiting: its threads that wait for their turn to book, by lane (noted twice a second).
    """

    pid: int
    grants: int
    waiting: dict[Lane, int]


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
    def of_nothing(cls) -> BreakerStatus:
        """Of a breaker that nobody has used yet."""
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
        blocked_s: how long the server asked everybody to wait, in seconds from now.
    """

    windows: tuple[WindowStatus, ...]
    waiting: dict[Lane, int]
    processes: tuple[ProcessStatus, ...]
    slowdown: float
    blocked_s: float

    @classmethod
    def idle(cls, config: QuotaConfig) -> BookStatus:
        """Of a quota that nobody has used since the machine was started."""
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
    since = now - rate.interval_ms * MS
    row: tuple[int] = connection.execute(
        "SELECT count(*) FROM slots WHERE until > ? AND at <= ?", (since, now)
    ).fetchone()
    return row[0]


def _processes(connection: sqlite3.Connection) -> list[ProcessStatus]:
    rows = connection.execute(
        "SELECT pid, started, grants, retry, ingest, backfill FROM owners ORDER BY owner"
    )
    return [
        ProcessStatus(pid, grants, dict(zip(Lane, waiting, strict=True)))
        for pid, started, grants, *waiting in rows
        if Owner(pid, started).alive
    ]
