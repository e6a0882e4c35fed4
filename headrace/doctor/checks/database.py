"""Prefect's database: does the server reach it, is the local file sound, is it too big."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from headrace.doctor.asking import NoAnswer, ask
from headrace.doctor.databases import damage, reading
from headrace.doctor.model import Examined, Finding, ok, problem, warning

_MIB = 2**20
#: With the retention that `headrace up` sets, a busy month stays far below.
_BIG = 4096 * _MIB


def look_at_database(examined: Examined) -> Iterator[Finding]:
    """By the server's own word, and the file of the managed server by a look into it."""
    found = [*_by_the_server(examined), *_of_file(examined.database)]
    yield from found or [ok("no database yet; the first command makes it")]


def _by_the_server(examined: Examined) -> Iterator[Finding]:
    api = examined.api
    if api is None:
        return
    try:
        answer = ask(f"{api.url.rstrip('/')}/ready", api.headers)
    except NoAnswer:
        return  # the check of the server says so
    if answer.status == 503:
        yield problem(
            f"the Prefect server at {api.url} does not reach its database",
            "Look at that database, then restart the server",
        )
    elif answer.status == 200:
        yield ok(f"{api.url} reaches its database")


def _of_file(path: Path) -> Iterator[Finding]:
    if not path.exists():
        return
    size = sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))
    try:
        with reading(path) as connection:
            wrong = damage(connection)
    except sqlite3.Error as error:
        wrong = str(error)
    if wrong:
        yield problem(
            f"{path} is damaged ({wrong})",
            "headrace down, then move that file away: runs are lost from the UI, but no data; "
            "headrace checkpoint rebuild makes the checkpoints anew",
        )
    elif size > _BIG:
        yield warning(
            f"{path} has grown to {size / _MIB:,.0f} MiB",
            "Keep runs for a shorter time (docs/server.md), or headrace down --vacuum",
        )
    else:
        yield ok(f"{path} is sound, {size / _MIB:,.0f} MiB")
