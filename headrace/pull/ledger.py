"""The books of one product's run: what is covered, what it holds, what failed."""

from __future__ import annotations

from headrace.coverage import EMPTY, IntervalSet, Range
from headrace.pull.receipts import ChunkReceipt


class Ledger:
    """Opened with what the lake holds, kept up with the receipts of chunks.

    Args:
        covered: ids answered for and durable in the lake.
        rows: trades stored within them.
        holes: ids proven absent, a page or more at once.
    """

    def __init__(
        self, covered: IntervalSet = EMPTY, rows: int = 0, holes: IntervalSet = EMPTY
    ) -> None:
        self.covered = covered
        self.rows = rows
        self.holes = holes
        self.new_rows = 0
        self.pages = 0
        self.brought = False
        self.changed = False
        self.counted = True
        self.first_error = ""
        self._tried_in_vain = EMPTY

    @property
    def failed(self) -> IntervalSet:
        """What was tried and is not covered."""
        return self._tried_in_vain - self.covered

    def cover(self, *answered: Range) -> None:
        """Note ranges as answered for."""
        self.covered = self.covered | IntervalSet.of(*answered)
        self.changed = True

    def found(self, listed: IntervalSet) -> None:
        """Note what the lake's names cover now; whose trades they are has to be counted anew."""
        self.covered = listed
        self.counted = False

    def recount(self, covered: IntervalSet, rows: int, holes: IntervalSet) -> None:
        """Open the books anew with what the lake holds, all of one moment."""
        self.covered, self.rows, self.holes = covered, rows, holes
        self.counted = True

    def enter(self, receipt: ChunkReceipt) -> None:
        """Note what became of a chunk."""
        self.pages += receipt.pages
        if receipt.error:
            self.first_error = self.first_error or receipt.error
            self._tried_in_vain = self._tried_in_vain | IntervalSet.of(receipt.span)
        if not receipt.answered:
            return
        self.brought = True
        self.rows += receipt.rows
        self.new_rows += receipt.rows if receipt.written else 0
        self.holes = self.holes | IntervalSet.from_ranges(receipt.holes)
        self.cover(*receipt.answered)
