"""The tables of a vault, and the steps from one version of them to the next.

Times are text, UTC, as in 2018-02-05T20:33:54.000000Z, so that they sort and read well. Bodies
stand apart from the rows that change with every run: a run in which nothing changed rewrites short
rows only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

APPLICATION_ID = 0x48524C56  # "HRLV": marks our file among any other SQLite file

_V1 = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,               -- extract, retry, pack, restore
    run_id TEXT NOT NULL,
    parameters TEXT NOT NULL,         -- JSON
    started_at TEXT NOT NULL,
    ended_at TEXT,
    status TEXT NOT NULL,             -- running, done, partial, failed, interrupted
    summary TEXT NOT NULL             -- JSON
) STRICT;
CREATE TABLE item (
    key INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    id TEXT NOT NULL,                 -- text, whatever the server wrote
    name TEXT, owner TEXT, folder TEXT,
    created_at TEXT, updated_at TEXT, -- what the server says
    deletion TEXT,                    -- trashed (the body says so), gone (proven), or null
    deleted_at TEXT,
    first_session INTEGER NOT NULL,
    seen_session INTEGER NOT NULL,    -- the last one in which the server showed it
    seen_at TEXT NOT NULL,
    version INTEGER NOT NULL,         -- the current one
    hash BLOB NOT NULL,               -- SHA-256 of the current body
    UNIQUE (type, id)
) STRICT;
CREATE TABLE body (
    item INTEGER NOT NULL,
    version INTEGER NOT NULL,         -- 1, 2, ...
    session INTEGER NOT NULL,         -- the one that stored it
    stored_at TEXT NOT NULL,
    origin TEXT NOT NULL,             -- server, pack
    hash BLOB NOT NULL,               -- SHA-256 of the body as sent
    size_bytes INTEGER NOT NULL,      -- of the body as sent
    codec INTEGER NOT NULL,           -- see headrace.looker.vault.bodies
    body BLOB NOT NULL,
    UNIQUE (item, version)
) STRICT;
CREATE INDEX body_session ON body (session);
CREATE TABLE event (                  -- deleted and returned, with the evidence
    item INTEGER NOT NULL,
    session INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    evidence TEXT NOT NULL
) STRICT;
CREATE INDEX event_item ON event (item);
CREATE TABLE listing (
    session INTEGER NOT NULL,
    type TEXT NOT NULL,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,              -- empty: everything; else what it was narrowed to
    complete INTEGER NOT NULL,        -- without one failed page, to its end
    items INTEGER NOT NULL,
    ended_at TEXT NOT NULL,
    PRIMARY KEY (session, type, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE page (                   -- what a killed run need not ask for again
    session INTEGER NOT NULL,
    type TEXT NOT NULL,
    listing TEXT NOT NULL,
    start INTEGER NOT NULL,           -- the offset
    size INTEGER NOT NULL,            -- the limit
    items INTEGER NOT NULL,           -- how many came
    first TEXT NOT NULL DEFAULT '',   -- ids at its ends: neighbours overlap in one
    last TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (session, type, listing, start, size)
) STRICT, WITHOUT ROWID;
CREATE TABLE todo (                   -- listed, body not fetched yet
    session INTEGER NOT NULL,
    type TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (session, type, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE failure (
    type TEXT NOT NULL,
    kind TEXT NOT NULL,               -- item, page
    key TEXT NOT NULL,                -- the id; of a page listing:start+size
    status INTEGER,                   -- HTTP, null without an answer
    message TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    session INTEGER NOT NULL,         -- the last one that failed
    first_at TEXT NOT NULL,
    last_at TEXT NOT NULL,
    resolved_at TEXT,
    PRIMARY KEY (type, kind, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX failure_open ON failure (type, kind, key) WHERE resolved_at IS NULL;
"""

_V2 = """
CREATE TABLE restored (
    target TEXT NOT NULL,             -- base URL of the Looker that it went to
    type TEXT NOT NULL,
    id TEXT NOT NULL,                 -- in the vault
    new_id TEXT NOT NULL,             -- there
    hash BLOB NOT NULL,               -- of the body that was restored
    complete INTEGER NOT NULL,        -- 0: made, its parts not yet
    session INTEGER NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (target, type, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX restored_new ON restored (target, type, new_id);
CREATE TABLE restore_intent (         -- about to be made; a kill may have come after
    target TEXT NOT NULL,
    type TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (target, type, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE restore_failure (
    target TEXT NOT NULL,
    type TEXT NOT NULL,
    id TEXT NOT NULL,
    status INTEGER,
    message TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    session INTEGER NOT NULL,
    first_at TEXT NOT NULL,
    last_at TEXT NOT NULL,
    resolved_at TEXT,
    PRIMARY KEY (target, type, id)
) STRICT, WITHOUT ROWID;
"""

Step = Callable[[sqlite3.Connection], None]


def _script(text: str) -> Step:
    def run(db: sqlite3.Connection) -> None:
        # Not executescript, which commits what is open first.
        for statement in text.split(";\n"):
            if statement.strip():
                db.execute(statement)

    return run


#: Step n leads from version n to n + 1; version 0 is an empty file.
MIGRATIONS: tuple[Step, ...] = (_script(_V1), _script(_V2))
