"""Copies of a vault, compressed and with checksums, in a folder or in S3."""

from headrace.looker.snapshots.exceptions import (
    NoSuchSnapshot,
    SnapshotDamaged,
    SnapshotsUnusable,
    TargetTaken,
)
from headrace.looker.snapshots.fetching import fetch
from headrace.looker.snapshots.manifest import Part, Snapshot
from headrace.looker.snapshots.opening import open_snapshots
from headrace.looker.snapshots.retention import Pruned, delete, outdated, prune
from headrace.looker.snapshots.shelf import find, listed
from headrace.looker.snapshots.taking import take

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
