"""Dashboards of a Looker by its SDK, page after page. Usage: looker_script.py DATABASE."""

from __future__ import annotations

import sqlite3
import sys
import time

import looker_sdk
from looker_sdk.error import SDKError
from looker_sdk.rtl import serialize

PAGE = 100
TRIES = 5


def main(path: str) -> None:
    """Store every dashboard; one that is there is replaced."""
    sdk = looker_sdk.init40()
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE IF NOT EXISTS dashboards (id TEXT PRIMARY KEY, body TEXT)")
    offset = 0
    while rows := page(sdk, offset):
        with database:
            database.executemany(
                "INSERT OR REPLACE INTO dashboards VALUES (?, ?)",
                [(row.id, serialize.serialize40(api_model=row).decode()) for row in rows],
            )
        offset += PAGE
    database.close()


def page(sdk: looker_sdk.methods40.Looker40SDK, offset: int) -> list:
    """One page; errors of the server are waited out."""
    for attempt in range(TRIES):
        try:
            return list(sdk.search_dashboards(limit=PAGE, offset=offset, sorts="id"))
        except SDKError:
            if attempt == TRIES - 1:
                raise
            time.sleep(0.5 * 2**attempt)
    raise AssertionError("the last try returns or raises")


if __name__ == "__main__":
    main(sys.argv[1])
