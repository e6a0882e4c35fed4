"""Answers of an exchange as evidence, kept in the footers of parts: what shows that ids are free.

Every hole of a page or more comes from two adjacent ids of one answer (docs/adr/0012). The footer
of a part keeps which answer that was, so that a statement about the lake can name it. Shorter holes
are shown likewise, by any of the part's answers; they are counted, and their answers are not kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec
import pyarrow as pa

from headrace.trades import rows_between


class Answer(msgspec.Struct, frozen=True):
    """One answer, and two ids between which it shows that nothing is.

    Args:
        after: the cursor that was asked for; None for the newest page.
        at: when it was read, UTC.
        rows: how many trades it had.
        first: their lowest id.
        last: their highest id.
        between: two ids that are adjacent in it. (0, first) in an answer with fewer trades than
            were asked for, which says that nothing is older. (last, last) in the newest page.
    """

    after: int | None
    at: datetime
    rows: int
    first: int
    last: int
    between: tuple[int, int]


def answers_about(
    answers: Iterable[Answer], table: pa.Table, lo: int, hi: int
) -> tuple[Answer, ...]:
    """Those that show free ids in [lo, hi], each once, by rising ids.

    One that the rows contradict is left out: a trade has come to light since, or the rows were
    fetched again.
    """
    kept = {
        answer
        for answer in answers
        for left, right in (answer.between,)
        if left < hi
        and right > lo
        and right - left > 1
        and not rows_between(table, max(left + 1, lo), min(right - 1, hi)).num_rows
    }
    return tuple(sorted(kept, key=lambda each: (each.between, each.at, each.after or 0)))
