"""Where a CQL store is, and a connection to it: statements, consistency, what errors mean.

A location is `cql://HOST[,HOST...][:PORT]/KEYSPACE[?option=value&...]`, with every field of
`CqlSettings` as an option except the user and the password: those come from `HEADRACE_CQL_USERNAME`
and `HEADRACE_CQL_PASSWORD`, or from a block, so that no location in a log or a form holds a secret.

The driver retries nothing by itself. What a condition's lost answer means only the caller can find
out, so it gets `Uncertain`; reads are tried again here.
"""

from __future__ import annotations

import os
import re
import ssl
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl, urlsplit

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    DriverException,
    OperationTimedOut,
    RequestExecutionException,
    RequestValidationException,
    UnresolvableContactPoints,
)
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    RoundRobinPolicy,
    TokenAwarePolicy,
)
from cassandra.protocol import ErrorMessage
from cassandra.query import BatchStatement, BatchType, named_tuple_factory
from pydantic import BaseModel, Field, SecretStr, ValidationError, model_validator

from headrace.sot.cql.tables import statements
from headrace.sot.exceptions import StoreMisconfigured, StoreUnavailable
from headrace.stopping import STOP, StopEvent

SCHEME = "cql://"
USERNAME_VARIABLE, PASSWORD_VARIABLE = "HEADRACE_CQL_USERNAME", "HEADRACE_CQL_PASSWORD"

_KEYSPACE = re.compile(r"[a-z][a-z0-9_]{0,47}")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
_PRIVATE = ("username", "password")
_OF_THE_PATH = ("hosts", "port", "keyspace")

Consistency = Literal["one", "two", "three", "quorum", "local_quorum", "each_quorum", "all"]


class CqlSettings(BaseModel, frozen=True, extra="forbid"):
    """Everything that reaching a CQL store needs.

    Args:
        hosts: contact points; the driver finds the rest.
        port: of the native protocol, the same on all hosts.
        keyspace: lower-case letters, digits and underscores; made if it is not there.
        replication: copies of each partition, for a keyspace that is made here.
        local_dc: the data centre to send to; empty to take that of the first contact point.
        consistency: of every write and of scans. Below a quorum a node that dies can take
            acknowledged records with it, and scans may miss some.
        serial_consistency: of the conditions; `local_serial` within one data centre only.
        protocol_version: of the native protocol; 0 negotiates.
        request_timeout_s: of one request.
        patience_s: for how long a request is tried again while the cluster is in trouble.
        batch_bytes: frames in one commit before compression.
        bucket_bytes: stored size from which a symbol's chain goes on in its next partition.
        tls: encrypt connections, verified against the system's certificates.
        tls_ca: verify against this file instead.
        username, password: for a cluster that asks for them.
    """

    hosts: Annotated[tuple[str, ...], Field(min_length=1)]
    port: Annotated[int, Field(ge=1, le=65535)] = 9042
    keyspace: str
    replication: Annotated[int, Field(ge=1, le=9)] = 1
    local_dc: str = ""
    consistency: Consistency = "quorum"
    serial_consistency: Literal["serial", "local_serial"] = "serial"
    protocol_version: Annotated[int, Field(ge=0, le=5)] = 0
    request_timeout_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    patience_s: Annotated[float, Field(ge=0, le=3600)] = 60.0
    batch_bytes: Annotated[int, Field(ge=1024, le=4 * 2**20)] = 512 * 2**10
    bucket_bytes: Annotated[int, Field(ge=1024, le=2**30)] = 64 * 2**20
    tls: bool = False
    tls_ca: Path | None = None
    username: str = ""
    password: SecretStr | None = None

    @model_validator(mode="after")
    def _names(self) -> CqlSettings:
        if not _KEYSPACE.fullmatch(self.keyspace):
            raise ValueError(
                f"keyspace {self.keyspace!r} is not made of lower-case letters, digits and _"
            )
        for host in self.hosts:
            if not _HOST.fullmatch(host):
                raise ValueError(f"{host!r} is no host name or address")
        return self

    @property
    def location(self) -> str:
        """The store's name of itself: where it is, without how it is reached."""
        return f"{SCHEME}{','.join(self.hosts)}:{self.port}/{self.keyspace}"


