"""Which processes use a quota, with which rates, and what the server's answers did to it.

The tables of a quota's file stand here, too. Times are nanoseconds of the monotonic clock of
`boot_id`.
"""

from __future__ import annotations

import logging
import socket
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.quota.clock import MS, NS, Clock
from headrace.quota.config import QuotaConfig
from headrace.quota.exceptions import RatesConflict
from headrace.quota.feedback import BELIEVED, LONG, RECENT, ease, stretch_factor
from headrace.quota.processes import Owner

VERSION = 1
TABLES = """
CREATE TABLE state (
    boot_id TEXT NOT NULL,
    rates TEXT NOT NULL,
    blocked_until INTEGER NOT NULL DEFAULT 0, -- nothing leaves before
    slowdown REAL NOT NULL DEFAULT 1,         -- what every window is stretched by
    episode INTEGER NOT NULL DEFAULT 0        -- when that was last raised
);
CREATE TABLE owners (
    owner INTEGER PRIMARY KEY AUTOINCREMENT,
    pid INTEGER NOT NULL,
    started INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    grants INTEGER NOT NULL DEFAULT 0,
    retry INTEGER NOT NULL DEFAULT 0,         -- threads that wait, by lane
    ingest INTEGER NOT NULL DEFAULT 0,
    backfill INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE slots (
    seq INTEGER PRIMARY KEY,                  -- in order of booking
    at INTEGER NOT NULL,                      -- its permit leaves no earlier
    until INTEGER NOT NULL,                   -- and no later; 0 when it was given back
    settled INTEGER NOT NULL,                 -- 1: it left then; 2: see SlotBook.arrived
    ticket INTEGER NOT NULL,                  -- who holds it: the seq under which they booked
    owner INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    passes INTEGER NOT NULL                   -- see headrace.quota.lanes
);
CREATE INDEX slots_until ON slots (until, settled)
"""

#: Made with the file or when it is next opened: files of older versions lack it.
REFUSALS = """
CREATE TABLE IF NOT EXISTS refusals (
    seq INTEGER PRIMARY KEY,                  -- the slot of a request that was answered 429
    at INTEGER NOT NULL                       -- when
)
"""

#: Made in the same way where the order of arrival matters (`QuotaConfig.buffer`).
KEYED = """
CREATE TABLE IF NOT EXISTS keyed (
    nonce INTEGER NOT NULL,                   -- the last one given
    buffer INTEGER NOT NULL                   -- how far apart permits are kept, in nanoseconds
)
"""

#: In a quota of many machines: their names, by what stands for each in `owners`.
HOSTS = """
CREATE TABLE IF NOT EXISTS hosts (
    machine INTEGER PRIMARY KEY,
    name TEXT NOT NULL
)
"""

#: A process of another machine that has taken no permit for so long does not count as a user of
#: the rates: whether it still runs cannot be seen from here.
_SILENT = 120 * NS

#: Forgets all permits; their rows stay, so that their numbers are not given out again.
FORGET = "UPDATE slots SET at = 0, until = 0, settled = 1"


log = logging.getLogger(__name__)

#: How often a process notes its grants and who waits, for those who look from outside.
_NOTE_EVERY = NS // 2

_STATE = "SELECT blocked_until, slowdown, episode FROM state"
_KEYED_STATE = "SELECT blocked_until, slowdown, episode, buffer FROM state, keyed"
_REFUSALS = "SELECT count(*) FROM refusals WHERE seq > ? AND at > ?"
_FORGET_REFUSALS = "DELETE FROM refusals WHERE seq <= ?"


class State(NamedTuple):
    """What holds for all processes: see `headrace.quota.register`."""

    blocked_until: int
    slowdown: float
    episode: int
    buffer: int = 0


class Noted(NamedTuple):
    """What one process has noted of itself; replaced as a whole, so that a rollback can undo it.

    Attributes:
        grants: permits given to it.
        at: when it last wrote that, in nanoseconds.
        waiting: the threads that waited then, by lane.
        owners: how many processes had the file open then; 0: not yet looked at.
    """

    grants: int = 0
    at: int = 0
    waiting: Sequence[int] = ()
    owners: int = 0


