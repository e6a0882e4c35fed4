"""A transform of one product: take, commit, compact; again, where another run came first."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from headrace.coverage import EMPTY
from headrace.lake import Lake
from headrace.stopping import STOP, StopEvent
from headrace.unified.commits import Change, FileChanges, Tables
from headrace.unified.compaction import compaction
from headrace.unified.exceptions import TableBusy
from headrace.unified.raw_changes import COMMIT_ROWS, FILE_BYTES, Taker
from headrace.unified.report import ProductTransform
from headrace.unified.taken_ids import Taken, app_id, taken_products

#: How often another run may come first with a product before this one gives it up.
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was done of one product, and what is left to commit together with other products."""

    receipt: ProductTransform
    change: Change | None = None


class Transformer:
    """Brings the products of one exchange from the raw layer into the tables of its lake.

    Args:
        lake: opened.
        exchange: whose products.
        file_bytes: the full size of a file.
        commit_rows: rows of a product after which a commit is due.
        stop: once it is set, what is complete is kept and nothing more is begun.
        on_rows: called with the number of rows that were converted.
    """

    def __init__(
        self,
        lake: Lake,
        exchange: str,
        *,
        file_bytes: int = FILE_BYTES,
        commit_rows: int = COMMIT_ROWS,
        stop: StopEvent = STOP,
        on_rows: Callable[[int], None] = lambda _rows: None,
    ) -> None:
        self.raw = lake.raw(exchange)
        self.tables = Tables(lake)
        self.file_bytes = file_bytes
        self._commit_rows = commit_rows
        self._taker = Taker(
            self.raw,
            self.tables,
            file_bytes=file_bytes,
            commit_rows=commit_rows,
            stop=stop,
            on_rows=on_rows,
        )

    def take(self, product: str) -> Prepared:
        """Take what is new and what has changed of a product; never raises for what it meets.

        Large changes are committed at once. A small one is left to the caller, who commits those of
        several products together.
        """
        receipt = ProductTransform(product)
        for _ in range(_ATTEMPTS):
            late = False
            changes = self._taker.changes(product)
            for change in changes:
                if change.taken_rows < self._commit_rows:
                    return Prepared(receipt, change)
                late = bool(self.tables.commit([change], "transform"))
                if late:
                    changes.close()
                    break
                receipt = with_change(receipt, change)
            if not late:
                return Prepared(receipt)
        raise TableBusy(self.tables.trades.uri, _ATTEMPTS)

    def rebuild(self, product: str, *, fresh: bool) -> Prepared:
        """Convert everything of a product again; the caller commits it together with all others.

        Args:
            product: its id.
            fresh: the tables cannot be read.
        """
        return Prepared(ProductTransform(product), self._taker.rebuilt(product, fresh=fresh))

    def compact(self, product: str, *, all_months: bool = False) -> Prepared:
        """Merge what is due of a product; the caller commits it."""
        change = compaction(
            self.tables,
            self.raw.exchange,
            product,
            file_bytes=self.file_bytes,
            all_months=all_months,
        )
        return Prepared(ProductTransform(product), change)

    def removals(self, products: Collection[str]) -> list[Change]:
        """What takes out of the tables all that they hold of other products than these."""
        trades = self.tables.snapshot(self.tables.trades)
        quarantine = self.tables.snapshot(self.tables.quarantine)
        exchange = self.raw.exchange
        return [
            Change(
                exchange,
                symbol,
                replace(Taken.of(trades.transactions, exchange, symbol), ranges=EMPTY, seen_us=0),
                quarantine.transactions.get(app_id(exchange, symbol), 0),
                FileChanges(removes=tuple(trades.files(exchange=exchange, symbol=symbol))),
                FileChanges(removes=tuple(quarantine.files(exchange=exchange, symbol=symbol))),
            )
            for symbol in taken_products(trades.transactions, exchange)
            if symbol not in products
        ]


def with_change(receipt: ProductTransform, change: Change) -> ProductTransform:
    """The receipt of a product of which one more change was committed."""
    if change.rearranges:
        removed, added = (
            len(change.trades.removes) + len(change.quarantine.removes),
            len(change.trades.adds) + len(change.quarantine.adds),
        )
        return replace(receipt, merged_files=receipt.merged_files + removed - added)
    return replace(
        receipt,
        new_rows=receipt.new_rows + change.taken_rows,
        quarantined=receipt.quarantined + change.misfits,
        replaced_files=receipt.replaced_files + len(change.trades.removes),
    )
