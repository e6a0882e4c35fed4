"""What the tables hold of some ids: how many rows, and their content digest."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.coverage import Range
from headrace.lake.digest import ContentDigest
from headrace.trades import RAW_SCHEMA
from headrace.unified.rows import digest_of
from headrace.unified.table import Snapshot

_DIGESTED = ["trade_id", "side", "price", "quantity", "trade_ts"]


def content_of(
    trades: Snapshot, quarantine: Snapshot, exchange: str, symbol: str, ranges: Iterable[Range]
) -> tuple[int, ContentDigest]:
    """Rows and content digest of both tables in some ranges of ids of one product.

    They are those of the raw layer in the same ranges, if both layers hold the same trades.

    Args:
        trades, quarantine: snapshots of the two tables.
        exchange, symbol: the product.
        ranges: inclusive, disjoint.

    Raises:
        TableDamaged: a file cannot be read.
    """
    rows, digest = 0, ContentDigest()
    for snapshot, columns in ((trades, _DIGESTED), (quarantine, [*RAW_SCHEMA.names, "reason"])):
        files = snapshot.files(exchange=exchange, symbol=symbol)
        for lo, hi in ranges:
            for file in files:
                if file.first_id <= hi and file.last_id >= lo:
                    for table in snapshot.read(file.path, lo, hi, columns):
                        rows += table.num_rows
                        digest += digest_of(table)
    return rows, digest
