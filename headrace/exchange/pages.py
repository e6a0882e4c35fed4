"""One page of trades: from the bytes of a body to exact, checked, columnar rows.

A page is all or nothing. A body that is cut, of another shape, out of order, or that holds one
value which cannot be kept exactly is refused as a whole, with the place and the text named. Times
follow the rules of `headrace.exchange.times`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import lt

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.exchange.exceptions import UNREADABLE, StuckPage, ValueRefused
from headrace.exchange.times import parse_time
from headrace.lake.decimals import canonical_decimal
from headrace.trades import RAW_SCHEMA
from headrace.wire.exceptions import BadAnswer

TIME_TYPE = pa.timestamp("us", tz="UTC")

#: The years that a datetime knows, in microseconds; Arrow's calendar goes on before and after.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def parse_times(texts: list[str]) -> pa.Array:
    """A column of times, UTC microseconds.

    Raises:
        ValueError: naming the first text that is no time, with its index in `error.args[1]`.
    """
    try:
        # Arrow's own parser is exact for up to six digits and refuses the rest.
        moments = pa.array(texts, pa.string()).cast(TIME_TYPE)
    except pa.ArrowInvalid:
        return _one_by_one(texts)
    span = pc.min_max(moments.cast(pa.int64()))
    if len(moments) and not (span["min"].as_py() >= _FIRST_US and span["max"].as_py() <= _LAST_US):
        return _one_by_one(texts)
    return moments


def _one_by_one(texts: list[str]) -> pa.Array:
    moments: list[datetime] = []
    for index, text in enumerate(texts):
        try:
            moments.append(parse_time(text))
        except ValueError as error:
            raise ValueError(str(error), index) from error
    return pa.array(moments, TIME_TYPE)


#: Rows of a full page: the exchange's default and maximum for `limit`.
PAGE_LIMIT = 1000

_MAX_ID = 2**63 - 1
#: Where in a list msgspec found what it did not expect: row and, if it says so, field.
_ROW = re.compile(r" - at `\$\[([0-9]+)\](.*)`$")
_TEXT_ID = re.compile(r"[1-9][0-9]{0,18}")
#: Of a value that is refused, so much is quoted.
_QUOTED = 60


class _Row(msgspec.Struct, gc=False):
    """The wire format of one trade."""

    trade_id: int
    time: str
    price: str
    size: str
    side: str


class _TextIdRow(_Row, gc=False):
    """The same in feeds that send ids as text, or both ways."""

    trade_id: int | str  # type: ignore[assignment]


class _IdRow(msgspec.Struct, gc=False):
    """All of a trade that a look at a history needs, and what may stand in its place."""

    trade_id: int | str | float | bool | None = None


_DECODER = msgspec.json.Decoder(list[_Row])
_TEXT_ID_DECODER = msgspec.json.Decoder(list[_TextIdRow])
_ID_DECODER = msgspec.json.Decoder(list[_IdRow | None])


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to "the newest trades below `after`".

    `trades` has RAW_SCHEMA, ascending by id. `after` is None for the newest page. `limit` is the
    number of rows that were asked for.
    """

    product: str
    after: int | None
    trades: pa.RecordBatch
    limit: int = PAGE_LIMIT

    def __len__(self) -> int:
        return int(self.trades.num_rows)

    @property
    def full(self) -> bool:
        """Whether it has as many rows as were asked for; a short one says that history ends."""
        return len(self) >= self.limit

    @property
    def first_id(self) -> int:
        """The lowest id of the page (which must not be empty)."""
        return int(self.trades.column(0)[0].as_py())

    @property
    def last_id(self) -> int:
        """The highest id of the page (which must not be empty)."""
        return int(self.trades.column(0)[-1].as_py())

    @property
    def dense(self) -> bool:
        """Whether no id is free between its lowest and its highest (it must not be empty)."""
        return self.last_id - self.first_id + 1 == len(self)

    def part_below(self, cursor: int) -> Page:
        """The same page without the rows from `cursor` on."""
        rows = self.trades.slice(0, self._count_below(cursor))
        return Page(self.product, self.after, rows, self.limit)

    def below(self, cursor: int) -> Page | None:
        """The same page from `cursor` down, None unless this one shows all that lies there.

        It does where no id is free: in a free one, a trade may have come to light since.
        """
        count = self._count_below(cursor)
        if not count or count != cursor - self.first_id:
            return None
        return Page(self.product, cursor, self.trades.slice(0, count), self.limit)

    def highest_below(self, cursor: int) -> int | None:
        """The highest id below `cursor` that this page shows."""
        count = self._count_below(cursor)
        return int(self.trades.column(0)[count - 1].as_py()) if count else None

    def _count_below(self, cursor: int) -> int:
        """How many of its ids are below `cursor`: mostly all or none, which is cheap to see."""
        if not len(self) or cursor <= self.first_id:
            return 0
        if cursor > self.last_id:
            return len(self)
        return bisect_left(self.trades.column(0).to_pylist(), cursor)


