"""What a check found: breaches of its bounds by product, and what a run says of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from headrace.amounts import counted, duration
from headrace.coverage import Range
from headrace.run.report import Report, Row, Sheet, Status, ended, error_lines, plain


class Check(StrEnum):
    """What is checked; each has a bound, and a breach of it has a name of its own."""

    MISSING = "missing"  #: ids that no part answers for, between the first and the newest stored
    HOLE = "hole"  #: a run of ids that the exchange does not have, longer than the bound
    UNREADABLE = "unreadable"  #: a part that cannot be read
    DUPLICATE = "duplicate"  #: an id that is stored more than once
    ORDER = "order"  #: an id below the one before it in its part
    PRICE = "price"  #: a price that is no number above zero
    SIZE = "size"  #: a size that is no number above zero
    JUMP = "jump"  #: a price that differs from the one before by more than a factor
    TIME = "time"  #: a time far before that of the id before, in the future, or before any exchange
    STALE = "stale"  #: the newest trade is older than the bound
    UNIFIED = "unified"  #: the unified table does not hold the trades of the raw layer
    QUARANTINE = "quarantine"  #: trades that do not fit the unified table


_ENDINGS = {
    Status.DONE: "every check passed",
    Status.PARTIAL: "checks failed",
    Status.FAILED: "nothing could be checked",
    Status.RUNNING_ELSEWHERE: "already running elsewhere",
}
#: Breaches in the UI's table.
_MOST_BREACHES = 500


@dataclass(frozen=True, slots=True)
class Breach:
    """One bound of one product that does not hold.

    Args:
        found: how much of it there is: ids, rows or parts, or seconds for `stale`.
        bound: how much is allowed, in words.
        message: what was found, with the first examples.
        range: the ids between which it was found, inclusive, if it is about ids.
    """

    check: Check
    product: str
    found: int
    bound: str
    message: str
    range: Range | None = None

    def described(self) -> str:
        """The breach in one line."""
        where = f" {self.range[0]}-{self.range[1]}" if self.range else ""
        return f"{self.product}: {self.check.value}{where}: {self.message} (bound: {self.bound})"

    def as_json(self) -> Row:
        """Plain values for `--json`, and the payload of the event."""
        return {
            "check": self.check.value,
            "product": self.product,
            "found": self.found,
            "bound": self.bound,
            "range": list(self.range) if self.range else None,
            "message": self.message,
        }

    def as_row(self) -> Row:
        """One row of the table in the UI."""
        lo, hi = self.range or ("", "")
        return {
            "product": self.product,
            "check": self.check.value,
            "found": self.found,
            "bound": self.bound,
            "from": lo,
            "to": hi,
            "what": self.message,
        }


@dataclass(frozen=True, slots=True)
class ProductChecks:
    """What was found of one product.

    Args:
        status: done if every bound holds, partial if not, failed if it could not be checked.
        parts, rows: looked at.
        newest: its newest trade; None if none is stored.
        age_s: seconds since that trade.
        breaches: the bounds that do not hold.
        notes: what is worth knowing and no breach.
        error: what kept a part of the checks, or all, from being made.
    """

    product: str
    status: Status
    parts: int = 0
    rows: int = 0
    newest: datetime | None = None
    age_s: float | None = None
    breaches: tuple[Breach, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""

    def as_json(self) -> Row:
        """Plain values for `--json`."""
        return {
            "product": self.product,
            "status": self.status.value,
            "parts": self.parts,
            "rows": self.rows,
            "newest": self.newest.isoformat() if self.newest else None,
            "age_s": None if self.age_s is None else round(self.age_s, 3),
            "breaches": [breach.as_json() for breach in self.breaches],
            "notes": list(self.notes),
            "error": self.error or None,
        }

    def as_row(self) -> Row:
        """One row for people."""
        failed = ", ".join(breach.check.value for breach in self.breaches)
        return {
            "product": self.product,
            "status": self.status.value,
            "trades": self.rows,
            "age": "" if self.age_s is None else duration(max(self.age_s, 0.0)),
            "breaches": failed,
        }

    def as_sheet_row(self) -> Row:
        """One row of the table in the UI: what was found, by check."""
        found = {breach.check: breach.found for breach in self.breaches}
        return {**self.as_row(), **{check.value: found.get(check, 0) for check in Check}}


@dataclass(frozen=True, slots=True)
class CheckReport(Report):
    """One check of some products: as printed, stored as artifacts and given to `--json`.

    Args:
        lake: where it is.
        since: rows before this moment were not looked at; None: all were.
        chosen: how the products were named; empty where their ids were given.
    """

    key: ClassVar[str] = "headrace-check"

    run: str
    status: Status
    lake: str
    ui_url: str | None
    elapsed_s: float
    products: tuple[ProductChecks, ...]
    since: datetime | None = None
    stopped: bool = False
    chosen: str = ""

    @property
    def breaches(self) -> list[Breach]:
        """All of them, product by product."""
        return [breach for each in self.products for breach in each.breaches]

    def as_json(self) -> dict[str, Any]:
        """The JSON summary."""
        return {
            "run": self.run,
            "status": self.status.value,
            "ui_url": self.ui_url,
            "elapsed_s": round(self.elapsed_s, 3),
            "lake": self.lake,
            "since": self.since.isoformat() if self.since else None,
            **({"chosen": self.chosen} if self.chosen else {}),
            "breaches": dict(Counter(breach.check.value for breach in self.breaches)),
            "products": [each.as_json() for each in self.products],
        }

    def title(self) -> str:
        """How it ended, and which products breach a bound."""
        if self.stopped:
            return "stopped on request, not everything was checked"
        return ended(self.status, ((each.product, each.status) for each in self.products), _ENDINGS)

    def totals(self) -> str:
        """Breaches, trades, parts and time."""
        rows = sum(each.rows for each in self.products)
        parts = sum(each.parts for each in self.products)
        return (
            f"{counted(len(self.breaches), 'breach')}, "
            f"{counted(rows, 'trade')} in {counted(parts, 'part')} looked at, "
            f"{duration(self.elapsed_s)}"
        )

    def table(self) -> list[Row]:
        """A row per product."""
        return [each.as_row() for each in self.products]

    def sheets(self) -> list[Sheet]:
        """The products with what each check found, and the breaches."""
        breaches = self.breaches
        return [
            Sheet("", "What each check found", [each.as_sheet_row() for each in self.products]),
            Sheet(
                "breaches",
                f"{counted(len(breaches), 'bound that does', 'bounds that do')} not hold",
                [breach.as_row() for breach in breaches[:_MOST_BREACHES]],
            ),
        ]

    def remarks(self) -> list[str]:
        """A line per error, per breach and per note."""
        return [
            *error_lines((each.product, each.error) for each in self.products),
            *(breach.described() for breach in self.breaches),
            *(f"{each.product}: {note}" for each in self.products for note in each.notes),
        ]

    def facts(self) -> list[str]:
        """The lake, and what of it was looked at."""
        lines = [f"lake `{self.lake}`"]
        lines += [f"products by {plain(self.chosen)}"] if self.chosen else []
        lines += [f"rows since {self.since:%Y-%m-%d %H:%M} UTC"] if self.since else []
        return lines
