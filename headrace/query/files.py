"""The files of a lake as DuckDB sees them: those that count, by name, and nothing else.

DuckDB reads `lake://KEY` through this file system and may reach no other. So a query reads the same
way from a folder and from S3, without an extension from the network; it sees one version of the
unified tables and none of the pieces beside a merged part; and nothing can be written. DuckDB asks
for parts of files: the ends, where the statistics are, and then the columns and row groups that it
wants.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem

from headrace.errors import HeadraceError
from headrace.lake import Lake
from headrace.lake.exceptions import ObjectMissing
from headrace.lake.names import RAW_ROOT
from headrace.query.exceptions import QueryFailed, QueryRefused
from headrace.trades import RAW_SCHEMA
from headrace.unified.exceptions import TableDamaged
from headrace.unified.schema import QUARANTINE_SCHEMA, UNIFIED_SCHEMA
from headrace.unified.table import QUARANTINE_ROOT, UNIFIED_ROOT, quarantine_table, unified_table

PROTOCOL: Final = "lake"
#: The layers, by the folder below the lake in which their files are.
SCHEMAS: Final = {
    RAW_ROOT: RAW_SCHEMA,
    UNIFIED_ROOT: UNIFIED_SCHEMA,
    QUARANTINE_ROOT: QUARANTINE_SCHEMA,
}
#: Columns that are in the paths of files, and in no file.
PARTITIONS: Final = {
    RAW_ROOT: ("exchange", "product"),
    UNIFIED_ROOT: ("exchange", "symbol", "month"),
    QUARANTINE_ROOT: ("exchange", "symbol"),
}
_LISTERS: Final = 16
#: Files never change under their name, and DuckDB keeps what it has read as long as this stays.
_UNCHANGED: Final = datetime(2000, 1, 1, tzinfo=UTC)


class LakeFiles(AbstractFileSystem):  # type: ignore[misc]
    """The files of `lake`, for reading.

    Args:
        lake: whose files.

    Attributes:
        failure: what went wrong in a call of DuckDB's, which passes on no more than its text.
        bytes_read: from the store, so far.
        keys_read: of files that anything was read of.
    """

    protocol = PROTOCOL
    cachable = False

    def __init__(self, lake: Lake) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self.bytes_read = 0
        self.keys_read: set[str] = set()
        self._lake = lake
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}
        self._listed: dict[str, list[str]] = {}
        self._empty = {_empty_path(root): _empty_file(root) for root in SCHEMAS}
        #: Until it is set, a layer is one empty file: views need its columns, not its files.
        self.listing = False

    def glob(self, path: str, **_: Any) -> list[str]:
        """The files of the layer whose folder `path` begins with; an empty one if it has none.

        Raises:
            QueryRefused: it is no layer's.
            TableMissing, TableDamaged, TableTooNew, StoreError: they cannot be listed.
        """
        root = next((root for root in SCHEMAS if _key(path).startswith(f"{root}/")), None)
        if root is None:
            self.failure = QueryRefused(
                f"{path} is no table of the lake", hint="Read trades, trades_raw or quarantine"
            )
            raise self.failure
        with self._lock, self._noticed():
            if self.listing and root not in self._listed:
                found = dict(self._parts() if root == RAW_ROOT else self._table_files(root))
                self._sizes |= found
                self._listed[root] = [_path(key) for key in sorted(found)]
        return self._listed.get(root) or [_path(_empty_path(root))]

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        """A file that was listed.

        Raises:
            QueryRefused: it is to be written.
            FileNotFoundError: it was not listed.
        """
        if mode != "rb":
            self.failure = QueryRefused(f"{path} was not written", hint="A query reads the lake")
            raise self.failure
        key = _key(path)
        if key in self._empty:
            return io.BytesIO(self._empty[key])
        return _StoredFile(self._span, key, self._size(key))

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Name, size and kind of a file that was listed.

        Raises:
            FileNotFoundError: it was not.
        """
        return {"name": path, "size": self._size(_key(path)), "type": "file"}

    def exists(self, path: str, **_: Any) -> bool:
        """Whether it was listed."""
        return _key(path) in self._sizes or _key(path) in self._empty

    def isfile(self, path: str) -> bool:
        """Whether it was listed."""
        return self.exists(path)

    def modified(self, path: str) -> datetime:  # noqa: ARG002 - the signature of fsspec
        """The same for all."""
        return _UNCHANGED

    def _size(self, key: str) -> int:
        if key in self._empty:
            return len(self._empty[key])
        if key not in self._sizes:
            raise FileNotFoundError(key)
        return self._sizes[key]

    def _parts(self) -> Iterator[tuple[str, int]]:
        lake = self._lake
        for exchange in lake.exchanges():
            raw = lake.raw_for_reading(exchange)
            with ThreadPoolExecutor(_LISTERS, thread_name_prefix="listings") as pool:
                for listing in pool.map(raw.parts, raw.products()):
                    for part in listing.parts:
                        yield part.key, part.size_bytes

    def _table_files(self, root: str) -> Iterator[tuple[str, int]]:
        table = unified_table(self._lake) if root == UNIFIED_ROOT else quarantine_table(self._lake)
        if root == QUARANTINE_ROOT and not table.exists() and unified_table(self._lake).exists():
            return  # every trade fitted
        for file in table.snapshot().files():
            yield f"{root}/{file.path}", file.size_bytes

    def _span(self, key: str, start: int, size_bytes: int) -> bytes:
        with self._noticed():
            try:
                content = self._lake.store.span(key, start, size_bytes)
            except ObjectMissing as error:
                raise self._missing(key, error) from error
        with self._lock:
            self.bytes_read += len(content)
            self.keys_read.add(key)
        return content

    def _missing(self, key: str, error: ObjectMissing) -> HeadraceError:
        for root in (UNIFIED_ROOT, QUARANTINE_ROOT):
            if key.startswith(f"{root}/"):
                return TableDamaged(self._lake.store.place(root), f"{error.place} is missing")
        return QueryFailed(
            f"{error.place} is gone: it was merged into another part meanwhile",
            hint="Run the query again",
        )

    @contextmanager
    def _noticed(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failure = error
            raise


class _StoredFile:
    """One open file: DuckDB seeks, then reads.

    Args:
        span: reads some bytes of a key.
        key: of the file.
        size_bytes: of the file.
    """

    def __init__(self, span: Callable[[str, int, int], bytes], key: str, size_bytes: int) -> None:
        self._span = span
        self._key = key
        self._size_bytes = size_bytes
        self._at = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of any file."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}
        self._at = origin[whence] + offset
        return self._at

    def tell(self) -> int:
        """As of any file."""
        return self._at

    def read(self, size_bytes: int = -1) -> bytes:
        """As of any file."""
        left = max(0, self._size_bytes - self._at)
        wanted = left if size_bytes < 0 else min(size_bytes, left)
        content = self._span(self._key, self._at, wanted) if wanted else b""
        self._at += len(content)
        return content

    def close(self) -> None:
        """Nothing is held open."""


def _path(key: str) -> str:
    return f"{PROTOCOL}://{key}"


def _key(path: str) -> str:
    return path.removeprefix(f"{PROTOCOL}://")


def _empty_path(root: str) -> str:
    folders = "".join(f"{name}=-/" for name in PARTITIONS[root])
    return f"{root}/{folders}empty.parquet"


def _empty_file(root: str) -> bytes:
    names = [name for name in SCHEMAS[root].names if name not in PARTITIONS[root]]
    sink = pa.BufferOutputStream()
    pq.write_table(SCHEMAS[root].empty_table().select(names), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content
