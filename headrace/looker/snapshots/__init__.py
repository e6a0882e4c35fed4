"""Copies of a vault, compressed and with checksums, in a folder or in S3."""

from headrace.looker.exceptions import (
    NoSuchSnapshot,
    SnapshotDamaged,
    SnapshotsUnusable,
    TargetTaken,
)
from headrace.looker.snapshots.catalog import Part, Snapshot, find, listed, open_snapshots
from headrace.looker.snapshots.copying import fetch, take
from headrace.looker.snapshots.retention import Pruned, delete, outdated, prune

__all__ = [
    "NoSuchSnapshot",
    "Part",
    "Pruned",
    "Snapshot",
    "SnapshotDamaged",
    "SnapshotsUnusable",
    "TargetTaken",
    "delete",
    "fetch",
    "find",
    "listed",
    "open_snapshots",
    "outdated",
    "prune",
    "take",
]
