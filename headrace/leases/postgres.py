"""Leases of many machines in one table of a PostgreSQL database, say Prefect's own.

One row per name. Every step is one statement and a transaction of its own, so nothing stays locked
when a process dies. A row is replaced where it still has the stamp that was read: two statements
that want the same row wait for each other, and the second looks at what the first has left ("Read
Committed Isolation Level" in the manual). Time is the server's, asked for along with the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC
from typing import LiteralString, TypeVar

import psycopg
from psycopg.errors import UndefinedTable
from pydantic import ValidationError
from tenacity import Retrying, retry_if_exception_type, stop_before_delay
from tenacity.wait import wait_random_exponential

from headrace.leases.clock import SERVERS_APART_S, StoreClock
from headrace.leases.exceptions import (
    DamagedLeases,
    LeaseStoreMisconfigured,
    LeaseStoreUnavailable,
    NewerLeases,
)
from headrace.leases.model import Holder, Row
from headrace.leases.store import LeaseStore
from headrace.leases.this_machine import THIS_MACHINE, Machine
from headrace.postgres import Postgres, PostgresAddress, PostgresRefused, PostgresUnavailable

T = TypeVar("T")

_SCHEMA_VERSION = 1
_CREATE = """
CREATE TABLE IF NOT EXISTS headrace_lease (
    name           text PRIMARY KEY,
    token          bigint NOT NULL,
    stamp          text NOT NULL,
    holder         text,
    schema_version integer NOT NULL
)
"""
_COLUMNS = "name, token, stamp, holder, schema_version"
# The time also where there is no row.
_NAMED = f"""
SELECT clock_timestamp(), {_COLUMNS}
FROM (SELECT 1) AS asked LEFT JOIN headrace_lease ON name = ANY(%s)
"""
_EVERY = f"SELECT clock_timestamp(), {_COLUMNS} FROM headrace_lease"
_INSERT = f"""
INSERT INTO headrace_lease ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (name) DO NOTHING RETURNING name
"""
_REPLACE = """
UPDATE headrace_lease SET token = %s, stamp = %s, holder = %s, schema_version = %s
WHERE name = %s AND stamp = %s RETURNING name
"""

_REMOVE = "DELETE FROM headrace_lease WHERE name = %s AND stamp = %s"

#: An answer is worth waiting for only well within the life of a lease.
_GIVE_UP_AFTER_S = 10.0
_PAUSE = wait_random_exponential(multiplier=0.1, max=1.0)


class PostgresLeases(LeaseStore):
    """`LeaseStore` in the table `headrace_lease`, which is made with the first lease.

    Needs to create that table in the first schema of the search path, or SELECT, INSERT and UPDATE
    on it where it is there. A server that restarts is asked again for some seconds, also while the
    process is asked to stop: what is fetched is to be committed.

    Args:
        address: the database.
        max_clock_skew_s: how far the clock of a server that takes over may be from the last one's.
        clock: the server's time.
        patience_s: how long a server that does not answer is asked again.
    """

    def __init__(
        self,
        address: PostgresAddress,
        *,
        max_clock_skew_s: float = SERVERS_APART_S,
        machine: Machine = THIS_MACHINE,
        clock: StoreClock | None = None,
        patience_s: float = _GIVE_UP_AFTER_S,
    ) -> None:
        self._time = clock or StoreClock(machine.boot_s, resolution_s=0.0)
        super().__init__(machine=machine, max_clock_skew_s=max_clock_skew_s, clock=self._time)
        self._address = address
        self._give_up_after_s = patience_s
        self._postgres = self._connected()

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_postgres"}

    def __setstate__(self, state: dict[str, object]) -> None:
        # A spawned process has a connection of its own.
        self.__dict__.update(state)
        self._postgres = self._connected()

    @property
    def where(self) -> str:
        """The address, without its password."""
        return str(self._address)

    def _connected(self) -> Postgres:
        return Postgres(self._address, application="headrace leases")

    def _read(self, name: str) -> Row | None:
        rows = self._rows(_NAMED, [name])
        return rows[0] if rows else None

    def _read_many(self, names: Iterable[str]) -> Iterable[Row | None]:
        names = list(names)
        found = {row.name: row for row in self._rows(_NAMED, names)}
        return [found.get(name) for name in names]

    def _read_all(self) -> Iterable[Row]:
        return self._rows(_EVERY)

    def _rows(self, statement: LiteralString, *names: list[str]) -> list[Row]:
        asked_boot_s = self._machine.boot_s()
        try:
            answer = self._ask(lambda: self._postgres.execute(statement, names, again=True))
        except UndefinedTable:
            answer = self._ask(lambda: self._postgres.execute("SELECT clock_timestamp(), NULL"))
        for said, *_ in answer:
            self._time.note(said.astimezone(UTC), asked_boot_s=asked_boot_s)
        return [self._parsed(*columns) for _, *columns in answer if columns[0] is not None]

    def _swap(self, seen: Row | None, new: Row) -> bool:
        content = (
            new.token,
            new.stamp,
            new.holder.model_dump_json() if new.holder else None,
            _SCHEMA_VERSION,
        )

        def swap() -> bool:
            # Carried out twice after a lost answer, the second one changes nothing and says so:
            # the caller looks whose write it was.
            if seen:
                values = (*content, new.name, seen.stamp)
                return bool(self._postgres.execute(_REPLACE, values, again=True))
            return bool(self._postgres.execute(_INSERT, (new.name, *content), again=True))

        try:
            return self._ask(swap)
        except UndefinedTable:
            self._ask(lambda: self._postgres.create([_CREATE]))
            return self._ask(swap)

    def _remove(self, seen: Row) -> None:
        self._ask(lambda: self._postgres.execute(_REMOVE, (seen.name, seen.stamp), again=True))

    def _ask(self, call: Callable[[], T]) -> T:
        """One statement, tried again while the server may come back.

        Raises:
            LeaseStoreUnavailable: it did not.
            LeaseStoreMisconfigured: trying again cannot help.
            UndefinedTable: no lease was ever taken in this database.
        """
        attempts = Retrying(
            retry=retry_if_exception_type(PostgresUnavailable),
            stop=stop_before_delay(self._give_up_after_s),
            wait=_PAUSE,
            reraise=True,
        )
        try:
            return attempts(call)
        except PostgresUnavailable as error:
            raise LeaseStoreUnavailable(self.where, error.reason, hint=error.hint) from error
        except PostgresRefused as error:
            raise LeaseStoreMisconfigured(
                self.where, "a statement", error.reason, hint=error.hint
            ) from error
        except UndefinedTable:
            raise
        except psycopg.Error as error:
            reason = self._address.redacted(error)
            hint = f"Look at the table headrace_lease of {self._address.setting}"
            raise LeaseStoreMisconfigured(self.where, "a statement", reason, hint=hint) from error

    def _parsed(self, name: str, token: int, stamp: str, holder: str | None, version: int) -> Row:
        where = f"{self.where}, row {name}"
        if version > _SCHEMA_VERSION:
            raise NewerLeases(where, version, _SCHEMA_VERSION)
        try:
            found = Holder.model_validate_json(holder) if holder is not None else None
        except ValidationError as error:
            hint = "Make sure that no run is working under this name, then delete the row"
            reason = f"its holder does not read ({error.error_count()} errors)"
            raise DamagedLeases(where, reason, hint=hint) from error
        return Row(name=name, token=token, stamp=stamp, holder=found)
