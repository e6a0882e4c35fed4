"""The unified tables of a lake, opened for reading.

    table = unified_table(lake)                   # or quarantine_table(lake)
    snapshot = table.snapshot()                   # one version of it, whatever is committed later
    snapshot.files(symbol="BTC-USD", months=["2024-01"])
    duckdb.connect().register("trades", snapshot.dataset())

A table is a Delta table: files of Parquet and a log that says which of them count. Files beside
those that a snapshot names are none of its rows, so the folder is never read without its log.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from headrace.extras import require
from headrace.lake.names import MAX_ID
from headrace.lake.store import Store
from headrace.trades import rows_between
from headrace.unified.exceptions import TableDamaged, TableMissing, of_delta
from headrace.unified.log import damage_in, read_transactions
from headrace.unified.schema import (
    PARTITION_BY,
    QUARANTINE_PARTITION_BY,
    QUARANTINE_SCHEMA,
    UNIFIED_SCHEMA,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from headrace.lake import Lake

UNIFIED_ROOT = "unified/trades"
QUARANTINE_ROOT = "unified/quarantine"


@runtime_checkable
class RemoteStore(Protocol):
    """A store that is no folder."""

    def object_store_options(self) -> dict[str, str]:
        """See `S3Store.object_store_options`."""

    def upload(self, key: str, content: BinaryIO) -> None:
        """See `S3Store.upload`."""


@dataclass(frozen=True, slots=True)
class UnifiedFile:
    """One file of a snapshot.

    Attributes:
        path: from the table's root.
        size_bytes: of the file.
        rows: in it.
        exchange, symbol, month: its partition; no month in the quarantine.
        partition: the same as columns and values.
        first_id, last_id: least and greatest trade_id.
        first_ts, last_ts: least and greatest trade_ts; None in the quarantine.
    """

    path: str
    size_bytes: int
    rows: int
    exchange: str
    symbol: str
    month: str | None
    partition: dict[str, str]
    first_id: int
    last_id: int
    first_ts: datetime | None
    last_ts: datetime | None


class Snapshot:
    """One version of a table.

    Args:
        table: what it is a version of.
        delta: as delta-rs opened it.
    """

    def __init__(self, table: UnifiedTable, delta: DeltaTable) -> None:
        self.table = table
        self.delta = delta

    @property
    def version(self) -> int:
        """Number of the last commit that it contains."""
        return self.delta.version()

    @cached_property
    def transactions(self) -> dict[str, int]:
        """The application transactions and the last version that was committed of each."""
        return read_transactions(self.table.store, f"{self.table.root}/_delta_log/", self.version)

    def files(
        self,
        *,
        exchange: str | None = None,
        symbol: str | None = None,
        months: Collection[str] | None = None,
    ) -> list[UnifiedFile]:
        """The files of some partitions, with their statistics, by partition and first id."""
        return [
            file
            for file in self._files
            if (exchange is None or file.exchange == exchange)
            and (symbol is None or file.symbol == symbol)
            and (months is None or file.month in months)
        ]

    def dataset(self) -> ds.Dataset:
        """The rows for pyarrow, DuckDB and Polars; filters skip files and row groups."""
        if not self._files:
            return ds.dataset(self.table.schema.empty_table())
        return self.delta.to_pyarrow_dataset(schema=self.table.schema)

    def read(
        self, path: str, lo: int = 1, hi: int = MAX_ID, columns: list[str] | None = None
    ) -> Iterator[pa.Table]:
        """The rows of one file with ids in [lo, hi], a row group at a time, by rising id.

        Columns of the partition are not among them. The file need not be committed yet.

        Raises:
            TableDamaged: the file is missing, or cannot be read.
        """
        try:
            with self._files_of_table.open_input_file(path) as source:
                parquet = pq.ParquetFile(source)
                for group in range(parquet.num_row_groups):
                    ids = parquet.metadata.row_group(group).column(0).statistics
                    if ids is None or (ids.min <= hi and ids.max >= lo):
                        rows = rows_between(parquet.read_row_group(group, columns), lo, hi)
                        if rows.num_rows:
                            yield rows
        except FileNotFoundError as error:
            raise TableDamaged(self.table.uri, f"its file {path} is missing") from error
        except (pa.ArrowException, OSError) as error:
            raise TableDamaged(self.table.uri, f"its file {path}: {error}") from error

    def footer(self, path: str) -> pq.FileMetaData:
        """The Parquet metadata of one file; raises as `read`."""
        try:
            with self._files_of_table.open_input_file(path) as source:
                return pq.read_metadata(source)
        except FileNotFoundError as error:
            raise TableDamaged(self.table.uri, f"its file {path} is missing") from error
        except (pa.ArrowException, OSError) as error:
            raise TableDamaged(self.table.uri, f"its file {path}: {error}") from error

    def vacuum(self, grace_h: float) -> list[str]:
        """Remove files that no version of the last `grace_h` hours names; their paths.

        Also what was written and not committed, once it is that old.
        """
        from deltalake.exceptions import DeltaError

        # delta-rs counts in whole hours; rounding up keeps files for longer, never for less.
        options: dict[str, Any] = {
            "retention_hours": math.ceil(grace_h),
            "enforce_retention_duration": False,
            "full": True,
        }
        try:
            # Without anything to remove it would commit all the same.
            found = self.delta.vacuum(dry_run=True, **options)
            return self.delta.vacuum(dry_run=False, **options) if found else []
        except (DeltaError, OSError) as error:
            raise of_delta(self.table.uri, error) from error

    @cached_property
    def _files_of_table(self) -> pa_fs.FileSystem:
        if not isinstance(self.table.store, RemoteStore):
            return pa_fs.SubTreeFileSystem(self.table.uri, pa_fs.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        options = self.table.storage_options
        return pa_fs.PyFileSystem(DeltaStorageHandler(self.table.uri, options=options))

    @cached_property
    def _files(self) -> list[UnifiedFile]:
        files = [
            _file(row) for row in pa.table(self.delta.get_add_actions(flatten=True)).to_pylist()
        ]
        return sorted(files, key=lambda f: (f.exchange, f.symbol, f.month or "", f.first_id))


class UnifiedTable:
    """A Delta table below a lake.

    Args:
        store: the lake's.
        root: path from the lake's root.
        schema: its columns, those of the partitions first.
        partition_by: its partition columns.
    """

    def __init__(
        self, store: Store, root: str, schema: pa.Schema, partition_by: tuple[str, ...]
    ) -> None:
        self.store = store
        self.root = root
        self.schema = schema
        self.partition_by = partition_by

    @property
    def uri(self) -> str:
        """Where it is: a path, or s3://bucket/prefix."""
        return self.store.place(self.root)

    @property
    def storage_options(self) -> dict[str, str]:
        """How deltalake, Polars and other users of object_store reach it.

        Credentials are those of this moment: ask again for each opening.
        """
        return self.store.object_store_options() if isinstance(self.store, RemoteStore) else {}

    def exists(self) -> bool:
        """Whether it was ever made; says nothing about whether it can be read."""
        return next(self.store.entries(f"{self.root}/_delta_log/"), None) is not None

    def version(self) -> int:
        """Number of its last commit; raises as `snapshot`."""
        return self.snapshot().version

    def snapshot(self, version: int | None = None) -> Snapshot:
        """The table as of a version; the newest for None.

        Raises:
            ExtraMissing: deltalake is not installed.
            TableMissing: there is none.
            TableDamaged, TableTooNew: its log cannot be read.
            TableUnreachable: the store does not answer, or refuses.
        """
        require("unified")
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        if not self.exists():
            raise TableMissing(self.uri)
        try:
            delta = DeltaTable(self.uri, version=version, storage_options=self.storage_options)
            return Snapshot(self, delta)
        except (DeltaError, OSError) as error:
            found = of_delta(self.uri, error)
            if isinstance(found, TableDamaged):
                damage = damage_in(self.store, f"{self.root}/_delta_log/")
                raise TableDamaged(self.uri, damage or found.reason) from error
            raise found from error


def unified_table(lake: Lake) -> UnifiedTable:
    """The table of all trades."""
    return UnifiedTable(lake.store, UNIFIED_ROOT, UNIFIED_SCHEMA, PARTITION_BY)


def quarantine_table(lake: Lake) -> UnifiedTable:
    """The table of the trades that do not fit the columns of the other one."""
    return UnifiedTable(lake.store, QUARANTINE_ROOT, QUARANTINE_SCHEMA, QUARANTINE_PARTITION_BY)


def _file(row: dict[str, object]) -> UnifiedFile:
    values: dict[str, object] = {
        "path": row["path"],
        "size_bytes": row["size_bytes"],
        "rows": row["num_records"],
        "first_id": row.get("min.trade_id"),
        "last_id": row.get("max.trade_id"),
        "first_ts": row.get("min.trade_ts"),
        "last_ts": row.get("max.trade_ts"),
        "partition": {
            name: row[f"partition.{name}"] for name in PARTITION_BY if f"partition.{name}" in row
        },
        **{name: row.get(f"partition.{name}") for name in PARTITION_BY},
    }
    return UnifiedFile(**values)  # type: ignore[arg-type]
