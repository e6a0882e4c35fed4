"""Shared quotas on PostgreSQL: a row and a list for each quota, one statement for each change.

What quotas know lies in tables without a log of their own (UNLOGGED): no change waits for a disk.
After a crash PostgreSQL empties them, and a copy of the server never had them; then a third table,
which is kept, says that something was there, and one window passes before the next permit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg

from headrace.postgres import (
    Parameters,
    Postgres,
    PostgresAddress,
    PostgresRefused,
    PostgresUnavailable,
    Row,
)
from headrace.quota.exceptions import QuotaOutage, QuotaServerRefused
from headrace.quota.location import QuotaServer
from headrace.quota.shared.clock import ServerClock
from headrace.quota.shared.server import GONE, KEPT, Answer, History, Position

#: The longest wait for a connection, or for an answer, in seconds.
LIMIT_S = 2.0

_TABLES = (
    "CREATE TABLE IF NOT EXISTS headrace_quotas (name text PRIMARY KEY)",
    "CREATE UNLOGGED TABLE IF NOT EXISTS headrace_quota_contents ("
    "name text PRIMARY KEY, epoch text NOT NULL, made bigint NOT NULL, unsure boolean NOT NULL, "
    "version bigint NOT NULL, content bytea NOT NULL)",
    "CREATE UNLOGGED TABLE IF NOT EXISTS headrace_quota_changes ("
    "epoch text, version bigint, change bytea NOT NULL, PRIMARY KEY (epoch, version))",
)
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_THERE = f"SELECT {_NOW}, to_regclass('headrace_quota_changes') IS NOT NULL"

_READ = f"""
SELECT {_NOW}, known.epoch, known.made, known.unsure, known.version, known.content, ARRAY(
  SELECT change FROM headrace_quota_changes AS later
  WHERE later.epoch = known.epoch AND later.version > known.version ORDER BY later.version)
FROM (SELECT 1) AS one LEFT JOIN headrace_quota_contents AS known ON known.name = %s
"""
_BEGIN = f"""
WITH before AS (
  INSERT INTO headrace_quotas SELECT %(name)s ON CONFLICT DO NOTHING RETURNING name
), begun AS (
  INSERT INTO headrace_quota_contents
  SELECT %(name)s, %(epoch)s, {_NOW}, NOT EXISTS (SELECT FROM before), 0, %(content)s
  ON CONFLICT DO NOTHING RETURNING epoch
)
INSERT INTO headrace_quota_changes SELECT epoch, 0, '' FROM begun
"""
# The next number is taken by the process that inserts it first. It follows what this one has read
# if that is still there, and nothing comes after it: older ones are removed from the beginning.
_APPEND = f"""
WITH mine AS (
  SELECT version FROM headrace_quota_changes WHERE epoch = %(epoch)s AND version = %(version)s
), added AS (
  INSERT INTO headrace_quota_changes
  SELECT %(epoch)s, version + 1, %(change)s FROM mine WHERE %(change)s <> ''::bytea
  ON CONFLICT DO NOTHING RETURNING version
)
SELECT {_NOW}, EXISTS (SELECT FROM mine), EXISTS (SELECT FROM added), ARRAY(
  SELECT change FROM headrace_quota_changes
  WHERE epoch = %(epoch)s AND version > %(version)s ORDER BY version)
