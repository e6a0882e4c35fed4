"""What was not stored, and why; bounded, however much is wrong."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

#: Named one by one; beyond that they are counted.
NAMED: Final = 100


class Problem(msgspec.Struct, frozen=True):
    """One record, or a stretch of records, that did not go into its chain.

    Attributes:
        kind: `gap`, `link`, `fork`, `hash`, `malformed`, `taken-over`, `damage` or `full`.
        symbol_id: None if the record is not sound enough to say.
        seq, last_seq: which records.
        message: one line, with the symbol and the sequence in it.
        where: place in the source, if it is known.
    """

    kind: str
    symbol_id: int | None
    seq: int | None
    last_seq: int | None
    message: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class Problems:
    """Problems as they are met: the first `NAMED` by name, all by count."""

    def __init__(self) -> None:
        self.named: list[Problem] = []
        self.counts: Counter[str] = Counter()

    def add(self, problem: Problem, records: int = 1) -> None:
        """Take in a problem that concerns so many records."""
        self.counts[problem.kind] += records
        if len(self.named) < NAMED:
            self.named.append(problem)

    def merge(self, named: list[Problem], counts: dict[str, int]) -> None:
        """Take in what another list holds."""
        self.counts.update(counts)
        self.named.extend(named[: NAMED - len(self.named)])
