"""The unsharded log: one SQLite file, one chain over all symbols.

Each row is one output under its global sequence, with the engine's hashes and the canonical body.
The file also holds the phase of its migration and how far the new log is known to be, so that both
change in the same transaction as the log itself.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from xxhash import xxh3_64_intdigest

from headrace.errors import ConfigurationError
from headrace.locks import sqlite_holders
from headrace.sot.chain import Position, why_not_next
from headrace.sot.encoding import HASH_BYTES, HEADER, check_body, from_signed, to_signed
from headrace.sot.exceptions import (
    ChainError,
    DamagedLog,
    ForkError,
    MalformedRecord,
    StoreMisconfigured,
    StoreUnavailable,
    WrongHash,
)
from headrace.sot.frames import identity
from headrace.sot.record import HASH_XXH3_V1


class Phase(StrEnum):
    """See `headrace.sot.migration`."""

    OLD = "old"
    DUAL = "dual"
    NEW = "new"
    ENDED = "ended"

    @property
    def reads(self) -> str:
        """Which log is the truth."""
        return "old" if self in (Phase.OLD, Phase.DUAL) else "new"


class WrongPhase(ConfigurationError):
    """A step that does not lead on from the phase of the migration; nothing was done."""

    def __init__(self, step: str, phase: Phase) -> None:
        super().__init__(
            f"the migration is in phase {phase.value!r}, from which {step!r} does not lead on",
            hint=_NEXT[phase],
        )
        self.step = step
        self.phase = phase


_NEXT: Final = {
    Phase.OLD: "Start it with: begin",
    Phase.DUAL: "Next: backfill, compare, switch",
    Phase.NEW: "Next: end, or back",
    Phase.ENDED: "It has ended: write to the new log (headrace sot write)",
}

#: From, to; a step that is repeated finds itself at its goal.
STEPS: Final = {
    "begin": (Phase.OLD, Phase.DUAL),
    "switch": (Phase.DUAL, Phase.NEW),
    "back": (Phase.NEW, Phase.DUAL),
    "end": (Phase.NEW, Phase.ENDED),
}


def target_of(step: str, phase: Phase) -> Phase:
    """Where a step leads.

    Raises:
        WrongPhase: not from here.
    """
    start, goal = STEPS[step]
    if phase not in (start, goal):
        raise WrongPhase(step, phase)
    return goal


FORMAT: Final = "1"
_BUSY_MS: Final = 60_000
_PAGE: Final = 500
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS engine_output_log (
    output_seq INTEGER PRIMARY KEY,
    hash INTEGER NOT NULL,
    prev_hash INTEGER NOT NULL,
    output_data BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far the new log is known to hold the old one.

    Attributes:
        old_next: every old record before this one is durable there.
        next_seqs: per symbol, the sequence that the next old record has there.
    """

    old_next: int = 1
    next_seqs: dict[int, int] = field(default_factory=dict)


def _old_head(next_seq: int = 1, hash_: int = 0) -> Position:
    """The old chain's end, which has no digest; sequences begin at 1 and stay below 2**63."""
    return Position(next_seq, hash_, b"")


