"""PostgreSQL as a place for shared state: its address, one connection, and errors in our words.

Only what needs a server imports this, by `headrace.extras.import_with("postgres", ...)`: it needs
psycopg. What a URL may say is in the PostgreSQL manual, "Connection URIs" and "Parameter Key Words"
(libpq); a password may also come from PGPASSWORD or ~/.pgpass.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, LiteralString
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from headrace.errors import ConfigurationError, HeadraceError

SCHEMES = ("postgres", "postgresql")
#: The oldest major version that we run on.
OLDEST = 13

Row = tuple[Any, ...]
Parameters = Sequence[object] | Mapping[str, object]

#: What a server says of those whom it will not serve, however often they ask. At the start of a
#: connection libpq hands on the text alone, without the code of the error.
_REFUSALS = (
    "authentication",
    "no password supplied",
    "pg_hba.conf",
    "does not exist",
    "permission denied",
    "not permitted to log in",
    "certificate",
    "does not support SSL",
    "SSL required",
)
_REFUSED = (
    errors.InsufficientPrivilege,
    errors.InvalidAuthorizationSpecification,
    errors.InvalidCatalogName,
    errors.InvalidSchemaName,
    errors.ReadOnlySqlTransaction,
)
#: One number for all that creates tables of ours, so that two processes do not do it at once.
_CREATING = 0x4845_4144_5241_4345


class PostgresUnavailable(HeadraceError):
    """The server did not answer in time, or the connection was lost; later it may work.

    The statement may have been carried out nevertheless.

    Attributes:
        where: the address, without its password.
        reason: what happened.
    """

    def __init__(self, where: str, reason: str, *, setting: str) -> None:
        super().__init__(
            f"{where} does not answer: {reason}",
            hint=f"Look whether the server of {setting} runs and can be reached from here",
        )
        self.where = where
        self.reason = reason


class PostgresRefused(ConfigurationError):
    """The server cannot be used for good: wrong credentials, no such database, no permission.

    Attributes:
        where: the address, without its password.
        reason: what the server said.
    """

    def __init__(self, where: str, reason: str, *, setting: str, hint: str = "") -> None:
        super().__init__(
            f"{where} cannot be used: {reason}",
            hint=hint or f"Correct user, password, database or sslmode in {setting}",
        )
        self.where = where
        self.reason = reason


class PostgresAddress:
    """A `postgres://` URL whose text never shows the password.

    Args:
        url: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=require`, as libpq reads it.
        setting: what the URL was given by, for messages.

    Raises:
        PostgresRefused: it is no such URL.
    """

    def __init__(self, url: str, *, setting: str) -> None:
        self.setting = setting
        try:
            parts = urlsplit(url)
            user, at, host = parts.netloc.rpartition("@")
            user, _, password = user.partition(":")
            self._text = f"postgres://{user}{at}{host}{parts.path}"
            secrets = [password, *parse_qs(parts.query).get("password", ())]
            self._secrets = {
                form for secret in secrets for form in (secret, unquote(secret)) if form
            }
            self.parameters = conninfo_to_dict(url)
            ports = str(self.parameters.get("port") or "").split(",")
            if "@" in parts.path or not all(port.isdigit() or not port for port in ports):
                raise ValueError("the user's part ended early")
        except (ValueError, psycopg.ProgrammingError):
            # Neither the text nor libpq's words about it: both may hold a part of the password.
            raise PostgresRefused(
                f"the URL in {setting}",
                "it does not read",
                setting=setting,
                hint="Write postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=require, with any "
                "of @ : / ? # % in the password as %40 %3A %2F %3F %23 %25",
            ) from None
        if parts.scheme not in SCHEMES:
            raise PostgresRefused(
                f"the URL in {setting}", "it is no postgres:// URL", setting=setting
            )

    def __str__(self) -> str:
        return self._text

    def redacted(self, text: object) -> str:
        """Another's words about this address, in one line, without the password."""
        line = " ".join(str(text).split())
        for secret in self._secrets:
            line = line.replace(secret, "***")
        return line


class Postgres:
    """A connection of this process, made when it is first needed, and again when it was lost.

    Every statement is a transaction of its own. Safe for many threads, one at a time. A fork has
    to make its own; the parent's is left alone there.

    Args:
        address: the server.
        application: what the server's own lists show.
        limit_s: the longest time that connecting, or one statement, may take.
    """

    def __init__(self, address: PostgresAddress, *, application: str, limit_s: float = 5.0) -> None:
        self.address = address
        self._application = application
        self._limit_s = limit_s
        self._mutex = threading.Lock()
        self._connection: _Limited | None = None
        self._pid = os.getpid()
        #: How often a connection was made: what was learned of the server may be out of date.
        self.connections = 0

    def execute(
        self, statement: LiteralString, parameters: Parameters = (), *, again: bool = False
    ) -> list[Row]:
        """Carry out one statement.

        Args:
            statement: SQL, with `%s` or `%(name)s` for each parameter.
            parameters: their values.
            again: once more on a new connection if this one turns out to be lost; only for what
                may be carried out twice.

        Returns:
            The rows of its answer; none if it has no answer.

        Raises:
            PostgresUnavailable: no answer in time; it may have been carried out.
            PostgresRefused: the server will never do it for us.
            psycopg.Error: any other error of the statement.
        """
        with self._mutex:
            lost_before = self._connection is not None
            try:
                return self._execute(statement, parameters)
            except PostgresUnavailable:
                if not (again and lost_before):
                    raise
                return self._execute(statement, parameters)

    def create(self, statements: Sequence[LiteralString]) -> None:
        """Create tables (`IF NOT EXISTS`), in one transaction, one process at a time.

        Raises:
            PostgresUnavailable, PostgresRefused, psycopg.Error: as for `execute`.
        """
        with self._mutex:
            connection = self._connected()
            try:
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATING,))
                    for statement in statements:
                        connection.execute(statement)
            except psycopg.Error as error:
                raise self._in_our_words(error) from error

    @property
    def version(self) -> int:
        """The server's major version."""
        with self._mutex:
            return self._connected().info.server_version // 10_000

    def close(self) -> None:
        """Close the connection; the next statement makes another."""
        with self._mutex:
            self._drop()

    def _execute(self, statement: LiteralString, parameters: Parameters) -> list[Row]:
        connection = self._connected()
        try:
            cursor = connection.execute(statement, parameters, binary=True)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise self._in_our_words(error) from error

    def _connected(self) -> _Limited:
        if self._connection is not None and self._pid == os.getpid():
            if not self._connection.closed:
                return self._connection
            self._drop()
        elif self._connection is not None:
            _OF_PARENTS.append(self._connection)
        self._pid = os.getpid()
        parameters: dict[str, Any] = {
            "connect_timeout": max(2, round(self._limit_s)),
            "application_name": self._application,
            **self.address.parameters,
        }
        try:
            connection = _Limited.connect(autocommit=True, **parameters)
        except psycopg.Error as error:
            raise self._in_our_words(error, connecting=True) from error
        connection.limit_s = self._limit_s
        self._connection = connection
        self.connections += 1
        self._check_usable(connection)
        return connection

    def _check_usable(self, connection: _Limited) -> None:
        version = connection.info.server_version // 10_000
        if version < OLDEST:
            self._drop()
            raise PostgresRefused(
                str(self.address),
                f"it is PostgreSQL {version}",
                setting=self.address.setting,
                hint=f"Headrace needs PostgreSQL {OLDEST} or later",
            )

    def _in_our_words(self, error: psycopg.Error, *, connecting: bool = False) -> Exception:
        """The error to raise; a connection of which nothing is known any more is dropped."""
        where, setting = str(self.address), self.address.setting
        said = self.address.redacted(error)
        if isinstance(error, errors.ReadOnlySqlTransaction):
            hint = f"Name the primary server in {setting}, or add target_session_attrs=read-write"
            return PostgresRefused(where, said, setting=setting, hint=hint)
        if isinstance(error, errors.InsufficientPrivilege):
            hint = f"Grant the user of {setting} CREATE on the schema, or its tables"
            return PostgresRefused(where, said, setting=setting, hint=hint)
        if isinstance(error, _REFUSED) or (connecting and any(why in said for why in _REFUSALS)):
            return PostgresRefused(where, said, setting=setting)
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            self._drop()
            return PostgresUnavailable(where, said, setting=setting)
        return error

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):  # it is given up, whatever it says to that
                self._connection.close()
            self._connection = None


class _Limited(psycopg.Connection[Row]):
    """A connection that waits for no answer for longer than its limit.

    A server that stands still answers nothing, and the network does not notice.
    """

    limit_s = 5.0

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for an answer."""
        return super().wait(gen, interval, self.limit_s if timeout is None else timeout)


#: Connections of a parent process, which a fork must not close.
_OF_PARENTS: list[_Limited] = []
