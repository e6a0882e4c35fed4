"""One page of trades: from the bytes of a body to exact, checked, columnar rows.

A page is all or nothing. A body that is cut, of another shape, out of order, or that holds one
value which cannot be kept exactly is refused as a whole, with the place and the text named.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from headrace.exchange.exceptions import BadAnswer, StuckPage, ValueRefused
from headrace.exchange.times import parse_times
from headrace.trades import RAW_SCHEMA

#: Rows of a full page: the exchange's default and maximum for `limit`.
PAGE_LIMIT = 1000

_MAX_ID = 2**63 - 1
_PLAIN_CHARACTERS = "0123456789.\n"
_DECIMAL = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_TEXT_ID = re.compile(r"[1-9][0-9]{0,18}")


class _Row(msgspec.Struct, gc=False):
    """The wire format of one trade; ids are numbers, in some feeds text."""

    trade_id: int | str
    time: str
    price: str
    size: str
    side: str


_DECODER = msgspec.json.Decoder(list[_Row])


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to "the newest trades below `after`".

    `trades` has RAW_SCHEMA, ascending by id. `after` is None for the newest page.
    """

    product: str
    after: int | None
    trades: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.trades.num_rows)

    @property
    def first_id(self) -> int:
        """The lowest id of the page (which must not be empty)."""
        return int(self.trades.column(0)[0].as_py())

    @property
    def last_id(self) -> int:
        """The highest id of the page (which must not be empty)."""
        return int(self.trades.column(0)[-1].as_py())


def decode_page(body: bytes, *, product: str, after: int | None) -> Page:
    """Read a body of `GET /products/{id}/trades`.

    Raises:
        BadAnswer: the body is not JSON, or not an array of trades, newest first.
        StuckPage: it holds ids that are not below `after`.
        ValueRefused: one value cannot be held exactly.
    """
    try:
        rows = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        start = body[:60].decode("utf-8", "replace").strip()
        raise BadAnswer(
            f"the body is not a page of trades ({error}); it begins {start!r}",
            product=product,
            cursor=after,
            status=200,
        ) from error
    rows.reverse()
    ids = [row.trade_id for row in rows]
    trade_ids = _exact_ids(ids, product, after)
    _check_order(trade_ids, product, after)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(trade_ids, pa.int64()),
            _exact_times(rows, trade_ids, product, after),
            _exact_decimals([row.price for row in rows], "price", trade_ids, product, after),
            _exact_decimals([row.size for row in rows], "size", trade_ids, product, after),
            _strings([row.side for row in rows], "side", trade_ids, product, after),
        ],
        schema=RAW_SCHEMA,
    )
    return Page(product, after, batch)


def _exact_ids(ids: list[int | str], product: str, after: int | None) -> list[int]:
    """Ids as integers; text is taken if it is the plain decimal form of a positive integer."""
    exact: list[int] = []
    for value in ids:
        if isinstance(value, str):
            if not _TEXT_ID.fullmatch(value):
                raise ValueRefused(
                    f"trade_id {value!r} is no positive integer", product=product, cursor=after
                )
            value = int(value)
        if not 1 <= value <= _MAX_ID:
            raise ValueRefused(
                f"trade_id {value} is outside 1..2^63-1", product=product, cursor=after
            )
        exact.append(value)
    return exact


def _check_order(ids: list[int], product: str, after: int | None) -> None:
    if not ids:
        return
    if after is not None and ids[-1] >= after:
        raise StuckPage(
            f"the page goes up to id {ids[-1]}, which is not below its cursor",
            product=product,
            cursor=after,
            hint="The server does not follow the cursor; nothing of this page was stored",
        )
    # Sorting is a linear check here, since a good page is sorted already.
    if len(set(ids)) != len(ids) or sorted(ids) != ids:
        raise BadAnswer("the page is not ordered by id", product=product, cursor=after, status=200)


def _exact_times(rows: list[_Row], ids: list[int], product: str, after: int | None) -> pa.Array:
    try:
        return parse_times([row.time for row in rows])
    except ValueError as error:
        message, index = error.args
        raise ValueRefused(
            f"trade {ids[index]}: {message}", product=product, cursor=after
        ) from error


def _exact_decimals(
    texts: list[str], name: str, ids: list[int], product: str, after: int | None
) -> pa.Array:
    """The texts unchanged, once each is known to be a finite decimal number.

    The quick look is two passes at C speed: only digits and dots, and each parses as a number. What
    does not pass it (exponents, signs) is looked at one by one.
    """
    column = _strings(texts, name, ids, product, after)
    if not "\n".join(texts).strip(_PLAIN_CHARACTERS):
        try:
            column.cast(pa.float64())
            return column
        except pa.ArrowInvalid:
            pass
    for trade_id, text in zip(ids, texts, strict=True):
        if not _DECIMAL.fullmatch(text):
            raise ValueRefused(
                f"trade {trade_id}: {name} {text!r} is no decimal number",
                product=product,
                cursor=after,
            )
    return column


def _strings(
    texts: list[str], name: str, ids: list[int], product: str, after: int | None
) -> pa.Array:
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        for trade_id, text in itertools.zip_longest(ids, texts):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise ValueRefused(
                    f"trade {trade_id}: {name} {text!r} is no Unicode text",
                    product=product,
                    cursor=after,
                ) from error
        raise
