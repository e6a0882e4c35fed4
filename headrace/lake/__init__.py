"""The lake: Parquet parts of raw trades in a local folder or an S3 bucket.

    lake = open_lake("data/lake")             # or s3://bucket/prefix; checks that it can be used
    raw = lake.raw("coinbase")                # records or reads the grid
    cell = raw.grid.cell_of(newest_id)        # Cell(index, lo, hi)
    raw.coverage("BTC-USD")                   # IntervalSet, from names alone
    receipt = raw.write("BTC-USD", lo, hi, table, source="api.exchange.coinbase.com",
                        fetched_at=now)       # durable when it returns; twice is once
    raw.read("BTC-USD", lo, hi)               # one table; scan() for one part at a time
    raw.parts("BTC-USD")                      # PartListing: parts, hidden, overlaps, foreign
    raw.footers(listing.parts)                # several at a time: range, rows, holes, digest
    raw.newest("BTC-USD")                     # id and time, from statistics
    raw.first_id("BTC-USD"), raw.totals("BTC-USD", lo, hi)   # rows and long holes, from footers
    raw.stats("BTC-USD")                      # coverage, rows and long holes of one moment
    raw.verify(part)                          # rows against footer and name
    raw.merge_due("BTC-USD")                  # pieces of a cell become one part
    raw.sweep("BTC-USD")                      # what a kill left behind

Every table that goes in or comes out has `headrace.trades.RAW_SCHEMA`. `docs/lake.md` describes
the layout for readers that are not ours; `headrace.lake.exceptions` what can go wrong.
"""

from typing import TYPE_CHECKING

from headrace.lazy_imports import deferred

if TYPE_CHECKING:
    from headrace.lake.digest import ContentDigest, content_digest, row_digest
    from headrace.lake.encoding import PartFooter
    from headrace.lake.grid import DEFAULT_CELL_PAGES, PAGE_IDS, Cell, Grid
    from headrace.lake.names import PartName, canonical_exchange, canonical_product
    from headrace.lake.opening import Lake, look_into, open_lake
    from headrace.lake.parts import Overlap, Part, PartListing, PartReceipt
    from headrace.lake.raw import RawLake
    from headrace.lake.s3_settings import S3Settings
    from headrace.lake.stats import LakeStats, NewestTrade
    from headrace.lake.store import Store, StoredObject
    from headrace.lake.upkeep import SweepReceipt

__all__ = [
    "DEFAULT_CELL_PAGES",
    "PAGE_IDS",
    "Cell",
    "ContentDigest",
    "Grid",
    "Lake",
    "LakeStats",
    "NewestTrade",
    "Overlap",
    "Part",
    "PartFooter",
    "PartListing",
    "PartName",
    "PartReceipt",
    "RawLake",
    "S3Settings",
    "Store",
    "StoredObject",
    "SweepReceipt",
    "canonical_exchange",
    "canonical_product",
    "content_digest",
    "look_into",
    "open_lake",
    "row_digest",
]

__getattr__ = deferred(
    __name__,
    {
        "digest": "ContentDigest content_digest row_digest",
        "encoding": "PartFooter",
        "grid": "DEFAULT_CELL_PAGES PAGE_IDS Cell Grid",
        "names": "PartName canonical_exchange canonical_product",
        "opening": "Lake look_into open_lake",
        "parts": "Overlap Part PartListing PartReceipt",
        "raw": "RawLake",
        "s3_settings": "S3Settings",
        "stats": "LakeStats NewestTrade",
        "store": "Store StoredObject",
        "upkeep": "SweepReceipt",
    },
)
