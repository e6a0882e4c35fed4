"""What a version of the tables holds of a product: ids, rows, files, and its content digest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.coverage import IntervalSet, Range
from headrace.lake.digest import ContentDigest
from headrace.run.report import Row
from headrace.trades import RAW_SCHEMA
from headrace.unified.rows import digest_of
from headrace.unified.table import Snapshot
from headrace.unified.taken_ids import Taken, taken_products

_DIGESTED = ["trade_id", "side", "price", "quantity", "trade_ts"]


@dataclass(frozen=True, slots=True)
class ProductState:
    """What the table holds of one product.

    Attributes:
        taken: ids that it answers for; those of trades in the quarantine too.
        rows, files: in the table.
    """

    taken: IntervalSet
    rows: int
    files: int

    def as_json(self) -> Row:
        """Plain values; ranges are inclusive."""
        return {"taken": self.taken.as_lists(), "rows": self.rows, "files": self.files}


def state_of(snapshot: Snapshot, exchange: str) -> dict[str, ProductState]:
    """What a snapshot of the trades holds of each product of an exchange."""
    rows: dict[str, int] = {}
    files: dict[str, int] = {}
    for file in snapshot.files(exchange=exchange):
        rows[file.symbol] = rows.get(file.symbol, 0) + file.rows
        files[file.symbol] = files.get(file.symbol, 0) + 1
    return {
        product: ProductState(
            Taken.of(snapshot.transactions, exchange, product).ranges,
            rows.get(product, 0),
            files.get(product, 0),
        )
        for product in taken_products(snapshot.transactions, exchange)
    }


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
