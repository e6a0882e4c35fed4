"""What a raw trade is: the fixed schema of every batch, page and file of raw trades.

Values are what the exchange sent: `price`, `size` and `side` as text, unchanged. `side` is the
*maker's* side (Coinbase Exchange documentation, "Get product trades"); nothing here flips it.

Cutting and joining tables that are sorted by id.
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


def rows_between(table: pa.Table, lo: int, hi: int) -> pa.Table:
    """The rows of a sorted table with ids in [lo, hi], without a copy."""
    if not table.num_rows:
        return table
    ids = table["trade_id"]
    if ids[0].as_py() >= lo and ids[-1].as_py() <= hi:
        return table
    values = ids.combine_chunks()
    begin, end = _lower_bound(values, lo), _lower_bound(values, hi + 1)
    return table.slice(begin, max(0, end - begin))


def joined(batches: list[pa.RecordBatch]) -> pa.Table:
    """Batches of raw trades, in their order, as one, on which all that follows does better.

    The list is emptied: a column's pieces are freed once it is joined, so that the rows are never
    in memory twice, unless the caller keeps them.
    """
    columns = [[batch.column(at) for batch in batches] for at in range(len(RAW_SCHEMA))]
    batches.clear()
    whole = []
    for pieces, field in zip(columns, RAW_SCHEMA, strict=True):
        whole.append(pa.concat_arrays(pieces) if pieces else pa.array([], field.type))
        pieces.clear()
    return pa.Table.from_arrays(whole, schema=RAW_SCHEMA)


def _lower_bound(ids: pa.Int64Array, wanted: int) -> int:
    lo, hi = 0, len(ids)
    while lo < hi:
        middle = (lo + hi) // 2
        if ids[middle].as_py() < wanted:
            lo = middle + 1
        else:
            hi = middle
    return lo
