"""One HTTP request, and a look into a SQLite file, each with short limits and without a trace.

A reader of a database in WAL mode makes `-wal` and `-shm` files beside it, and a reader that may
not write leaves them there (measured). So a file that no process has open is read as immutable,
which makes none; one that a process has open has them already.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from headrace.errors import HeadraceError
from headrace.wire.exceptions import RequestError
from headrace.wire.transport import Response, Timeouts, Transport

_LIMITS = Timeouts(connect_s=3.0, read_s=4.0, total_s=8.0)


class NoAnswer(HeadraceError):
    """The server did not answer."""


def ask(url: str, headers: Mapping[str, str] | None = None) -> Response:
    """Ask once; follow no redirect.

    Raises:
        NoAnswer: no connection, no answer in time, or no such URL.
    """
    parts = urlsplit(url)
    # The path is part of the base, so that errors name the whole URL.
    path = parts.path.rstrip("/")
    target = ("" if path else "/") + (f"?{parts.query}" if parts.query else "")
    try:
        with Transport(f"{parts.scheme}://{parts.netloc}{path}", timeouts=_LIMITS) as transport:
            return transport.get(target, headers)
    except RequestError as error:
        raise NoAnswer(error.message, hint=error.hint) from error


_CHECK_S = 3.0
_STEPS = 10_000


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    in_use = path.with_name(f"{path.name}-wal").exists()
    mode = "mode=ro" if in_use else "immutable=1"
    uri = f"file:{quote(str(path.absolute()))}?{mode}"
    with closing(sqlite3.connect(uri, uri=True, timeout=2.0)) as connection:
        yield connection


def damage(connection: sqlite3.Connection) -> str:
    """What SQLite's own check finds first; empty if nothing, or if it takes too long."""
    deadline = time.monotonic() + _CHECK_S
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            return ""
        raise
    finally:
        connection.set_progress_handler(None, 0)
    return "" if found == "ok" else found
