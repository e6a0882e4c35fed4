"""Commits: files come and go, and what was taken is recorded, in one step or not at all.

A change of a product says on which state it was planned. It is committed only if the product is
still in that state, which Delta's own check of the transactions guards to the last moment; else
it is planned again. Products do not disturb each other.

The quarantine is a table of its own. It is committed first: a run that is killed between both
leaves rows in it of ids that were not taken yet, which the next run replaces.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.atomic_files import sync_folder
from headrace.errors import StateError
from headrace.kill_points import kill_point
from headrace.lake.local import explained, make_folder
from headrace.lake.names import OWN_ROOT
from headrace.unified.exceptions import TableBusy, TableTooNew, of_delta
from headrace.unified.files import NewFile
from headrace.unified.schema import COLUMN_DOCS, QUARANTINE_DOCS
from headrace.unified.table import (
    RemoteStore,
    Snapshot,
    UnifiedFile,
    UnifiedTable,
    quarantine_table,
    unified_table,
)
from headrace.unified.taken_ids import LAYOUT, LAYOUT_ID, Taken, app_id

if TYPE_CHECKING:
    from deltalake import CommitProperties, Schema
    from deltalake.transaction import AddAction, RemoveAction

    from headrace.lake import Lake

_CONFIGURATION = {
    # Entries of the log between two checkpoints, which a reader has to read one by one.
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 7 days",
}
#: How often a group of changes may lose against commits of the same products made meanwhile.
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Files of one table that come and go together."""

    adds: tuple[NewFile, ...] = ()
    removes: tuple[UnifiedFile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.adds or self.removes)


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be committed of one product.

    Attributes:
        exchange, symbol: the product.
        taken: what is taken of it then; its `commits` are those that it was planned on.
        quarantine_commits: the same of the quarantine.
        trades, quarantine: the files of the two tables.
        taken_rows: trades that were converted for it.
        misfits: those of them that are for the quarantine.
        rearranges: the rows stay the same (a compaction).
    """

    exchange: str
    symbol: str
    taken: Taken
    quarantine_commits: int
    trades: FileChanges = field(default_factory=FileChanges)
    quarantine: FileChanges = field(default_factory=FileChanges)
    taken_rows: int = 0
    misfits: int = 0
    rearranges: bool = False

    @property
    def app_id(self) -> str:
        """The transaction that every commit of the product raises."""
        return app_id(self.exchange, self.symbol)


@dataclass(frozen=True, slots=True)
class _Side:
    """A change as one of the tables sees it."""

    change: Change
    files: FileChanges
    planned_on: int
    transactions: Mapping[str, int]


def committed(taken: Taken, change: Change) -> Taken:
    """What is taken once the change is committed, on which the next one is planned."""
    aside = None if taken.aside is None else taken.aside + bool(change.quarantine)
    return replace(taken, commits=taken.commits + 1, aside=aside)


def _main(change: Change) -> _Side:
    after = committed(change.taken, change)
    transactions = after.transactions(change.exchange, change.symbol)
    return _Side(change, change.trades, change.taken.commits, transactions)


def _aside(change: Change) -> _Side:
    commits = change.quarantine_commits
    return _Side(change, change.quarantine, commits, {change.app_id: commits + 1})


class Tables:
    """Both tables of a lake; the only writer of their logs.

    Args:
        lake: opened.
    """

    def __init__(self, lake: Lake) -> None:
        self.trades = unified_table(lake)
        self.quarantine = quarantine_table(lake)
        self._lock = threading.Lock()

    def make(self) -> None:
        """Make the tables that are not there.

        Raises:
            TableDamaged, TableTooNew, TableUnreachable: what is there cannot be used.
        """
        for table, docs in ((self.quarantine, QUARANTINE_DOCS), (self.trades, COLUMN_DOCS)):
            if not table.exists():
                create_table(table, docs)
            self.snapshot(table)

    def snapshot(self, table: UnifiedTable) -> Snapshot:
        """The table as it is, if this version of Headrace may write to it.

        Raises:
            TableMissing, TableDamaged, TableTooNew, TableUnreachable: it may not.
        """
        snapshot = table.snapshot()
        layout = snapshot.transactions.get(LAYOUT_ID, LAYOUT)
        if layout > LAYOUT:
            raise TableTooNew(table.uri, f"its layout is {layout}, this version knows {LAYOUT}")
        return snapshot

    def discard(self, changes: Iterable[Change]) -> None:
        """Remove the new files of changes that will not be committed."""
        for change in changes:
            _remove(self.trades, change.trades.adds)
            _remove(self.quarantine, change.quarantine.adds)

    def stale(self, changes: Iterable[Change]) -> list[Change]:
        """Those of products that others changed since they were planned; nothing is committed."""
        trades = self.snapshot(self.trades).transactions
        quarantine = self.snapshot(self.quarantine).transactions
        return [
            change
            for change in changes
            if trades.get(change.app_id, 0) != change.taken.commits
            or quarantine.get(change.app_id, 0) != change.quarantine_commits
        ]

    def commit(self, changes: Sequence[Change], operation: str) -> list[Change]:
        """Commit the changes of several products in one step for each table.

        Args:
            changes: one for each product.
            operation: what the history of the table calls it.

        Returns:
            Those of products that others changed since they were planned. Nothing of them was
            committed to the trades, and their new files are removed.

        Raises:
            TableDamaged, TableTooNew, TableUnreachable, TableBusy: nothing was committed to the
                trades; a vacuum removes the new files.
        """
        with self._lock:
            sides = [_aside(change) for change in changes if change.quarantine]
            late = self._commit(self.quarantine, sides, operation) if sides else []
            kill_point("after-quarantine-commit")
            sides = [_main(change) for change in changes if change not in late]
            for change in late:
                _remove(self.trades, change.trades.adds)
            if sides:
                late += self._commit(self.trades, sides, operation)
            kill_point("after-unified-commit")
            return late

    def readable(self) -> bool:
        """Whether both tables are there and this version can go on with them."""
        try:
            self.snapshot(self.trades)
            self.snapshot(self.quarantine)
        except StateError:
            return False
        return True

    def replace(self, changes: Sequence[Change], operation: str) -> None:
        """Have tables that cannot be read made again, with these changes alone, in a commit each.

        What the logs are now is moved aside, to `_headrace/aside/` in the lake.

        Raises:
            StoreError, TableUnreachable: the store failed.
            TableBusy: another run made a table in its place meanwhile.
        """
        with self._lock:
            for table, docs, sides in (
                (self.quarantine, QUARANTINE_DOCS, [_aside(change) for change in changes]),
                (self.trades, COLUMN_DOCS, [_main(change) for change in changes]),
            ):
                _set_log_aside(table)
                create_table(table, docs, sides, operation)
                wanted = {file.path for side in sides for file in side.files.adds}
                if wanted != {file.path for file in self.snapshot(table).files()}:
                    raise TableBusy(table.uri, 1)

    def _commit(self, table: UnifiedTable, sides: Sequence[_Side], operation: str) -> list[Change]:
        late: list[Change] = []
        for _ in range(_ATTEMPTS):
            snapshot = self.snapshot(table)
            known = {file.path for file in snapshot.files()}
            left = []
            for side in sides:
                if known.issuperset(file.path for file in side.files.adds) and side.files.adds:
                    continue  # committed by an attempt whose answer was lost
                if snapshot.transactions.get(side.change.app_id, 0) == side.planned_on:
                    left.append(side)
                else:
                    late.append(side.change)
                    _remove(table, side.files.adds)
            sides = left
            if not sides or _committed(snapshot, sides, operation):
                return late
        raise TableBusy(table.uri, _ATTEMPTS)


def create_table(
    table: UnifiedTable, docs: Mapping[str, str], sides: Sequence[_Side] = (), operation: str = ""
) -> None:
    """Make the table with what it is to hold, in one commit; one that is there stays as it is."""
    from deltalake.exceptions import CommitFailedError, DeltaError
    from deltalake.transaction import create_table_with_add_actions

    now_ms = int(time.time() * 1_000)
    if not isinstance(table.store, RemoteStore):
        make_folder(Path(table.uri))
    try:
        create_table_with_add_actions(
            table.uri,
            _delta_schema(table, docs),
            [_addition(file, now_ms) for side in sides for file in side.files.adds],
            mode="ignore",
            partition_by=list(table.partition_by),
            name=table.root.rpartition("/")[2],
            configuration=_CONFIGURATION,
            storage_options=table.storage_options,
            commit_properties=_properties(sides, operation),
        )
    except CommitFailedError:
        return
    except (DeltaError, OSError) as error:
        raise of_delta(table.uri, error) from error
    _sync_log(table)


def _committed(snapshot: Snapshot, sides: Sequence[_Side], operation: str) -> bool:
    """Commit to a snapshot; False if another commit of the same products came first."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    table = snapshot.table
    now_ms = int(time.time() * 1_000)
    actions: list[Any] = []
    for side in sides:
        changes_rows = not side.change.rearranges
        actions += [_removal(file, now_ms, changes_rows) for file in side.files.removes]
        actions += [_addition(file, now_ms, changes_rows) for file in side.files.adds]
    try:
        snapshot.delta.create_write_transaction(
            actions,
            "append",
            snapshot.delta.schema(),
            list(table.partition_by),
            commit_properties=_properties(sides, operation),
        )
    except CommitFailedError:
        return False
    except (DeltaError, OSError) as error:
        raise of_delta(table.uri, error) from error
    _sync_log(table)
    return True


