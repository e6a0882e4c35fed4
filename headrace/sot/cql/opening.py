"""Opening a CQL store: its keyspace and its tables are made if they are not there."""

from __future__ import annotations

from functools import partial
from typing import Any

from headrace.sot.cql.schema import FORMAT, META, TABLES
from headrace.sot.cql.session import CqlSession
from headrace.sot.cql.settings import CqlSettings, parse_location
from headrace.sot.cql.store import CqlStore
from headrace.sot.exceptions import DamagedLog, NewerLog, StoreMisconfigured
from headrace.stopping import STOP, StopEvent


def open_cql(
    location: str | CqlSettings, *, create: bool = True, stop: StopEvent = STOP, **given: Any
) -> CqlStore:
    """The store at a location.

    Args:
        location: `cql://HOST[,HOST...][:PORT]/KEYSPACE[?option=value]`, or settings.
        create: make what is missing; without it, a keyspace that holds no log is an error.
        stop: ends waits for a cluster in trouble.
        given: fields of `CqlSettings` on top of a location.

    Raises:
        StoreMisconfigured: the location, or there is no log and none may be made.
        StoreUnavailable: the cluster does not answer.
        NewerLog: a later version wrote it.
    """
    settings = parse_location(location, **given) if isinstance(location, str) else location
    session = CqlSession(settings, stop=stop)
    try:
        _have_tables(session, create=create)
        session.prepare()
    except BaseException:
        session.close()
        raise
    return CqlStore(session)


def _have_tables(session: CqlSession, *, create: bool) -> None:
    """Compare what is there with what must be; make it only where something is missing.

    Making a table twice at the same moment can leave a cluster with two of its name, so nothing is
    asked for that is there already.
    """
    keyspace = session.settings.keyspace
    present = _tables(session)
    missing = [name for name in TABLES if name not in present]
    if missing and not create:
        raise StoreMisconfigured(
            session.location, "it holds no source-of-truth log", hint="Look at --store"
        )
    if missing:
        if not present:
            _make_keyspace(session)
        for name in missing:
            statement = f"CREATE TABLE IF NOT EXISTS {keyspace}.{name} {TABLES[name]}"
            session.patiently("making tables", partial(session.driver.execute, statement))
        if META in missing:
            statement = f"INSERT INTO {keyspace}.{META} (name, value) VALUES ('format', '{FORMAT}')"
            session.patiently("making tables", lambda: session.driver.execute(statement))
    _check_format(session)


def _make_keyspace(session: CqlSession) -> None:
    settings = session.settings
    # The name was checked; the data centre's comes from the cluster or from the settings.
    centre = session.local_dc.replace("'", "''")
    statement = (
        f"CREATE KEYSPACE IF NOT EXISTS {settings.keyspace} WITH replication = "
        f"{{'class': 'NetworkTopologyStrategy', '{centre}': {settings.replication}}}"
    )
    session.patiently("making the keyspace", lambda: session.driver.execute(statement))


def _tables(session: CqlSession) -> set[str]:
    query = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s"
    keyspace = session.settings.keyspace
    rows = session.patiently("reading", lambda: session.driver.execute(query, (keyspace,)))
    return {row.table_name for row in rows}


def _check_format(session: CqlSession) -> None:
    keyspace = session.settings.keyspace
    query = f"SELECT value FROM {keyspace}.{META} WHERE name = 'format'"
    rows = list(session.patiently("reading", lambda: session.driver.execute(query)))
    where = f"{session.location}, table {META}"
    if not rows or not (rows[0].value or "").isdecimal():
        raise DamagedLog(where, "the format of the log is not noted, or is no number")
    found = int(rows[0].value)
    if found > FORMAT:
        raise NewerLog(where, found, FORMAT)
    if found != FORMAT:
        raise DamagedLog(where, f"format {found} never was")
