"""What a version of the table holds of each product, in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.coverage import IntervalSet
from headrace.run.report import Row
from headrace.unified.table import Snapshot
from headrace.unified.taken import Taken, taken_products


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
