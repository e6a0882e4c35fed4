"""The stores over which the suites of the log run: embedded, and CQL on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.sot.cql import CqlStore, open_cql
from headrace.sot.cql.tables import LOG, PARKED, SYMBOLS, TILES
from headrace.sot.opening import open_store
from headrace.sot.store import SotStore

TINY_BUCKETS = "?bucket_bytes=1024"

#: A keyspace costs a server some seconds and megabytes, so a test process has one and empties it.
_KEYSPACE = f"sot_{uuid4().hex[:16]}"

BACKENDS = [
    "embedded",
    pytest.param("cql", marks=[pytest.mark.services, pytest.mark.slow]),
    # The harder of the two: nearly every commit fills a bucket.
    pytest.param("cql-tiny-buckets", marks=pytest.mark.services),
]


@dataclass(frozen=True)
class Backend:
    """One kind of store, empty; every `open` gives another object on the same log."""

    kind: str
    location: str
    opened: list[SotStore]

    def open(self) -> SotStore:
        """The store, closed at the end of the test."""
        store = open_store(self.location)
        self.opened.append(store)
        return store


def make_backend(kind: str, tmp_path: Path, cassandra: Callable[[], str]) -> Backend:
    """An empty store of a kind; `cassandra` gives the cluster's location when it is needed."""
    if kind == "embedded":
        return Backend(kind, str(tmp_path / "sot"), [])
    location = f"{cassandra()}/{_KEYSPACE}"
    store = open_cql(location)
    empty(store)
    store.close()
    return Backend(kind, location + (TINY_BUCKETS if "tiny" in kind else ""), [])


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """An empty store of each kind; what a test opens is closed behind it."""
    made = make_backend(
        request.param, tmp_path, lambda: request.getfixturevalue("cassandra").location
    )
    yield made
    for opened in made.opened:
        opened.close()


@pytest.fixture
def store(backend: Backend) -> SotStore:
    """That store, opened."""
    return backend.open()


def empty(store: CqlStore) -> None:
    """Remove every row of a log, but not the note of its format."""
    session = store._session
    keyspace = session.settings.keyspace
    for table, keys in (
        (LOG, "symbol_id, bucket"),
        (PARKED, "symbol_id"),
        (SYMBOLS, "symbol_id"),
        (TILES, "symbol_id, level, part"),
    ):
        distinct = "" if table == SYMBOLS else "DISTINCT"
        where = " AND ".join(f"{key} = %s" for key in keys.split(", "))
        for row in session.driver.execute(f"SELECT {distinct} {keys} FROM {keyspace}.{table}"):
            session.driver.execute(f"DELETE FROM {keyspace}.{table} WHERE {where}", tuple(row))
