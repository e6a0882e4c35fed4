"""Give the disk back what the managed server's database no longer needs.

Retention deletes rows (see `environment.RETENTION`); SQLite keeps their space for later. That is as
it should be in steady state; after a large backfill has grown old it is worth a moment of silence.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass

from headrace.cli.server.process import NamedProcess
from headrace.cli.server.state import SERVER, StateFolder
from headrace.errors import StateError
from headrace.locks import locked

_LOCK_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """Size of the database before and after, in bytes."""

    before: int
    after: int


def vacuum_database(folder: StateFolder) -> Vacuumed:
    """Rewrite the database without its free pages, while no server runs.

    Needs as much free disk as the database has content. A kill leaves the database as it was.

    Raises:
        StateError: somebody uses it, it is damaged, or the disk is full.
        LockTimeout: another command is at it.
    """
    before = folder.database_bytes()
    if not folder.database.exists():
        return Vacuumed(0, 0)
    with locked(folder.control_lock, limit_s=_LOCK_TIMEOUT_S):
        if NamedProcess(folder, SERVER).running() is not None:
            raise StateError(
                f"{folder.database} is in use: a server was started meanwhile",
                hint="Run `headrace down --vacuum` when no command needs it",
            )
        try:
            with closing(sqlite3.connect(folder.database, timeout=_LOCK_TIMEOUT_S)) as database:
                database.execute("VACUUM")
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise StateError(
                f"{folder.database} cannot be vacuumed ({error})",
                hint="It was left as it is; see that nothing uses it and that the disk has room",
            ) from error
    return Vacuumed(before, folder.database_bytes())
