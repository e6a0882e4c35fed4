"""The keyspace and its tables: made where something is missing, compared with what must be."""

from __future__ import annotations

from functools import partial

from headrace.sot.cql.session import CqlSession
from headrace.sot.cql.tables import FORMAT, META, TABLES, TILES
from headrace.sot.exceptions import DamagedLog, NewerLog, StoreMisconfigured


def have_tables(session: CqlSession, *, create: bool) -> None:
    """Compare what is there with what must be; make it only where something is missing.

    Making a table twice at the same moment can leave a cluster with two of its name, so nothing is
    asked for that is there already.
    """
    keyspace = session.settings.keyspace
    present = _tables(session)
    missing = [name for name in TABLES if name not in present]
    # Tiles came later than the rest, and are derived: a log of before gets their table at once.
    if missing not in ([], [TILES]) and not create:
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
