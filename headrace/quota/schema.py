"""The tables of a quota's file. Times are nanoseconds of the monotonic clock of `boot_id`."""

VERSION = 1
TABLES = """
CREATE TABLE state (
    boot_id TEXT NOT NULL,
    rates TEXT NOT NULL,
    blocked_until INTEGER NOT NULL DEFAULT 0, -- nothing leaves before
    slowdown REAL NOT NULL DEFAULT 1,         -- what every window is stretched by
    episode INTEGER NOT NULL DEFAULT 0        -- when that was last raised
);
CREATE TABLE owners (
    owner INTEGER PRIMARY KEY AUTOINCREMENT,
    pid INTEGER NOT NULL,
    started INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    grants INTEGER NOT NULL DEFAULT 0,
    retry INTEGER NOT NULL DEFAULT 0,         -- threads that wait, by lane
    ingest INTEGER NOT NULL DEFAULT 0,
    backfill INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE slots (
    seq INTEGER PRIMARY KEY,                  -- in order of booking
    at INTEGER NOT NULL,                      -- its permit leaves no earlier
    until INTEGER NOT NULL,                   -- and no later; 0 when it was given back
    settled INTEGER NOT NULL,                 -- whether `until` is when it really left
    ticket INTEGER NOT NULL,                  -- who holds it: the seq under which they booked
    owner INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    passes INTEGER NOT NULL                   -- see headrace.quota.overtake
);
CREATE INDEX slots_until ON slots (until, settled)
"""

#: Made with the file or when it is next opened: files of older versions lack it.
REFUSALS = """
CREATE TABLE IF NOT EXISTS refusals (
    seq INTEGER PRIMARY KEY,                  -- the slot of a request that was answered 429
    at INTEGER NOT NULL                       -- when
)
"""

#: Forgets all permits; their rows stay, so that their numbers are not given out again.
FORGET = "UPDATE slots SET at = 0, until = 0, settled = 1"
