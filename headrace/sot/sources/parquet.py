"""Records as rows of Parquet: nested columns under the names of `Record`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from headrace.sot.encoding import encode
from headrace.sot.exceptions import MalformedInput, MalformedRecord
from headrace.sot.frames import Chunk
from headrace.sot.record import I64, U8, U32, U64, Record
from headrace.sot.sources.json_lines import PlainRecord, explained, to_record

#: So many rows are read at once, or fewer if they are large.
_ROWS_AT_ONCE: Final = 2000
_BYTES_AT_ONCE: Final = 16 * 1024 * 1024
_ARROW: Final[dict[Any, pa.DataType]] = {
    U8: pa.uint8(),
    U32: pa.uint32(),
    U64: pa.uint64(),
    I64: pa.int64(),
    str: pa.string(),
    bytes: pa.binary(),
}


def _columns(kind: type[Struct]) -> list[tuple[str, pa.DataType]]:
    hints = get_type_hints(kind, include_extras=True)
    return [(name, _arrow_type(hint)) for name, hint in hints.items()]


def _arrow_type(hint: Any) -> pa.DataType:
    if hint in _ARROW:
        return _ARROW[hint]
    if get_origin(hint) is tuple:
        return pa.list_(_arrow_type(get_args(hint)[0]))
    return pa.struct(_columns(get_args(hint)[0] if get_args(hint) else hint))  # `X | None` is X


def _schema() -> pa.Schema:
    """The columns of a record; the version of its hash stands beside the hash."""
    columns = dict(_columns(Record))
    first = ("output_seq", "symbol_id", "prev_hash", "hash", "hash_version")
    return pa.schema({**{name: columns[name] for name in first}, **columns})


#: What `headrace sot gen --format parquet` writes. Hashes may be left out of an unchained stream.
SCHEMA: Final = _schema()


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
