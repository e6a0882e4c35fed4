"""Writing the files of a table: sorted rows in, a durable file out that no reader sees yet.

A file gets a name of its own below its partition and belongs to the table once a commit says so.
What a killed run left uncommitted is removed by a later vacuum. Locally a file is written where it
stays; for S3 it is written to a temporary file without a name and stored by one PUT, so that no
multipart upload can be left behind.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.atomic_files import sync_folder
from headrace.kill_points import kill_point
from headrace.lake.digest import ContentDigest
from headrace.lake.local import explained, make_folder
from headrace.unified.table import RemoteStore, UnifiedTable

FILE_KEY = b"headrace.unified"
#: Small enough to skip most of a month for a query of one day, large enough to compress: 1.5 MB.
GROUP_ROWS = 128_000
_ENCODINGS = {"trade_id": "DELTA_BINARY_PACKED"}
_TYPED_ENCODINGS = {**_ENCODINGS, "trade_ts": "DELTA_BINARY_PACKED", "quantity": "PLAIN"}
_DICTIONARIES = ["side", "taker_side", "price", "date"]


class FileFooter(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says of itself in its Parquet metadata, under the key `headrace.unified`.

    Args:
        rows: in the file.
        digest: content digest of the rows, 32 hexadecimal digits.
        schema_version: of the columns.
    """

    rows: int
    digest: str
    schema_version: int = 1


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that was written and is not committed.

    Attributes:
        path: from the table's root.
        partition: its partition's columns and values.
        size_bytes, rows: of the file.
        digest: content digest of its rows.
        first_id, last_id: least and greatest trade_id.
        first_ts, last_ts: least and greatest time.
        nulls: how many nulls each column holds.
    """

    path: str
    partition: dict[str, str]
    size_bytes: int
    rows: int
    digest: ContentDigest
    first_id: int
    last_id: int
    first_ts: datetime
    last_ts: datetime
    nulls: dict[str, int]


class FileWriter:
    """Writes one file of a partition, rows by rising id.

    Args:
        table: the table that it is for.
        partition: the partition's columns and values.
        schema: of the rows, without the partition's columns.
    """

    def __init__(
        self, table: UnifiedTable, partition: Mapping[str, str], schema: pa.Schema
    ) -> None:
        self._store = table.store
        self._schema = schema
        self._time = "trade_ts" if "trade_ts" in schema.names else "time"
        self._partition = dict(partition)
        folder = "/".join(f"{name}={value}" for name, value in partition.items())
        self.path = f"{folder}/{secrets.token_hex(16)}.parquet"
        self._key = f"{table.root}/{self.path}"
        self._place = table.store.place(self._key)
        self._held: list[pa.Table] = []
        self._held_rows = 0
        self._digest = ContentDigest()
        self._rows = 0
        self._ids: tuple[int, int] | None = None
        self._times: list[datetime] = []
        self._nulls = dict.fromkeys(schema.names, 0)
        self._local = not isinstance(table.store, RemoteStore)
        typed = self._time == "trade_ts"
        with explained("writing", Path(self._place)):
            self._file = self._open()
            self._sink = pa.PythonFile(self._file, mode="w")
            self._writer = pq.ParquetWriter(
                self._sink,
                schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=[name for name in _DICTIONARIES if name in schema.names],
                column_encoding=_TYPED_ENCODINGS if typed else _ENCODINGS,
                store_schema=False,
            )

    @property
    def size_bytes(self) -> int:
        """How large the file is so far, without what is held for the next row group."""
        return self._file.tell()

    def write(self, rows: pa.Table, digest: ContentDigest) -> None:
        """Add rows whose ids are above all that came before.

        Args:
            rows: at least one.
            digest: their content digest.
        """
        ids = rows["trade_id"]
        first, last = ids[0].as_py(), ids[-1].as_py()
        if self._ids is not None and first <= self._ids[1]:
            raise ValueError(f"trade {first} of {self._partition} follows {self._ids[1]}")
        self._ids = (self._ids[0] if self._ids else first, last)
        extremes = pc.min_max(rows[self._time])
        self._times += [extremes["min"].as_py(), extremes["max"].as_py()]
        self._times = [min(self._times), max(self._times)]
        for name in rows.column_names:
            self._nulls[name] += rows[name].null_count
        self._rows += rows.num_rows
        self._digest += digest
        self._held.append(rows)
        self._held_rows += rows.num_rows
        while self._held_rows >= GROUP_ROWS:
            self._write_group(GROUP_ROWS)

    def close(self) -> NewFile:
        """Make the file durable."""
        if self._ids is None:
            raise ValueError("a file without rows")
        with explained("writing", Path(self._place)):
            if self._held_rows:
                self._write_group(self._held_rows)
            footer = FileFooter(rows=self._rows, digest=str(self._digest))
            self._writer.add_key_value_metadata({FILE_KEY: msgspec.json.encode(footer)})
            self._writer.close()
            self._sink.flush()
            self._file.flush()
            size_bytes = self._file.tell()
            kill_point("before-unified-file")
            self._publish()
        kill_point("after-unified-file")
        return NewFile(
            path=self.path,
            partition=self._partition,
            size_bytes=size_bytes,
            rows=self._rows,
            digest=self._digest,
            first_id=self._ids[0],
            last_id=self._ids[1],
            first_ts=self._times[0],
            last_ts=self._times[1],
            nulls=self._nulls,
        )

    def abandon(self) -> None:
        """Give the file up; one that was closed already is removed."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        with suppress(OSError):
            self._file.close()
        self._store.delete(self._key)

    def _open(self) -> BinaryIO:
        if not self._local:
            spool: Any = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the writer
            return spool  # type: ignore[no-any-return]
        path = Path(self._place)
        make_folder(path.parent)
        return path.open("xb")

    def _publish(self) -> None:
        if isinstance(self._store, RemoteStore):
            self._store.upload(self._key, self._file)
            self._file.close()
            return
        os.fsync(self._file.fileno())
        self._file.close()
        sync_folder(Path(self._place).parent)

    def _write_group(self, rows: int) -> None:
        held = pa.concat_tables(self._held)
        with explained("writing", Path(self._place)):
            self._writer.write_table(held.slice(0, rows), row_group_size=rows)
        self._held_rows -= rows
        self._held = [held.slice(rows)] if self._held_rows else []


#: Made here: two threads that meet a type for the first time at once crash in msgspec.
_FOOTER = msgspec.json.Decoder(FileFooter)


def footer_of(metadata: pq.FileMetaData) -> FileFooter | None:
    """What a file says of itself; None if it is none of ours."""
    text = (metadata.metadata or {}).get(FILE_KEY)
    try:
        return _FOOTER.decode(text) if text else None
    except msgspec.MsgspecError:
        return None
