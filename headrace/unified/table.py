"""The unified tables of a lake, opened for reading.

    table = unified_table(lake)                   # or quarantine_table(lake)
    snapshot = table.snapshot()                   # one version of it, whatever is committed later
    snapshot.files(symbol="BTC-USD", months=["2024-01"])
    duckdb.connect().register("trades", snapshot.dataset())

A table is a Delta table: files of Parquet and a log that says which of them count. Files beside
those that a snapshot names are none of its rows, so nobody reads the folder by itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.dataset as ds

from headrace.extras import require
from headrace.lake.store import Store
from headrace.unified.exceptions import (
    TableDamaged,
    TableMissing,
    TableTooNew,
    TableUnreachable,
)
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

#: What delta-rs says of a protocol that it does not know.
_NEWER = re.compile(r"Unsupported|is not supported|unsupported", re.IGNORECASE)
#: What object_store says of a place that does not answer, or refuses.
_UNREACHABLE = re.compile(
    r"error sending request|connect|timed out|timeout|Forbidden|AccessDenied|Unauthorized|"
    r"Permission denied|credentials|InvalidAccessKeyId|SignatureDoesNotMatch|NoSuchBucket|"
    r"after \d+ retries",
    re.IGNORECASE,
)


@runtime_checkable
class _Remote(Protocol):
    def object_store_options(self) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class UnifiedFile:
    """One file of a snapshot.

    Attributes:
        path: from the table's root.
        size_bytes: of the file.
        rows: in it.
        exchange, symbol, month: its partition; no month in the quarantine.
        first_id, last_id: least and greatest trade_id.
        first_ts, last_ts: least and greatest trade_ts; None in the quarantine.
    """

    path: str
    size_bytes: int
    rows: int
    exchange: str
    symbol: str
    month: str | None
    first_id: int
    last_id: int
    first_ts: datetime | None
    last_ts: datetime | None


class Snapshot:
    """One version of a table.

    Args:
        table: as delta-rs opened it.
        place: where it is, for messages.
        schema: columns of the table.
    """

    def __init__(self, table: DeltaTable, place: str, schema: pa.Schema) -> None:
        self.delta = table
        self.place = place
        self.schema = schema

    @property
    def version(self) -> int:
        """Number of the last commit that it contains."""
        return self.delta.version()

    def transaction(self, app_id: str) -> int | None:
        """The last version that was committed of an application transaction; None for none."""
        return self.delta.transaction_version(app_id)

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
            return ds.dataset(self.schema.empty_table())
        return self.delta.to_pyarrow_dataset(schema=self.schema)

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
        return self.store.object_store_options() if isinstance(self.store, _Remote) else {}

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
            table = DeltaTable(self.uri, version=version, storage_options=self.storage_options)
            return Snapshot(table, self.uri, self.schema)
        except (DeltaError, OSError) as error:
            raise explained(self.uri, error) from error


def unified_table(lake: Lake) -> UnifiedTable:
    """The table of all trades."""
    return UnifiedTable(lake.store, UNIFIED_ROOT, UNIFIED_SCHEMA, PARTITION_BY)


def quarantine_table(lake: Lake) -> UnifiedTable:
    """The table of the trades that do not fit the columns of the other one."""
    return UnifiedTable(lake.store, QUARANTINE_ROOT, QUARANTINE_SCHEMA, QUARANTINE_PARTITION_BY)


def explained(place: str, error: Exception) -> Exception:
    """The error of ours that an error of delta-rs means."""
    # delta-rs adds the frames of its own stack.
    reason = str(error).partition("\n")[0][:300] or type(error).__name__
    if _NEWER.search(reason):
        return TableTooNew(place, reason)
    if _UNREACHABLE.search(str(error)):
        return TableUnreachable(place, reason)
    return TableDamaged(place, reason)


def _file(row: dict[str, object]) -> UnifiedFile:
    values: dict[str, object] = {
        "path": row["path"],
        "size_bytes": row["size_bytes"],
        "rows": row["num_records"],
        "first_id": row.get("min.trade_id"),
        "last_id": row.get("max.trade_id"),
        "first_ts": row.get("min.trade_ts"),
        "last_ts": row.get("max.trade_ts"),
        **{name: row.get(f"partition.{name}") for name in PARTITION_BY},
    }
    return UnifiedFile(**values)  # type: ignore[arg-type]