@dataclass(frozen=True, slots=True)
class Outline:
    """The ids of a page, ascending, whatever else its rows hold; rows without one are left out.

    `rows` counts those, too; `limit` is the number of rows that were asked for.
    """

    product: str
    after: int | None
    ids: list[int]
    rows: int = 0
    limit: int = PAGE_LIMIT

    @property
    def full(self) -> bool:
        """Whether it has as many rows as were asked for; a short one says that history ends."""
        return max(self.rows, len(self)) >= self.limit

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def first_id(self) -> int:
        """The lowest id of the page (which must not be empty)."""
        return self.ids[0]

    @property
    def last_id(self) -> int:
        """The highest id of the page (which must not be empty)."""
        return self.ids[-1]

    def highest_below(self, cursor: int) -> int | None:
        """The highest id below `cursor` that this page shows."""
        count = bisect_left(self.ids, cursor)
        return self.ids[count - 1] if count else None


def decode_page(body: bytes, *, product: str, after: int | None, limit: int = PAGE_LIMIT) -> Page:
    """Read a body of `GET /products/{id}/trades`, asked for with `limit`.

    Raises:
        BadAnswer: the body is not JSON, or not an array of trades, newest first.
        StuckPage: it holds ids that are not below `after`.
        ValueRefused: one value cannot be held exactly.
    """
    try:
        rows = _rows(body, product, after)
    except UNREADABLE as error:
        raise _unreadable(body, error, product, after) from error
    rows.reverse()
    trade_ids = [row.trade_id for row in rows]
    _check_ids(trade_ids, product, after)
    exact = _Exact(product, after, trade_ids)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(trade_ids, pa.int64()),
            exact.times([row.time for row in rows]),
            exact.decimals([row.price for row in rows], "price"),
            exact.decimals([row.size for row in rows], "size"),
            exact.strings([row.side for row in rows], "side"),
        ],
        schema=RAW_SCHEMA,
    )
    return Page(product, after, batch, limit)


def decode_outline(body: bytes, *, product: str, after: int | None) -> Outline:
    """Read the ids alone of the same body, which may hold rows that cannot be kept.

    Raises:
        BadAnswer, StuckPage, ValueRefused: as `decode_page`, for the ids.
    """
    try:
        rows = _ID_DECODER.decode(body)
    except UNREADABLE as error:
        raise _unreadable(body, error, product, after) from error
    found = map(_id_of, reversed(rows))
    ids = [
        _from_text(each, product, after) if isinstance(each, str) else each
        for each in found
        if each is not None
    ]
    if rows and not ids:
        raise BadAnswer("no row of the page has an id", product=product, cursor=after, status=200)
    _check_ids(ids, product, after)
    return Outline(product, after, ids, len(rows))


def _unreadable(
    body: bytes, error: Exception, product: str, after: int | None
) -> BadAnswer | ValueRefused:
    """One row of another shape is refused by the name of its trade; anything else is no page."""
    place = _ROW.search(str(error))
    try:
        ids = list(map(_id_of, _ID_DECODER.decode(body))) if place else []
    except UNREADABLE:
        ids = []
    if place and any(trade_id is not None for trade_id in ids):
        trade_id = ids[int(place[1])]
        row = f"row {place[1]}" if trade_id is None else f"trade {str(trade_id)[:_QUOTED]}"
        said = f"{place[2].lstrip('.')} {str(error).removesuffix(place[0])}".lstrip()
        return ValueRefused(f"{row}: {said}", product=product, cursor=after)
    start = body[:60].decode("utf-8", "replace").strip()
    return BadAnswer(
        f"the body is not a page of trades ({error}); it begins {start!r}",
        product=product,
        cursor=after,
        status=200,
    )


