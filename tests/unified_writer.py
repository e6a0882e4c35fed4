"""A process that writes to a unified table, to be killed, or to run beside others.

    python tests/unified_writer.py transform|compact|rebuild LOCATION [S3_ENDPOINT]

`transform` takes, compacts all months, and removes old files. Prints a line once it is under way.
`HEADRACE_KILL_AT` makes it die at a named point.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from headrace.errors import HeadraceError
from headrace.lake import Lake, open_lake
from headrace.unified.compaction import vacuum
from headrace.unified.transformer import Transformer

PRODUCT = "BTC-USD"
#: Small, so that files fill up and a transform has several commits.
FILE_BYTES, COMMIT_ROWS = 60_000, 2_500


def open_here(location: str, endpoint: str | None = None) -> Lake:
    """The lake that the process works on."""
    settings = None
    if endpoint:
        from tests.services_fixtures import settings_for

        settings = settings_for(endpoint)
    return open_lake(location, s3=settings)


def writer(lake: Lake) -> Transformer:
    """What writes, with the tables made."""
    worker = Transformer(lake, "coinbase", file_bytes=FILE_BYTES, commit_rows=COMMIT_ROWS)
    worker.tables.make()
    return worker


def transform(lake: Lake) -> None:
    """Take what is new and what changed, compact, remove old files."""
    worker = writer(lake)
    change = worker.take(PRODUCT).change
    while change is not None and worker.tables.commit([change], "transform"):
        change = worker.take(PRODUCT).change
    compact(lake)
    vacuum(worker.tables, grace_h=1)


def compact(lake: Lake) -> None:
    """Compact all months; if another commit comes first, leave it."""
    worker = writer(lake)
    change = worker.compact(PRODUCT, all_months=True).change
    if change is not None:
        worker.tables.commit([change], "compact")


def rebuild(lake: Lake) -> None:
    """Convert everything again, until no other commit comes first."""
    worker = writer(lake)
    change = worker.rebuild(PRODUCT, fresh=False).change
    while change is not None and worker.tables.commit([change], "rebuild"):
        change = worker.rebuild(PRODUCT, fresh=False).change


if __name__ == "__main__":
    work = {"transform": transform, "compact": compact, "rebuild": rebuild}[sys.argv[1]]
    try:
        opened = open_here(*sys.argv[2:])
        print("under way", flush=True)
        work(opened)
    except HeadraceError as error:
        sys.exit(f"error: {error}")
