"""A process that fills a lake, to be killed: sweep, write what is missing, merge what is due.

    python tests/lake_writer.py LOCATION LAST_ID [S3_ENDPOINT]

Prints a line once it is under way. `HEADRACE_KILL_AT` makes it die at a named point.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from headrace.errors import HeadraceError
from headrace.lake import RawLake, open_lake
from tests.lake_samples import FETCHED_AT, SOURCE, trades

PRODUCT = "BTC-USD"
PIECE_IDS = 250
CELL_PAGES = 2


def open_raw(location: str, endpoint: str | None = None) -> RawLake:
    """The lake that the process fills."""
    settings = None
    if endpoint:
        from tests.services_fixtures import settings_for

        settings = settings_for(endpoint)
    return open_lake(location, s3=settings).raw("coinbase", cell_pages=CELL_PAGES)


def fill(raw: RawLake, last_id: int) -> None:
    """Bring the lake to all of [1, last_id], from wherever it is."""
    raw.sweep(PRODUCT)
    for lo in range(1, last_id, PIECE_IDS):
        hi = lo + PIECE_IDS - 1
        if not raw.coverage(PRODUCT).contains(lo, hi):
            rows = trades(range(lo, hi + 1))
            raw.write(PRODUCT, lo, hi, rows, source=SOURCE, fetched_at=FETCHED_AT)
        raw.merge_due(PRODUCT)


if __name__ == "__main__":
    try:
        lake = open_raw(sys.argv[1], *sys.argv[3:])
        print("under way", flush=True)
        fill(lake, int(sys.argv[2]))
    except HeadraceError as error:
        sys.exit(f"{type(error).__name__}: {error}")
