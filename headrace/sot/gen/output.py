"""A generated stream as a file of any format that is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.sot.encoding import decode
from headrace.sot.frames import STREAM_MAGIC
from headrace.sot.layout import LENGTH
from headrace.sot.sources.parquet import SCHEMA
from headrace.sot.sources.reading import Format

#: A bunch ends with so many records, or so many bytes: one record may have 16 MiB.
_TOGETHER: Final = 2000
_TOGETHER_BYTES: Final = 4 * 1024 * 1024


def write_frames(bodies: Iterable[bytes], out: BinaryIO) -> int:
    """Write a framed stream; how many records."""
    out.write(STREAM_MAGIC)
    records = 0
    for bunch in _bunches(bodies):
        out.write(b"".join(LENGTH.pack(len(body)) + body for body in bunch))
        records += len(bunch)
    return records


def write_json_lines(bodies: Iterable[bytes], out: BinaryIO) -> int:
    """Write one JSON object per line; how many records."""
    encode = msgspec.json.Encoder().encode
    records = 0
    for bunch in _bunches(bodies):
        out.write(b"".join(encode(decode(body)) + b"\n" for body in bunch))
        records += len(bunch)
    return records


def write_parquet(bodies: Iterable[bytes], out: BinaryIO) -> int:
    """Write Parquet; how many records."""
    records = 0
    with pq.ParquetWriter(out, SCHEMA, compression="zstd") as writer:
        for bunch in _bunches(bodies):
            # Bytes stay bytes: base64 is JSON's need alone.
            rows = [msgspec.to_builtins(decode(body), builtin_types=(bytes,)) for body in bunch]
            writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
            records += len(bunch)
    return records


WRITERS: Final[dict[Format, Callable[[Iterable[bytes], BinaryIO], int]]] = {
    Format.FRAMES: write_frames,
    Format.JSON_LINES: write_json_lines,
    Format.PARQUET: write_parquet,
}


def _bunches(bodies: Iterable[bytes]) -> Iterator[list[bytes]]:
    bunch: list[bytes] = []
    size = 0
    for body in bodies:
        bunch.append(body)
        size += len(body)
        if len(bunch) == _TOGETHER or size >= _TOGETHER_BYTES:
            yield bunch
            bunch, size = [], 0
    if bunch:
        yield bunch
