"""What a raw trade is: the fixed schema of every batch, page and file of raw trades.

Values are what the exchange sent: `price`, `size` and `side` as text, unchanged. `side` is the
*maker's* side (Coinbase Exchange documentation, "Get product trades"); nothing here flips it.
"""

from __future__ import annotations

import pyarrow as pa

#: trade_id: id per product, 64 bit. time: UTC microseconds. The rest: text as sent.
RAW_SCHEMA = pa.schema(
    [
        pa.field("trade_id", pa.int64(), nullable=False),
        pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("price", pa.string(), nullable=False),
        pa.field("size", pa.string(), nullable=False),
        pa.field("side", pa.string(), nullable=False),
    ]
)


def empty_trades() -> pa.Table:
    """A table of raw trades without rows, for ranges proven empty."""
    return RAW_SCHEMA.empty_table()