def _properties(sides: Sequence[_Side], operation: str) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    transactions = {LAYOUT_ID: LAYOUT}
    for side in sides:
        transactions |= side.transactions
    return CommitProperties(
        custom_metadata={"headrace": operation},
        app_transactions=[Transaction(name, at) for name, at in transactions.items()],
    )


def _delta_schema(table: UnifiedTable, docs: Mapping[str, str]) -> Schema:
    """The columns with what each of them is as its comment."""
    from deltalake import Schema

    fields = [column.with_metadata({"comment": docs[column.name]}) for column in table.schema]
    return Schema.from_arrow(pa.schema(fields))


def _addition(file: NewFile, now_ms: int, changes_rows: bool = True) -> AddAction:
    from deltalake.transaction import AddAction

    typed = "month" in file.partition
    least: dict[str, object] = {"trade_id": file.first_id}
    greatest: dict[str, object] = {"trade_id": file.last_id}
    for extremes, moment in ((least, file.first_ts), (greatest, file.last_ts)):
        if typed:
            utc = moment.astimezone(UTC)
            extremes["trade_ts"] = f"{utc.replace(tzinfo=None).isoformat('T', 'microseconds')}Z"
            extremes["date"] = utc.date().isoformat()
    statistics = {
        "numRecords": file.rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": file.nulls,
    }
    return AddAction(
        file.path, file.size_bytes, file.partition, now_ms, changes_rows, json.dumps(statistics)
    )


def _removal(file: UnifiedFile, now_ms: int, changes_rows: bool) -> RemoveAction:
    from deltalake.transaction import RemoveAction

    return RemoveAction(file.path, changes_rows, now_ms, file.size_bytes, {**file.partition})


def _remove(table: UnifiedTable, files: Sequence[NewFile]) -> None:
    for file in files:
        table.store.delete(f"{table.root}/{file.path}")


def _set_log_aside(table: UnifiedTable) -> None:
    store, log = table.store, f"{table.root}/_delta_log/"
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    for entry in list(store.entries(log)):
        name = entry.key.removeprefix(log)
        store.put(f"{OWN_ROOT}/aside/{table.root}-{moment}/{name}", store.get(entry.key))
        store.delete(entry.key)


def _sync_log(table: UnifiedTable) -> None:
    """Make the newest entry of a log on a disk durable, which delta-rs leaves to the system."""
    if isinstance(table.store, RemoteStore):
        return
    folder = Path(table.uri) / "_delta_log"
    with explained("writing", folder):
        newest = max(folder.glob("*.json"), default=None)
        if newest is not None:
            with newest.open("rb") as entry:
                os.fsync(entry.fileno())
        sync_folder(folder)
