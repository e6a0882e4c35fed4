"""What a unified trade is: typed columns over all products, and what does not fit them.

Prices are `decimal(28, 14)`, quantities `decimal(28, 10)`. That holds prices below 10^14 with 14
places after the point, and quantities below 10^18 with 10. A product of both has 24 places after
the point, so `sum(price * quantity)` is exact in a decimal of 38 digits up to 10^14: wider columns,
such as `decimal(38, 18)`, cannot be multiplied at all in DuckDB and Trino. Every value that an
exchange is known to send fits. One that does not (more places, more digits) is never rounded: its
trade becomes a row of the quarantine, as text, with the reason.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

PRICE_TYPE: Final = pa.decimal128(28, 14)
QUANTITY_TYPE: Final = pa.decimal128(28, 10)
TIME_TYPE: Final = pa.timestamp("us", tz="UTC")

#: What each column of the table is.
COLUMN_DOCS: Final = {
    "exchange": "name of the exchange, such as coinbase; a partition",
    "symbol": "product id as in the raw layer, such as BTC-USD; a partition",
    "month": "month of trade_ts in UTC, YYYY-MM; a partition",
    "trade_id": "id of the trade, per product",
    "side": "as the exchange sent it: at Coinbase the side of the maker",
    "taker_side": "side of the taker, buy or sell: the other one than the maker's; null where "
    "the side that was sent is neither",
    "price": "exact, in the quote currency",
    "quantity": "exact, in the base currency; `size` of the raw layer",
    "trade_ts": "when the trade took place, UTC, to the microsecond",
    "date": "day of trade_ts in UTC",
}

PARTITION_BY: Final = ("exchange", "symbol", "month")

#: Rows are sorted by trade_id within each file.
UNIFIED_SCHEMA: Final = pa.schema(
    [
        pa.field("exchange", pa.string(), nullable=False),
        pa.field("symbol", pa.string(), nullable=False),
        pa.field("month", pa.string(), nullable=False),
        pa.field("trade_id", pa.int64(), nullable=False),
        pa.field("side", pa.string(), nullable=False),
        pa.field("taker_side", pa.string()),
        pa.field("price", PRICE_TYPE, nullable=False),
        pa.field("quantity", QUANTITY_TYPE, nullable=False),
        pa.field("trade_ts", TIME_TYPE, nullable=False),
        pa.field("date", pa.date32(), nullable=False),
    ]
)

#: What each column of the quarantine is.
QUARANTINE_DOCS: Final = {
    "exchange": COLUMN_DOCS["exchange"],
    "symbol": COLUMN_DOCS["symbol"],
    "trade_id": COLUMN_DOCS["trade_id"],
    "time": "as in the raw layer, UTC, to the microsecond",
    "price": "as the exchange sent it",
    "size": "as the exchange sent it",
    "side": "as the exchange sent it",
    "reason": "why the trade is no row of the table",
}

QUARANTINE_PARTITION_BY: Final = ("exchange", "symbol")

QUARANTINE_SCHEMA: Final = pa.schema(
    [
        pa.field("exchange", pa.string(), nullable=False),
        pa.field("symbol", pa.string(), nullable=False),
        pa.field("trade_id", pa.int64(), nullable=False),
        pa.field("time", TIME_TYPE, nullable=False),
        pa.field("price", pa.string(), nullable=False),
        pa.field("size", pa.string(), nullable=False),
        pa.field("side", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