def _id_of(row: _IdRow | None) -> int | str | None:
    """The id of a row as it was sent, None if it has none that could be one."""
    found = row.trade_id if row is not None else None
    return found if isinstance(found, str) or type(found) is int else None


def _rows(body: bytes, product: str, after: int | None) -> list[_Row]:
    try:
        return _DECODER.decode(body)
    except msgspec.ValidationError:
        rows = _TEXT_ID_DECODER.decode(body)
    for row in rows:
        if isinstance(row.trade_id, str):
            row.trade_id = _from_text(row.trade_id, product, after)
    return list(rows)


def _check_ids(ids: list[int], product: str, after: int | None) -> None:
    """Ids must rise, be positive and 64 bit, and lie below the cursor."""
    if not ids:
        return
    if not all(map(lt, ids, islice(ids, 1, None))):
        raise BadAnswer("the page is not ordered by id", product=product, cursor=after, status=200)
    if ids[0] < 1 or ids[-1] > _MAX_ID:
        worst = ids[0] if ids[0] < 1 else ids[-1]
        raise ValueRefused(
            f"trade_id {_quoted(worst)} is outside 1..2^63-1", product=product, cursor=after
        )
    if after is not None and ids[-1] >= after:
        raise StuckPage(
            f"the page goes up to id {ids[-1]}, which is not below its cursor",
            product=product,
            cursor=after,
            hint="The server does not follow the cursor; nothing of this page was stored",
        )


def _from_text(text: str, product: str, after: int | None) -> int:
    if not _TEXT_ID.fullmatch(text):
        raise ValueRefused(
            f"trade_id {_quoted(text)} is no positive integer", product=product, cursor=after
        )
    return int(text)


@dataclass(frozen=True, slots=True)
class _Exact:
    """Columns of one page; a value that cannot be held is refused with its trade and its text."""

    product: str
    after: int | None
    ids: list[int]

    def times(self, texts: list[str]) -> pa.Array:
        """UTC microseconds."""
        try:
            return parse_times(texts)
        except ValueError as error:
            message, index = error.args
            raise self._refused(index, message) from error

    def decimals(self, texts: list[str], name: str) -> pa.Array:
        """The texts unchanged, once each is known to be a decimal number that the lake can hold.

        Arrow reads as a float what is a plain decimal, an infinity or not a number; a finite sum
        rules the last two out. What does not pass that, or holds an exponent, perhaps one without
        end, is looked at one by one.
        """
        column = self.strings(texts, name)
        try:
            total = pc.sum(column.cast(pa.float64())).as_py()
        except pa.ArrowInvalid:
            total = math.nan
        joined = "".join(texts)
        if total is None or (math.isfinite(total) and not ("e" in joined or "E" in joined)):
            return column
        for index, text in enumerate(texts):
            try:
                canonical_decimal(text)
            except ValueError:
                raise self._refused(
                    index, f"{name} {_quoted(text)} is no decimal number that can be held"
                ) from None
        return column

    def strings(self, texts: list[str], name: str) -> pa.Array:
        """The texts unchanged."""
        try:
            return pa.array(texts, pa.string())
        except UnicodeEncodeError:
            for index, text in enumerate(texts):
                if any("\ud800" <= character <= "\udfff" for character in text):
                    raise self._refused(
                        index, f"{name} {_quoted(text)} is no Unicode text"
                    ) from None
            raise

    def _refused(self, index: int, problem: str) -> ValueRefused:
        return ValueRefused(
            f"trade {self.ids[index]}: {problem}", product=self.product, cursor=self.after
        )


def _quoted(value: object) -> str:
    """A value in a message, which stays short whatever was sent."""
    text = repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