def parse_location(location: str, **given: Any) -> CqlSettings:
    """The settings that a location means, with `given` ones on top.

    Raises:
        StoreMisconfigured: it is not of that form, or an option cannot be used.
    """
    parts = urlsplit(location)
    if not location.startswith(SCHEME) or "@" in parts.netloc:
        # The location itself may hold a password then, so it is not repeated.
        raise StoreMisconfigured(
            "the location",
            "it is not cql://HOST[,HOST...][:PORT]/KEYSPACE[?option=value]",
            hint=f"User and password come from {USERNAME_VARIABLE} and {PASSWORD_VARIABLE}",
        )
    options = _options(location, parts.query)
    hosts, port = _hosts(parts.netloc)
    fields: dict[str, Any] = {
        "hosts": hosts,
        "keyspace": parts.path.strip("/"),
        "username": os.environ.get(USERNAME_VARIABLE, ""),
        "password": os.environ.get(PASSWORD_VARIABLE) or None,
        **({"port": port} if port else {}),
        **options,
        **given,
    }
    try:
        return CqlSettings.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        reason = f"{where}: {first['msg']}" if where else first["msg"]
        raise StoreMisconfigured(location, reason) from None


def _options(location: str, query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in found:
            raise StoreMisconfigured(location, f"option {name} is given twice")
        if name not in CqlSettings.model_fields or name in (*_PRIVATE, *_OF_THE_PATH):
            raise StoreMisconfigured("the location", f"there is no option {name}")
        found[name] = value
    return found


def _hosts(netloc: str) -> tuple[tuple[str, ...], str]:
    """The contact points, and the port behind the last one."""
    hosts, port = netloc, ""
    found = re.fullmatch(r"(.*?):(\d+)", netloc)
    if found and not netloc.endswith("]"):
        hosts, port = found[1], found[2]
    return tuple(host for host in hosts.split(",") if host), port


Result = TypeVar("Result")

#: The request itself is wrong: trying again cannot help.
_REFUSED = (RequestValidationException,)

#: The cluster, or the way to it, is in trouble.
_TROUBLE = (
    DriverException,
    RequestExecutionException,
    OperationTimedOut,
    NoHostAvailable,
    ConnectionException,
    ErrorMessage,
    OSError,
)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0


class Uncertain(Exception):
    """A conditional write was not answered: it may have happened, or may happen yet."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class CqlSession:
    """One connected session; safe for threads.

    Args:
        settings: where and how.
        stop: ends waits for a cluster in trouble.

    Raises:
        StoreUnavailable: no node answers.
        StoreMisconfigured: the cluster refuses us.
    """

    def __init__(self, settings: CqlSettings, *, stop: StopEvent = STOP) -> None:
        self.settings = settings
        self.stop = stop
        self.location = settings.location
        self._cluster = Cluster(**_cluster_options(settings))
        try:
            self._session = self._cluster.connect()
        except BaseException as error:
            self._cluster.shutdown()
            if isinstance(error, NoHostAvailable | UnresolvableContactPoints):
                raise _not_connected(settings, error) from error
            if isinstance(error, _TROUBLE):
                raise StoreUnavailable(self.location, "connecting", shorten(error)) from error
            raise
        self._serial = getattr(ConsistencyLevel, settings.serial_consistency.upper())
        self._prepared: dict[str, Any] = {}

    @property
    def driver(self) -> Any:
        """The driver's own session, for making tables."""
        return self._session

    @property
    def local_dc(self) -> str:
        """The data centre of the host first reached."""
        return self.settings.local_dc or next(
            (host.datacenter for host in self._cluster.metadata.all_hosts() if host.datacenter),
            "datacenter1",
        )

    def prepare(self) -> None:
        """Prepare every statement, once the tables are there."""
        for name, text in statements(self.settings.keyspace).items():
            prepared = self.patiently("preparing statements", partial(self._session.prepare, text))
            self._prepared[name] = prepared

    def bound(self, name: str, *values: Any) -> Any:
        """A prepared statement with its values."""
        return self._prepared[name].bind(values)

    def read(self, name: str, *values: Any, serial: bool = False, page: int = 1000) -> list[Any]:
        """All rows of a small answer. `serial` sees every conditional write that was answered.

        Raises:
            StoreUnavailable: no answer within the patience.
        """
        statement = self.bound(name, *values)
        statement.fetch_size = page
        if serial:
            statement.consistency_level = self._serial
        return self.patiently("reading", lambda: list(self._session.execute(statement)))

    def pages(self, name: str, *values: Any, page: int) -> Any:
        """Rows one after the other, a page at a time in memory; each page is tried again."""
        statement = self.bound(name, *values)
        statement.fetch_size = page
        result = self.patiently("reading", lambda: self._session.execute(statement))
        while True:
            yield from result.current_rows
            if not result.has_more_pages:
                return
            self.patiently("reading", result.fetch_next_page)

    def write(self, name: str, *values: Any) -> None:
        """An unconditional write that may be repeated.

        Raises:
            StoreUnavailable: not acknowledged within the patience.
        """
        statement = self.bound(name, *values)
        self.patiently("writing", lambda: self._session.execute(statement))

    def begin_conditional(self, parts: Sequence[Any]) -> Any:
        """Send statements of one partition as one conditional batch; the answer is a future's."""
        batch = BatchStatement(batch_type=BatchType.UNLOGGED, serial_consistency_level=self._serial)
        for statement in parts:
            batch.add(statement)
        return self._session.execute_async(batch)

    def applied(self, future: Any) -> bool:
        """Whether the batch behind the future was applied.

        Raises:
            Uncertain: it may or may not be applied; read what is there.
            StoreUnavailable: the cluster refuses it.
        """
        try:
            rows = list(future.result())
        except _REFUSED as error:
            raise StoreUnavailable(self.location, "writing", shorten(error)) from error
        except _TROUBLE as error:
            raise Uncertain(shorten(error)) from error
        # ScyllaDB answers with a row per statement, Cassandra with one; all say the same.
        return bool(rows[0][0])

    def conditional(self, *parts: Any) -> bool:
        """`begin_conditional`, and wait for its answer."""
        return self.applied(self.begin_conditional(parts))

    def patiently(self, action: str, request: Callable[[], Result]) -> Result:
        """Do what may be done twice, again and again while the cluster is in trouble.

        Raises:
            StoreUnavailable: it was refused, or the patience is over.
            Stopped: the stop was asked for meanwhile.
        """
        patience = Patience(self, action)
        while True:
            try:
                return request()
            except _REFUSED as error:
                raise StoreUnavailable(self.location, action, shorten(error)) from error
            except _TROUBLE as error:
                patience.pause(shorten(error), error)

    def close(self) -> None:
        """Close connections and threads."""
        self._cluster.shutdown()


class Patience:
    """Pauses that grow, until the patience of one action is over."""

    def __init__(self, session: CqlSession, action: str) -> None:
        self._session = session
        self._action = action
        self._until = time.monotonic() + session.settings.patience_s
        self._pause_s = _FIRST_PAUSE_S

    def pause(self, reason: str, cause: BaseException | None = None) -> None:
        """Wait before the next attempt.

        Raises:
            StoreUnavailable: it is over; `reason` says what the last attempt met.
            Stopped: the stop was asked for.
        """
        if time.monotonic() + self._pause_s > self._until:
            raise StoreUnavailable(
                self._session.location,
                self._action,
                reason,
                hint="What was acknowledged is stored; the same command goes on from there",
            ) from cause
        self._session.stop.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)


