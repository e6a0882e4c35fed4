"""Sessions: the runs that wrote to a vault, in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from headrace.looker.vault.exceptions import NoSuchSession
from headrace.looker.vault.file import VaultFile
from headrace.looker.vault.model import Session, Status

_COLUMNS = "id, kind, run_id, parameters, started_at, ended_at, status, summary"


class Sessions:
    """See `Vault.sessions`."""

    def __init__(self, file: VaultFile, now: Callable[[], str]) -> None:
        self._file = file
        self._now = now

    def begin(
        self, kind: str, *, run_id: str = "", parameters: Mapping[str, Any] | None = None
    ) -> int:
        """Begin a session; everything stored under its number belongs to it.

        Args:
            kind: extract, retry, pack.
            run_id: of the run, as the UI knows it.
            parameters: what it is asked to do; must be JSON.
        """
        with self._file.writing() as db:
            cursor = db.execute(
                "INSERT INTO session (kind, run_id, parameters, started_at, status, summary)"
                " VALUES (?, ?, ?, ?, ?, '{}')",
                (kind, run_id, json.dumps(dict(parameters or {})), self._now(), Status.RUNNING),
            )
            assert cursor.lastrowid is not None
            return cursor.lastrowid

    def resume(self, session: int) -> None:
        """Go on with a session that was killed, interrupted or partial.

        Raises:
            NoSuchSession.
        """
        self.get(session)
        with self._file.writing() as db:
            db.execute(
                "UPDATE session SET status = ?, ended_at = NULL WHERE id = ?",
                (Status.RUNNING, session),
            )

    def end(
        self, session: int, status: Status, *, summary: Mapping[str, Any] | None = None
    ) -> None:
        """End a session. A done one forgets its pages and its to-do list.

        Args:
            session: its number.
            status: anything but running.
            summary: what it has to say; must be JSON.
        """
        with self._file.writing() as db:
            db.execute(
                "UPDATE session SET status = ?, ended_at = ?, summary = ? WHERE id = ?",
                (status, self._now(), json.dumps(dict(summary or {})), session),
            )
            if status is Status.DONE:
                db.execute("DELETE FROM page WHERE session <= ?", (session,))
                db.execute("DELETE FROM todo WHERE session <= ?", (session,))

    def get(self, session: int) -> Session:
        """One session.

        Raises:
            NoSuchSession.
        """
        with self._file.reading() as db:
            row = db.execute(f"SELECT {_COLUMNS} FROM session WHERE id = ?", (session,)).fetchone()
            if row is None:
                known = [str(n) for (n,) in db.execute("SELECT id FROM session ORDER BY id DESC")]
                few = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
                raise NoSuchSession(session, few or "none at all")
        return _session(row)

    def list(self, *, kind: str = "", limit: int | None = None) -> list[Session]:
        """The sessions, newest first; of one kind if given."""
        with self._file.reading() as db:
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM session WHERE kind = ? OR ? = '' ORDER BY id DESC LIMIT ?",
                (kind, kind, -1 if limit is None else limit),
            ).fetchall()
        return [_session(row) for row in rows]

    def unfinished(self, kind: str) -> Session | None:
        """The newest session of `kind` if it is not done: what a resume goes on with."""
        newest = self.list(kind=kind, limit=1)
        return newest[0] if newest and newest[0].status is not Status.DONE else None


def _session(row: tuple[Any, ...]) -> Session:
    number, kind, run_id, parameters, started_at, ended_at, status, summary = row
    return Session(
        number, kind, run_id, json.loads(parameters), started_at, ended_at, Status(status),
        json.loads(summary),
    )  # fmt: skip
