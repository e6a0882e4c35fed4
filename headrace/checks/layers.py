"""The unified table beside the raw layer: does it hold the same trades, and how many do not fit."""

from __future__ import annotations

from headrace.coverage import IntervalSet
from headrace.lake import Lake, Part, PartFooter, Store
from headrace.unified.commits import Tables
from headrace.unified.contents import content_of
from headrace.unified.table import Snapshot
from headrace.unified.taken_ids import Taken


class Layers:
    """One version of the unified tables of a lake.

    Args:
        trades, quarantine: what they hold.
        exchange: name of the exchange.
    """

    def __init__(self, trades: Snapshot, quarantine: Snapshot, exchange: str) -> None:
        self._trades = trades
        self._quarantine = quarantine
        self._exchange = exchange

    @classmethod
    def opened(cls, store: Store, exchange: str) -> Layers | None:
        """The tables as they are now; None of a lake that has none.

        Raises:
            ExtraMissing: there is a table, and deltalake is not installed.
            TableDamaged, TableTooNew, TableUnreachable: it cannot be read.
            StoreError: the store failed.
        """
        tables = Tables(Lake(store))
        if not tables.trades.exists():
            return None
        trades, quarantine = map(tables.snapshot, (tables.trades, tables.quarantine))
        return cls(trades, quarantine, exchange)

    def taken(self, product: str) -> Taken:
        """What the table has taken of a product."""
        return Taken.of(self._trades.transactions, self._exchange, product)

    def quarantined(self, product: str) -> int:
        """How many trades of a product are in the quarantine."""
        files = self._quarantine.files(exchange=self._exchange, symbol=product)
        return sum(file.rows for file in files)

    def difference(self, product: str, part: Part, footer: PartFooter, taken: IntervalSet) -> str:
        """How the table differs from a part that it has taken as a whole; empty if it does not.

        Of a part that it took a piece of nothing is said: the next transform takes the rest.

        Args:
            taken: the ids of the product that the table has taken.

        Raises:
            TableDamaged: a file of the table cannot be read.
        """
        if not taken.contains(part.lo, part.hi):
            return ""
        ids = [(part.lo, part.hi)]
        rows, digest = content_of(self._trades, self._quarantine, self._exchange, product, ids)
        if rows != footer.rows:
            return f"{part.name}: {rows:,} trades in the unified table, {footer.rows:,} in the part"
        return f"{part.name}: other trades" if digest != footer.content else ""