def shorten(error: BaseException) -> str:
    """One line of what the driver said."""
    if isinstance(error, NoHostAvailable) and error.errors:
        host, first = next(iter(error.errors.items()))
        return f"no host answered, {host}: {shorten(first) if first else 'not tried'}"
    text = str(error).strip().splitlines()
    return text[0][:300] if text and text[0] else type(error).__name__


def _cluster_options(settings: CqlSettings) -> dict[str, Any]:
    balance = (
        DCAwareRoundRobinPolicy(local_dc=settings.local_dc)
        if settings.local_dc
        else RoundRobinPolicy()
    )
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(balance),
        retry_policy=FallthroughRetryPolicy(),
        consistency_level=getattr(ConsistencyLevel, settings.consistency.upper()),
        serial_consistency_level=getattr(ConsistencyLevel, settings.serial_consistency.upper()),
        request_timeout=settings.request_timeout_s,
        row_factory=named_tuple_factory,
    )
    options: dict[str, Any] = {
        "contact_points": [host.strip("[]") for host in settings.hosts],
        "port": settings.port,
        "execution_profiles": {EXEC_PROFILE_DEFAULT: profile},
        "connect_timeout": settings.request_timeout_s,
        "control_connection_timeout": settings.request_timeout_s,
    }
    if settings.protocol_version:
        options["protocol_version"] = settings.protocol_version
    if settings.username:
        password = settings.password.get_secret_value() if settings.password else ""
        options["auth_provider"] = PlainTextAuthProvider(settings.username, password)
    if settings.tls or settings.tls_ca:
        options["ssl_context"] = ssl.create_default_context(
            cafile=str(settings.tls_ca) if settings.tls_ca else None
        )
    return options


def _not_connected(settings: CqlSettings, error: BaseException) -> Exception:
    refusals = getattr(error, "errors", {})
    values = refusals.values() if isinstance(refusals, dict) else ()
    if any(isinstance(each, AuthenticationFailed) for each in values):
        return StoreMisconfigured(
            settings.location,
            "the cluster refuses the user and the password",
            hint="They come from HEADRACE_CQL_USERNAME and HEADRACE_CQL_PASSWORD, or from a block",
        )
    return StoreUnavailable(
        settings.location,
        "connecting",
        shorten(error),
        hint="Is the cluster up, and are hosts and port right?",
    )