class OldLog:
    """An unsharded log in a file. Several processes may use it; SQLite orders them.

    Args:
        path: the file.
        create: make it if there is none.

    Raises:
        StoreMisconfigured: it is not there, or is something else.
        StoreUnavailable: it cannot be opened.
    """

    def __init__(self, path: Path | str, *, create: bool = False) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise StoreMisconfigured(
                str(self.path),
                "there is no such file",
                hint="Name the SQLite file of the unsharded log",
            )
        with self._opened() as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
            if "engine_output_log" not in tables and not (create and not tables):
                raise StoreMisconfigured(
                    str(self.path), "it is no unsharded log (no table engine_output_log)"
                )
            db.executescript(_SCHEMA)

    @property
    def location(self) -> str:
        """The file."""
        return str(self.path)

    def phase(self) -> Phase:
        """The phase of the migration."""
        with self._opened() as db:
            return self._phase(db)

    def step(self, name: str) -> Phase:
        """Take a step of the migration; taken already, it changes nothing.

        Raises:
            WrongPhase: it does not lead on from the phase of the migration.
        """
        with self._writing() as db:
            goal = target_of(name, self._phase(db))
            self._note(db, "phase", goal.value)
        return goal

    def head(self) -> Position:
        """The chain's end."""
        with self._opened() as db:
            return self._head(db)

    def cursor(self) -> Cursor:
        """How far the new log is known to be.

        Raises:
            DamagedLog: what was noted cannot be read.
        """
        with self._opened() as db:
            text = self._noted(db, "cursor")
        if text is None:
            return Cursor()
        try:
            stored = json.loads(text)
            next_seqs = {int(key): int(value) for key, value in stored["next_seqs"].items()}
            return Cursor(int(stored["old_next"]), next_seqs)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedLog(
                f"{self.path}, table migration",
                f"how far the new log is cannot be read: {error}",
                hint="Delete the row named cursor: the next backfill finds it out again",
            ) from error

    def note_cursor(self, cursor: Cursor) -> None:
        """Remember how far the new log is; durable."""
        value = json.dumps({"old_next": cursor.old_next, "next_seqs": cursor.next_seqs})
        with self._writing() as db:
            self._note(db, "cursor", value)

    def append(self, bodies: Iterable[bytes]) -> int:
        """Add outputs to the chain, durable. How many were new.

        Raises:
            ForkError, GapError, WrongLink, WrongHash, MalformedRecord: one does not continue the
                chain; those before it were added, those behind it were not.
            WrongPhase: the migration has ended.
        """
        refused: ChainError | MalformedRecord | None = None
        with self._writing() as db:
            if self._phase(db) is Phase.ENDED:
                raise WrongPhase("write", Phase.ENDED)
            head = self._head(db)
            rows = []
            for body in bodies:
                try:
                    seq, hash_, prev_hash, symbol_id = _checked(body)
                    if seq < head.next_seq:
                        self._refuse_other(db, seq, symbol_id, body)
                        continue
                    if unlinked := why_not_next(symbol_id, seq, prev_hash, head):
                        raise unlinked
                except MalformedRecord as error:
                    symbol_id, seq = identity(body)
                    reason = f"symbol {symbol_id}, seq {seq}: {error.message}"
                    refused = MalformedRecord("", reason, hint=error.hint)
                    break
                except ChainError as error:
                    refused = error
                    break
                rows.append((to_signed(seq), to_signed(hash_), to_signed(prev_hash), body))
                head = _old_head(seq + 1, hash_)
            db.executemany("INSERT INTO engine_output_log VALUES (?, ?, ?, ?)", rows)
        if refused is not None:
            raise refused
        return len(rows)

    def bodies(self, from_seq: int = 1, before: int | None = None) -> Iterator[bytes]:
        """The outputs in order, each recomputed from its content and held against its link.

        Raises:
            DamagedLog: at the first row that is missing or not what was written.
        """
        expected = from_seq
        previous: int | None = 0 if from_seq == 1 else None
        stop = self.head().next_seq if before is None else before
        while expected < stop:
            query = "SELECT * FROM engine_output_log WHERE output_seq >= ? ORDER BY 1 LIMIT ?"
            with self._opened() as db:
                rows = db.execute(query, (expected, _PAGE)).fetchall()
            if not rows:
                raise self._damaged(expected, stop - 1, "rows are missing")
            for seq, hash_, prev_hash, body in rows:
                if seq >= stop:
                    break
                # SQLite lets any column hold anything.
                if not (type(hash_) is type(prev_hash) is int and isinstance(body, bytes)):
                    raise self._damaged(seq, seq, "its columns are not integers and bytes")
                if seq != expected:
                    raise self._damaged(expected, seq - 1, "rows are missing")
                self._check_row(seq, from_signed(hash_), from_signed(prev_hash), body, previous)
                yield body
                expected, previous = seq + 1, from_signed(hash_)
            else:
                continue
            break

    def _check_row(
        self, seq: int, hash_: int, prev_hash: int, body: bytes, previous: int | None
    ) -> None:
        try:
            found = _checked(body)
        except (MalformedRecord, WrongHash) as error:
            raise self._damaged(seq, seq, str(error)) from error
        if found[:3] != (seq, hash_, prev_hash):
            raise self._damaged(seq, seq, "its columns and its content disagree")
        if previous is not None and prev_hash != previous:
            raise self._damaged(seq, seq, "it does not link to the row before it")

    def _damaged(self, seq: int, last_seq: int, reason: str) -> DamagedLog:
        to = f" to {last_seq}" if last_seq != seq else ""
        return DamagedLog(f"{self.path}, output_seq {seq}{to}", reason)

    def _refuse_other(self, db: sqlite3.Connection, seq: int, symbol_id: int, body: bytes) -> None:
        query = "SELECT output_data FROM engine_output_log WHERE output_seq = ?"
        row = db.execute(query, (seq,)).fetchone()
        if row is None or row[0] != body:
            raise ForkError(symbol_id, seq, "the old log has another output there, which it keeps")

    def _head(self, db: sqlite3.Connection) -> Position:
        query = "SELECT output_seq, hash FROM engine_output_log ORDER BY 1 DESC LIMIT 1"
        row = db.execute(query).fetchone()
        if row and type(row[1]) is not int:
            raise self._damaged(row[0], row[0], "its columns are not integers and bytes")
        return _old_head(row[0] + 1, from_signed(row[1])) if row else _old_head()

    def _phase(self, db: sqlite3.Connection) -> Phase:
        text = self._noted(db, "phase")
        try:
            return Phase(text) if text is not None else Phase.OLD
        except ValueError:
            raise DamagedLog(
                f"{self.path}, table migration", f"there is no phase {text!r}"
            ) from None

    @staticmethod
    def _noted(db: sqlite3.Connection, name: str) -> str | None:
        row = db.execute("SELECT value FROM migration WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    @staticmethod
    def _note(db: sqlite3.Connection, name: str, value: str) -> None:
        db.execute("INSERT OR REPLACE INTO migration VALUES (?, ?)", (name, value))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
                db.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = FULL")
                yield db
        except sqlite3.DatabaseError as error:
            if (holders := sqlite_holders(self.path, error)) is not None:
                raise StoreUnavailable(
                    str(self.path),
                    "using the old log",
                    f"{error} by {holders}",
                    hint=holders.way_out,
                ) from error
            if isinstance(error, sqlite3.OperationalError):
                raise StoreUnavailable(str(self.path), "using the old log", str(error)) from error
            raise DamagedLog(
                str(self.path),
                str(error),
                hint="Name the file of the unsharded log, or put it back from a copy",
            ) from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._opened() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # on a full disk SQLite has rolled back by itself
                    db.execute("ROLLBACK")
                raise


def _checked(body: bytes) -> tuple[int, int, int, int]:
    """Sequence, hash, prev_hash and symbol of a sound body.

    Raises:
        MalformedRecord, WrongHash: it is not sound.
    """
    check_body(body)
    hash_, _, version, _, symbol_id, seq, prev_hash, *_ = HEADER.unpack_from(body)
    if version == HASH_XXH3_V1 and xxh3_64_intdigest(body[HASH_BYTES:]) != hash_:
        raise WrongHash(symbol_id, seq, "its hash is not that of its content")
    return seq, hash_, prev_hash, symbol_id
