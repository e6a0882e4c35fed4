"""An exchange in a dictionary: pages as the real one answers them, without HTTP."""

from collections.abc import Callable, Iterable

import pyarrow as pa

from headrace.exchange.exceptions import StuckPage
from headrace.exchange.pages import PAGE_LIMIT, Page
from headrace.exchange.proof import unchecked
from headrace.trades import RAW_SCHEMA
from headrace.wire.exceptions import BadAnswer, RetriesExhausted


class FakeClient:
    """Answers `page` from a set of ids; counts the requests and remembers the cursors."""

    source = "http://127.0.0.1:1"
    page_limit = PAGE_LIMIT

    def __init__(
        self,
        ids: Iterable[int],
        *,
        stuck_at: int | None = None,
        rows: Callable[[list[int]], pa.RecordBatch] | None = None,
    ) -> None:
        self.ids = sorted(ids)
        self.rows = rows or rows_of
        self.stuck_at = stuck_at
        self.cursors: list[int | None] = []

    @property
    def requests(self) -> int:
        return len(self.cursors)

    def page(self, product, after, *, limit=None, lane=None, check=unchecked) -> Page:
        limit = self.page_limit if limit is None else limit
        assert after is None or after >= 1
        self.cursors.append(after)
        below = self.ids if after is None else [i for i in self.ids if i < after]
        if self.stuck_at is not None:
            below = [i for i in self.ids if i < self.stuck_at]
        ids = below[-limit:]
        if after is not None and ids and ids[-1] >= after:
            raise StuckPage("stuck", product=product, cursor=after)
        page = Page(product, after, self.rows(ids), limit)
        check(page)
        return page


class GivingUp(FakeClient):
    """Says, as the real client does, that a wrong answer was asked for again in vain."""

    def page(self, product, after, **options) -> Page:
        try:
            return super().page(product, after, **options)
        except BadAnswer as error:
            raise RetriesExhausted(error.problem, product=product, cursor=after) from error


def rows_of(ids: list[int]) -> pa.RecordBatch:
    """A row per id; its time is its id in seconds."""
    columns = [
        pa.array(ids, pa.int64()),
        pa.array([i * 1_000_000 for i in ids], pa.timestamp("us", tz="UTC")),
        *(pa.array([text] * len(ids), pa.string()) for text in ("1.5", "0.1", "buy")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)
