"""Records as rows of Parquet: nested columns under the names of `Record`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.sot.encoding import encode
from headrace.sot.exceptions import MalformedInput, MalformedRecord
from headrace.sot.frames import Chunk
from headrace.sot.sources.plain import PlainRecord, explained, to_record

#: So many rows are read at once, or fewer if they are large.
_ROWS_AT_ONCE: Final = 2000
_BYTES_AT_ONCE: Final = 16 * 1024 * 1024
_U8, _U32, _U64, _I64 = pa.uint8(), pa.uint32(), pa.uint64(), pa.int64()
_ORDER: Final = [("order_id", _U64), ("user_id", _U64), ("symbol_id", _U32), ("side", _U8)]

#: What `headrace sot gen --format parquet` writes. Hashes may be left out of an unchained stream.
SCHEMA: Final = pa.schema(
    [
        ("output_seq", _U64),
        ("symbol_id", _U32),
        ("prev_hash", _U64),
        ("hash", _U64),
        ("hash_version", _U8),
        (
            "input",
            pa.struct(
                [("input_seq", _U64), ("crc", _U32), ("symbol_id", _U32), ("data", pa.binary())]
            ),
        ),
        (
            "order_update",
            pa.struct(
                [
                    *_ORDER,
                    ("kind", _U8),
                    ("status", _U8),
                    ("price", _U64),
                    ("quantity", _U64),
                    ("filled", _U64),
                    ("client_order_id", pa.string()),
                ]
            ),
        ),
        (
            "trades",
            pa.list_(
                pa.struct(
                    [
                        ("trade_id", _U64),
                        ("symbol_id", _U32),
                        ("taker_side", _U8),
                        ("price", _U64),
                        ("quantity", _U64),
                        ("maker_order_id", _U64),
                        ("taker_order_id", _U64),
                        ("maker_user_id", _U64),
                        ("taker_user_id", _U64),
                    ]
                )
            ),
        ),
        (
            "balance_events",
            pa.list_(
                pa.struct(
                    [
                        ("user_id", _U64),
                        ("asset_id", _U32),
                        ("kind", _U8),
                        ("delta", _I64),
                        ("available", _U64),
                        ("frozen", _U64),
                    ]
                )
            ),
        ),
        (
            "order_placements",
            pa.list_(
                pa.struct(
                    [
                        *_ORDER,
                        ("kind", _U8),
                        ("price", _U64),
                        ("quantity", _U64),
                        ("client_order_id", pa.string()),
                    ]
                )
            ),
        ),
        (
            "order_completions",
            pa.list_(
                pa.struct(
                    [
                        ("order_id", _U64),
                        ("user_id", _U64),
                        ("symbol_id", _U32),
                        ("reason", _U8),
                        ("filled", _U64),
                    ]
                )
            ),
        ),
    ]
)


def read_parquet(name: str, file: BinaryIO, *, chained: bool = True) -> Iterator[Chunk]:
    """The records of one file, in the order of its rows.

    Args:
        name: of the source, for messages.
        file: with random access.
        chained: whether the records carry hashes.

    Raises:
        MalformedInput: not Parquet, or a row that is no record; what came before was handed on.
    """
    number = 0
    try:
        parquet = pq.ParquetFile(file)
        if repeated := _find_repeated_column(parquet.schema_arrow):
            raise MalformedInput(name, "its columns", repeated, "is there more than once")
        for batch in parquet.iter_batches(batch_size=_rows_at_once(parquet.metadata)):
            chunk = Chunk()
            for row in batch.to_pylist():
                number += 1
                try:
                    record = _record(row, chained=chained)
                    chunk.add(record.symbol_id, encode(record))
                except (MalformedRecord, msgspec.ValidationError) as error:
                    if chunk.records:
                        yield chunk
                    raise _malformed(name, number, error) from error
            if chunk.records:
                yield chunk
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise MalformedInput(
            name, f"behind row {number}", "", f"cannot be read: {error}"
        ) from error


def _find_repeated_column(schema: pa.Schema | pa.StructType, path: str = "") -> str | None:
    """The first column that is there twice, on its own level; None if none is."""
    names: set[str] = set()
    for field in schema:
        found = f"{path}{field.name}"
        if field.name in names:
            return found
        names.add(field.name)
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(kind) and (inner := _find_repeated_column(kind, f"{found}.")):
            return inner
    return None


def _rows_at_once(metadata: Any) -> int:
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    size_bytes = sum(group.total_byte_size for group in groups)
    rows: int = _BYTES_AT_ONCE * metadata.num_rows // max(1, size_bytes)
    return max(1, min(_ROWS_AT_ONCE, rows))


def _record(row: dict[str, Any], *, chained: bool) -> Any:
    return to_record(msgspec.convert(_without_nulls(row), PlainRecord), chained=chained)


def _without_nulls(value: Any) -> Any:
    """A null, in a record or in what it holds, stands for a field that is not there."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _malformed(name: str, number: int, error: Exception) -> MalformedInput:
    if isinstance(error, MalformedRecord):
        return MalformedInput(name, f"row {number}", error.field, error.reason, hint=error.hint)
    field, reason = explained(str(error))
    return MalformedInput(name, f"row {number}", field, reason)
