"""The stores over which the suites of the log run: embedded, and CQL on a real server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.sot.opening import open_store
from headrace.sot.store import SotStore

TINY_BUCKETS = "?bucket_bytes=1024"

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
    options = TINY_BUCKETS if "tiny" in kind else ""
    return Backend(kind, f"{cassandra()}/sot_{uuid4().hex[:16]}{options}", [])