class Register:
    """This process's entry in a quota's file, and the state that all share.

    Its methods run inside transactions of the file; they take the connection.

    Attributes:
        owner: the number of this process in the file.
        noted: what it has noted there of itself; who begins the transaction puts the former value
            back if it is rolled back.
    """

    def __init__(
        self,
        path: Path | str,
        config: QuotaConfig,
        clock: Clock,
        longest: int,
        *,
        shared: bool = False,
    ) -> None:
        self.owner = 0
        self._shared = shared
        self.noted = Noted()
        self._path = path
        self._config = config
        self._clock = clock
        self._longest = longest

    @property
    def owners(self) -> int:
        """How many processes had the file open when that was last looked at; 0: not yet."""
        return self.noted.owners

    @property
    def alone(self) -> bool:
        """Whether no other process had the file open."""
        return self.noted.owners == 1

    # -- opening --------------------------------------------------------------------------------

    def found(self, connection: sqlite3.Connection, lost: bool) -> None:
        """Take possession of a file just opened.

        What the file knew is unknown when it was lost, and cannot be dated when it comes from
        another boot: then a whole window passes before the first permit.

        Raises:
            RatesConflict: live processes use it with other rates.
        """
        now, config = self._clock.now(), self._config
        boot_id, signature = self._clock.boot_id, config.signature
        if self._shared and self.owner:
            self.leave(connection)  # it was found before, under this number
        connection.execute(REFUSALS)
        if config.buffer is not None:
            connection.execute(KEYED)
            if connection.execute("SELECT 1 FROM keyed").fetchone() is None:
                initial = int(config.buffer.initial_ms * MS)
                connection.execute("INSERT INTO keyed VALUES (0, ?)", (initial,))
        row = connection.execute("SELECT boot_id, rates FROM state").fetchone()
        if row is None:
            connection.execute(
                "INSERT INTO state (boot_id, rates) VALUES (?, ?)", (boot_id, signature)
            )
        elif row[0] != boot_id:
            log.warning(
                "quota %s: the %s was restarted; waiting one window of %.0f s",
                config.name,
                "server" if self._shared else "machine",
                self._longest / NS,
            )
            for table in ("slots", "owners", "refusals"):
                connection.execute(f"DELETE FROM {table}")
            connection.execute(
                "UPDATE state SET boot_id = ?, rates = ?, slowdown = 1, episode = 0",
                (boot_id, signature),
            )
            lost = True
        else:
            self._remove_dead_owners(connection, now)
            if row[1] != signature:
                self._adopt_rates(connection, row[1])
        if lost:
            self.block(connection, now + self._longest)
        if connection.execute("SELECT max(seq) FROM slots").fetchone()[0] is None:
            # Rows are numbered from the time on, so that no number of a former file comes again:
            # a late report about a permit from there must not meet a row of this one.
            connection.execute("INSERT INTO slots VALUES (?, 0, 0, 1, 0, 0, 0, -1)", (now // 1000,))
        self._enter(connection, now)

    def _remove_dead_owners(self, connection: sqlite3.Connection, now: int) -> None:
        for owner, pid, started, seen in connection.execute(
            "SELECT owner, pid, started, seen FROM owners"
        ).fetchall():
            process = Owner(pid, started)
            if not process.alive or (process.elsewhere and seen < now - _SILENT):
                connection.execute("DELETE FROM owners WHERE owner = ?", (owner,))

    def _adopt_rates(self, connection: sqlite3.Connection, recorded: str) -> None:
        """Other rates are accepted once no other process uses the old ones."""
        config = self._config
        if users := self._users(connection):
            raise RatesConflict(config.name, self._path, recorded, config.signature, users)
        log.info("quota %s: %s instead of %s", config.name, config.signature, recorded)
        connection.execute("UPDATE state SET rates = ?", (config.signature,))

    def _users(self, connection: sqlite3.Connection) -> list[int | str]:
        """The other processes that have the quota open."""
        pids = connection.execute(
            "SELECT DISTINCT pid FROM owners WHERE owner != ?", (self.owner,)
        ).fetchall()
        if not self._shared:
            return [pid for (pid,) in pids]
        names = dict(connection.execute("SELECT machine, name FROM hosts").fetchall())
        processes = [Owner(pid, 0) for (pid,) in pids]
        return [f"{one.number} on {names.get(one.machine, '?')}" for one in processes]

    def _enter(self, connection: sqlite3.Connection, now: int) -> None:
        process = Owner.this(shared=self._shared)
        if self._shared:
            connection.execute(
                "INSERT OR REPLACE INTO hosts VALUES (?, ?)",
                (process.machine, socket.gethostname()),
            )
        self.owner = (
            connection.execute(
                "INSERT INTO owners (pid, started, seen, grants) VALUES (?, ?, ?, ?)",
                (process.pid, process.started, now, self.noted.grants),
            ).lastrowid
            or 0
        )

    def leave(self, connection: sqlite3.Connection) -> None:
        """Sign off, so that others may use other rates."""
        connection.execute("DELETE FROM owners WHERE owner = ?", (self.owner,))

    # -- what is noted on the way ---------------------------------------------------------------

    def note(
        self, connection: sqlite3.Connection, now: int, grants: int, waiting: Sequence[int]
    ) -> None:
        """Count grants; write them and how many threads wait, now and then and when none waits."""
        before = self.noted
        self.noted = before._replace(grants=before.grants + grants)
        emptied = any(before.waiting) and not any(waiting)
        if now - before.at < _NOTE_EVERY and not emptied:
            return
        owners = connection.execute("SELECT count(*) FROM owners").fetchone()[0]
        self.noted = Noted(self.noted.grants, now, waiting, owners)
        connection.execute(
            "UPDATE owners SET seen = ?, grants = ?, retry = ?, ingest = ?, backfill = ? "
            "WHERE owner = ?",
            (now, self.noted.grants, *waiting, self.owner),
        )

    # -- the shared state -----------------------------------------------------------------------

    def state(self, connection: sqlite3.Connection, now: int) -> State:
        """The shared state; a pause that is longer than any that is accepted is ignored."""
        if self._shared:
            self._check_rates(connection)
        query = _STATE if self._config.buffer is None else _KEYED_STATE
        state = State(*connection.execute(query).fetchone())
        most = int(self._config.retry_after_cap_s * NS) + self._longest
        return state if state.blocked_until <= now + most else state._replace(blocked_until=now)

    def _check_rates(self, connection: sqlite3.Connection) -> None:
        """Refuse to go on where another machine has begun with other rates meanwhile."""
        recorded = connection.execute("SELECT rates FROM state").fetchone()[0]
        if recorded != self._config.signature:
            users = self._users(connection)
            wanted = self._config.signature
            raise RatesConflict(self._config.name, self._path, recorded, wanted, users)

    def block(self, connection: sqlite3.Connection, until: int) -> None:
        """Let nothing leave before `until`."""
        connection.execute("UPDATE state SET blocked_until = max(blocked_until, ?)", (until,))

    def nonce(self, connection: sqlite3.Connection, least: int) -> int:
        """The next nonce: `least`, or one above the last if that is higher."""
        connection.execute("UPDATE keyed SET nonce = max(nonce + 1, ?)", (least,))
        nonce: int = connection.execute("SELECT nonce FROM keyed").fetchone()[0]
        return nonce

    def adapt(self, connection: sqlite3.Connection, buffer: int) -> int:
        """Keep permits that far apart from now on, within the bounds of the settings."""
        config = self._config.buffer
        assert config is not None, "only where order matters"
        buffer = min(max(buffer, int(config.floor_ms * MS)), int(config.ceiling_ms * MS))
        (before,) = connection.execute("SELECT buffer FROM keyed").fetchone()
        # What is known of arrivals stays as it is: their rows lie a buffer before them.
        connection.execute(
            "UPDATE slots SET until = until + ? WHERE settled = 2 AND until > ?",
            (before - buffer, self._clock.now() - self._longest - before),
        )
        connection.execute("UPDATE keyed SET buffer = ?", (buffer,))
        return buffer

    def refused(self, connection: sqlite3.Connection, seq: int, sent: int) -> tuple[State, int]:
        """The server answered 429: slow all processes down, see `headrace.quota.feedback`.

        Args:
            connection: in a transaction.
            seq: the slot of the refused request.
            sent: when it left.

        Returns:
            The state, and the pause that begins now, in nanoseconds; 0 for none.
        """
        now, config = self._clock.now(), self._config
        state = self.state(connection, now)
        before = _refusals(connection, seq - RECENT, now)
        pause = 0
        if config.refused_pause_s and before and sent > state.episode:
            pause = self._pause(state, sent)
            self.block(connection, now + pause)
        connection.execute("INSERT OR IGNORE INTO refusals VALUES (?, ?)", (seq, now))
        by = stretch_factor(_refusals(connection, seq - RECENT, now), config.slowdown)
        if sent <= state.episode:  # of the same episode: only what it adds to the evidence
            by /= stretch_factor(before, config.slowdown)
        state = state._replace(
            slowdown=min(config.slowdown_cap, state.slowdown * by),
            episode=now if sent > state.episode else state.episode,
        )
        connection.execute(
            "UPDATE state SET slowdown = ?, episode = ?", (state.slowdown, state.episode)
        )
        connection.execute(_FORGET_REFUSALS, (seq - LONG,))
        return state, pause

    def _pause(self, state: State, sent: int) -> int:
        """How long nothing leaves; twice as long as the last time if it had been over."""
        last = state.blocked_until - state.episode if state.blocked_until <= sent else 0
        pause = max(int(self._config.refused_pause_s * NS), 2 * last)
        return min(pause, int(self._config.retry_after_cap_s * NS))

    def ease(self, connection: sqlite3.Connection, well: Sequence[tuple[int, int]]) -> State:
        """Some requests went well: take some of a slow-down back.

        Those that had left before the last slow-down say nothing about it.

        Args:
            connection: in a transaction.
            well: of each, its slot and when it left.
        """
        now = self._clock.now()
        state = self.state(connection, now)
        after = [seq for seq, sent in well if sent > state.episode]
        if not after or state.slowdown == 1 or _refusals(connection, max(after) - RECENT, now):
            return state
        lasting = _refusals(connection, max(after) - LONG, now)
        slowdown = ease(state.slowdown, self._config.ease ** len(after), lasting)
        connection.execute("UPDATE state SET slowdown = ?", (slowdown,))
        return state._replace(slowdown=slowdown)


def _refusals(connection: sqlite3.Connection, after: int, now: int) -> int:
    row: tuple[int] = connection.execute(_REFUSALS, (after, now - BELIEVED)).fetchone()
    return row[0]