"""
_KEEP = """
WITH kept AS (
  UPDATE headrace_quota_contents SET version = %(version)s, content = %(content)s
  WHERE name = %(name)s AND epoch = %(epoch)s AND version < %(version)s RETURNING epoch, version
)
DELETE FROM headrace_quota_changes AS old USING kept
WHERE old.epoch = kept.epoch AND old.version < kept.version - %(kept)s
"""
_DROP = """
WITH gone AS (DELETE FROM headrace_quota_contents WHERE name = %(name)s RETURNING epoch),
noted AS (DELETE FROM headrace_quotas WHERE name = %(name)s)
DELETE FROM headrace_quota_changes USING gone WHERE headrace_quota_changes.epoch = gone.epoch
"""


class PostgresKeeper:
    """`Keeper` on a PostgreSQL server.

    Raises:
        ConfigurationError: the URL cannot be used.
    """

    def __init__(self, server: QuotaServer) -> None:
        self.clock = ServerClock()
        self.clock.boot_id = "postgres"  # what it has after a start is complete, or it has nothing
        self._server = server
        address = PostgresAddress(server.url.get_secret_value(), setting=server.setting)
        self.postgres = Postgres(address, application="headrace quota", limit_s=LIMIT_S)
        self._there = False

    def __str__(self) -> str:
        return str(self._server)

    @property
    def software(self) -> str:
        """See `Keeper`."""
        with self._in_our_words():
            return f"PostgreSQL {self.postgres.version}"

    def connect(self) -> int:
        """See `Keeper`."""
        self._made()
        return self.postgres.connections

    def _made(self) -> bool:
        """Whether there are tables; who only looks makes none."""
        if not self._there:
            ((self._there,),) = self._timed(_THERE, ())
        return self._there

    def read(self, name: str) -> History | None:
        """See `Keeper`."""
        if not self._made():
            return None
        ((epoch, made, unsure, version, content, changes),) = self._timed(_READ, (name,))
        if epoch is None:
            return None
        return History(epoch, made * 1000, unsure, version + len(changes), content, changes)

    def begin(self, name: str, epoch: str, content: bytes, horizon: int) -> None:
        """See `Keeper`."""
        del horizon  # it knows whether there was one
        if not self._made():
            with self._in_our_words():
                self.postgres.create(_TABLES)
        self._run(_BEGIN, {"name": name, "epoch": epoch, "content": content})

    def append(self, position: Position, change: bytes, content: bytes) -> Answer:
        """See `Keeper`."""
        name, epoch, version = position
        asked = {"epoch": epoch, "version": version, "change": change}
        ((there, added, changes),) = self._timed(_APPEND, asked)
        if not there:
            return GONE
        if change and not (added or changes):
            # Another's was being added, which this statement waited for but did not see.
            seen = self.append(position, b"", b"")
            return seen if seen is GONE else Answer(False, seen.changes)
        done = not changes
        if done and content:
            kept = {"name": name, "epoch": epoch, "version": version + 1, "content": content}
            self._run(_KEEP, {**kept, "kept": KEPT})
        return Answer(done, changes)

    def names(self) -> list[str]:
        """See `Keeper`."""
        if not self._made():
            return []
        return [name for (name,) in self._run("SELECT name FROM headrace_quotas ORDER BY name", ())]

    def drop(self, name: str) -> None:
        """Remove a quota."""
        self._run(_DROP, {"name": name})

    def close(self) -> None:
        """Close the connection; the next call makes another."""
        self.postgres.close()

    def _timed(self, statement: LiteralString, parameters: Parameters) -> list[Row]:
        """Run a statement whose first column is the server's time; the rest of its rows."""
        left = time.monotonic_ns()
        rows = self._run(statement, parameters)
        # Of a new connection, too: then the time is less exact, but not wrong.
        self.clock.learn(left, time.monotonic_ns(), rows[0][0] * 1000)
        return [row[1:] for row in rows]

    def _run(self, statement: LiteralString, parameters: Parameters) -> list[Row]:
        with self._in_our_words():
            return self.postgres.execute(statement, parameters)

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        try:
            yield
        except PostgresUnavailable as error:
            raise QuotaOutage(str(self), error.reason, hint=error.hint) from error
        except PostgresRefused as error:
            raise QuotaServerRefused(str(self), error.reason, hint=error.hint) from error
        except psycopg.errors.UndefinedTable as error:
            self._there = False
            reason = "its tables were dropped"
            raise QuotaOutage(str(self), reason, hint="They are made again") from error
        except psycopg.Error as error:
            reason = self.postgres.address.redacted(error)
            hint = f"Look at the tables headrace_quota* in the database of {self._server.setting}"
            raise QuotaServerRefused(str(self), reason, hint=hint) from error
