"""What a table has taken of each product, as application transactions of its log.

They are committed with the rows that they speak of, and Delta keeps them in every version. Of one
product:

    headrace/coinbase/BTC-USD           how many commits concerned it
    headrace/coinbase/BTC-USD/seen      until when changes of its parts were looked at, in
                                        microseconds since 1970 by the store's clock
    headrace/coinbase/BTC-USD/aside     how many commits of the quarantine belong to those of the
                                        trades
    headrace/coinbase/BTC-USD/ranges    how many ranges of ids were taken
    headrace/coinbase/BTC-USD/0/lo      the first id of the first range
    headrace/coinbase/BTC-USD/0/hi      the last id of it

Every commit that concerns a product raises the first of them. So the second of two that were made
from the same version is refused by Delta itself, whatever files they add or remove.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.coverage import EMPTY, IntervalSet

#: Raised when the meaning of the transactions or of the columns changes.
LAYOUT = 1
LAYOUT_ID = "headrace/layout"


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken of one product.

    Attributes:
        commits: how many concerned it.
        ranges: the ids that the table answers for, as the raw layer did when they were taken.
        seen_us: until when changes of parts were looked at; 0 for never.
        aside: how many commits of the quarantine belong to these; None where nothing says it. One
            more is of a run that did not come to commit its trades.
    """

    commits: int = 0
    ranges: IntervalSet = EMPTY
    seen_us: int = 0
    aside: int | None = None

    @classmethod
    def of(cls, transactions: Mapping[str, int], exchange: str, symbol: str) -> Taken:
        """What the transactions of a table say of a product."""
        base = app_id(exchange, symbol)
        ranges = [
            (transactions[f"{base}/{at}/lo"], transactions[f"{base}/{at}/hi"])
            for at in range(transactions.get(f"{base}/ranges", 0))
        ]
        return cls(
            transactions.get(base, 0),
            IntervalSet.from_ranges(ranges),
            transactions.get(f"{base}/seen", 0),
            transactions.get(f"{base}/aside"),
        )

    def transactions(self, exchange: str, symbol: str) -> dict[str, int]:
        """The same as transactions of a commit."""
        base = app_id(exchange, symbol)
        found = {
            base: self.commits,
            f"{base}/seen": self.seen_us,
            f"{base}/ranges": len(self.ranges.ranges),
        }
        if self.aside is not None:
            found[f"{base}/aside"] = self.aside
        for at, (lo, hi) in enumerate(self.ranges):
            found |= {f"{base}/{at}/lo": lo, f"{base}/{at}/hi": hi}
        return found


def app_id(exchange: str, symbol: str) -> str:
    """The transaction that every commit about a product raises."""
    return f"headrace/{exchange}/{symbol}"


def taken_products(transactions: Mapping[str, int], exchange: str) -> list[str]:
    """The products of which anything was taken, sorted."""
    prefix = f"headrace/{exchange}/"
    names = (name.removeprefix(prefix) for name in transactions if name.startswith(prefix))
    return sorted(name for name in names if "/" not in name)
