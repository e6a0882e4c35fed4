"""The rows of a query as files: written batch by batch, whatever their number.

CSV and JSON hold every value exactly: decimals as plain text without trailing zeros (in JSON as a
string, since a JSON number is read as binary floating point), times in UTC. What a format has no
form for is JSON in a CSV cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from headrace.query.exceptions import QueryRefused


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    ARROW = "arrow"
    PARQUET = "parquet"


#: By the end of a file's name.
FORMAT_OF_SUFFIX: Final = {
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".arrow": Format.ARROW,
    ".arrows": Format.ARROW,
    ".parquet": Format.PARQUET,
}

Write = Callable[[pa.RecordBatch], None]


@contextmanager
def row_writer(form: Format, schema: pa.Schema, sink: BinaryIO) -> Iterator[Write]:
    """A function that writes batches of `schema` to `sink`; the end of the format comes at exit.

    Args:
        form: any but TABLE.
        schema: of the batches.
        sink: takes bytes; need not be seekable.

    Raises:
        QueryRefused: the format has no form for a column.
    """
    for field in schema:
        if isinstance(field.type, pa.OpaqueType):
            raise _refused(form, f"column {field.name} is {field.type.type_name}")
    try:
        with _WRITERS[form](schema, sink) as write:
            yield write
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise _refused(form, str(error)) from error


def _refused(form: Format, reason: str) -> QueryRefused:
    return QueryRefused(
        f"the rows cannot be written as {form}: {reason}",
        hint="Cast the column in the SELECT, as in COLUMN::VARCHAR",
    )


@contextmanager
def _parquet(schema: pa.Schema, sink: BinaryIO) -> Iterator[Write]:
    with pq.ParquetWriter(_Counted(sink), schema, compression="zstd") as writer:
        yield writer.write_batch


@contextmanager
def _arrow(schema: pa.Schema, sink: BinaryIO) -> Iterator[Write]:
    with pa.ipc.new_stream(_Counted(sink), schema) as writer:
        yield writer.write_batch


@contextmanager
def _csv(schema: pa.Schema, sink: BinaryIO) -> Iterator[Write]:
    as_text = pa.schema([(field.name, _csv_type(field.type)) for field in schema])
    with pyarrow.csv.CSVWriter(_Counted(sink), as_text) as writer:

        def write(batch: pa.RecordBatch) -> None:
            columns = [_csv_column(column) for column in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=as_text))

        yield write


@contextmanager
def _json_lines(_schema: pa.Schema, sink: BinaryIO) -> Iterator[Write]:
    def write(batch: pa.RecordBatch) -> None:
        sink.write(b"".join(_encoded(row) + b"\n" for row in _rows(batch)))

    yield write


@contextmanager
def _json(_schema: pa.Schema, sink: BinaryIO) -> Iterator[Write]:
    before = b"["

    def write(batch: pa.RecordBatch) -> None:
        nonlocal before
        for row in _rows(batch):
            sink.write(before + _encoded(row))
            before = b",\n"

    yield write
    sink.write(b"[]\n" if before == b"[" else b"]\n")


_WRITERS: Final[dict[Format, Callable[[pa.Schema, BinaryIO], AbstractContextManager[Write]]]] = {
    Format.CSV: _csv,
    Format.JSON: _json,
    Format.JSONL: _json_lines,
    Format.ARROW: _arrow,
    Format.PARQUET: _parquet,
}


def plain_decimals(column: pa.Array) -> pa.Array:
    """Decimals as text, without zeros at the end of a fraction; other columns as they are."""
    if not pa.types.is_decimal(column.type) or column.type.scale <= 0:
        return column
    text = column.cast(pa.string())
    short = pc.fill_null(pc.match_substring(text, "E"), False)
    if pc.any(short).as_py():
        # Arrow writes small ones with an exponent.
        plain = [f"{value:f}" for value in column.filter(short).to_pylist()]
        text = pc.replace_with_mask(text, short, pa.array(plain))
    return pc.replace_substring_regex(text, pattern=r"\.?0+$", replacement="")


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    # Two columns may have one name, of which a dictionary keeps the last: so does JSON's reader.
    columns = [plain_decimals(column).to_pylist() for column in batch.columns]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _encoded(value: Any) -> bytes:
    return _ENCODER.encode(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=str, decimal_format="string")


def _csv_type(kind: pa.DataType) -> pa.DataType:
    plain = (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )
    return kind if plain else pa.string()


def _csv_column(column: pa.Array) -> pa.Array:
    if _csv_type(column.type) == column.type:
        return column
    if pa.types.is_decimal(column.type):
        return plain_decimals(column).cast(pa.string())
    return pa.array([_cell(value) for value in column.to_pylist()], pa.string())


def _cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    text = _encoded(value).decode()
    return text if isinstance(value, list | dict) else text.strip('"')


class _Counted:
    """A sink that need not be able to say where it is: a pipe is not.

    Args:
        sink: gets all that is written.
    """

    closed = False

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._at = 0

    def write(self, content: Any) -> int:
        """Write all of it."""
        self._sink.write(content)
        self._at += len(content)
        return len(content)

    def tell(self) -> int:
        """How much was written."""
        return self._at

    def flush(self) -> None:
        """Of the sink."""
        self._sink.flush()

    def close(self) -> None:
        """The sink stays open: it belongs to another."""
        self.closed = True

    def readable(self) -> bool:
        """It is not."""
        return False

    def writable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is not."""
        return False
