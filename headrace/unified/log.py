"""The application transactions in the log of a Delta table.

delta-rs answers for one at a time and reads the log again for each. A lake of 400 products has
some thousand of them, so the log is read once, as its specification has it: the transactions of
the last checkpoint, and those of the commits since. (Delta Transaction Log Protocol, "Transaction
Identifiers" and "Checkpoints".)
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lake.exceptions import ObjectMissing
from headrace.lake.store import Store
from headrace.unified.exceptions import TableDamaged

_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_READERS = 8
#: What reading an entry or a checkpoint raises that is not as it should be.
_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError)


def read_transactions(store: Store, prefix: str, version: int) -> dict[str, int]:
    """Every application transaction of a table and its last version.

    Args:
        store: of the lake.
        prefix: the log's, with a slash at its end.
        version: of the table; what was committed later is left out.

    Raises:
        TableDamaged: a commit is missing, or cannot be read. (A checkpoint of another form than
            this version writes is as good as none.)
    """
    names = [entry.key.removeprefix(prefix) for entry in store.entries(prefix)]
    base = max((v for v in _versions(names, _CHECKPOINT) if v <= version), default=-1)
    since = sorted(v for v in _versions(names, _COMMIT) if base < v <= version)
    if len(since) != version - base:
        missing = next(v for v in range(base + 1, version + 1) if v not in since)
        raise TableDamaged(store.place(prefix), f"the entry of version {missing} is missing")
    try:
        found: dict[str, int] = {}
        if base >= 0:
            found = _of_checkpoint(store.get(f"{prefix}{base:020d}.checkpoint.parquet"))
        with ThreadPoolExecutor(_READERS, thread_name_prefix="delta-log") as pool:
            for content in pool.map(lambda v: store.get(f"{prefix}{v:020d}.json"), since):
                found |= _of_commit(content)
    except ObjectMissing as error:
        raise TableDamaged(store.place(prefix), error.message) from error
    except _UNREADABLE as error:
        raise TableDamaged(store.place(prefix), str(error)) from error
    return found


def damage_in(store: Store, prefix: str) -> str:
    """What of a log cannot be read, in words; empty if each entry can.

    Of a log that delta-rs refuses without saying which entry is the cause.

    Raises:
        StoreError: the store failed.
    """
    names = [entry.key.removeprefix(prefix) for entry in store.entries(prefix)]
    base = max(_versions(names, _CHECKPOINT), default=-1)
    commits = sorted(v for v in _versions(names, _COMMIT) if v > base)
    if base >= 0:
        key = f"{prefix}{base:020d}.checkpoint.parquet"
        try:
            _of_checkpoint(store.get(key))
        except _UNREADABLE as error:
            return f"the checkpoint {store.place(key)} of its log cannot be read: {error}"
    for expected, version in enumerate(commits, base + 1):
        if version != expected:
            return f"the entry of version {expected} is missing from its log"
        key = f"{prefix}{version:020d}.json"
        lines = store.get(key).splitlines()
        if not lines:
            return f"the entry {store.place(key)} of its log is empty"
        try:
            for line in lines:
                json.loads(line)
        except ValueError as error:
            return f"the entry {store.place(key)} of its log is no JSON: {error}"
    return ""


def _versions(names: list[str], pattern: re.Pattern[str]) -> list[int]:
    return [int(match[1]) for name in names if (match := pattern.fullmatch(name))]


def _of_checkpoint(content: bytes) -> dict[str, int]:
    rows = pq.read_table(pa.BufferReader(content), columns=["txn"])["txn"].to_pylist()
    return {row["appId"]: row["version"] for row in rows if row and row["appId"] is not None}


def _of_commit(content: bytes) -> dict[str, int]:
    actions = (json.loads(line) for line in content.splitlines() if b'"txn"' in line)
    return {txn["appId"]: txn["version"] for action in actions if (txn := action.get("txn"))}
