"""Fetching a snapshot: each part and the whole against their checksums, then into place."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

import pyarrow as pa

from headrace.lake.exceptions import ObjectMissing
from headrace.lake.store import Store
from headrace.looker.snapshots.exceptions import SnapshotDamaged, TargetTaken
from headrace.looker.snapshots.manifest import Part, Snapshot
from headrace.looker.vault import Vault, VaultUnusable
from headrace.paths import publish_new, real_path
from headrace.stopping import STOP, StopEvent

_CHUNK = 4 << 20


def fetch(store: Store, snapshot: Snapshot, target: Path, *, stop: StopEvent = STOP) -> Path:
    """Bring a snapshot back as a vault at `target`, which appears whole or not at all.

    Args:
        store: where it lies.
        snapshot: see `headrace.looker.snapshots.find`.
        target: path of the vault; nothing may be there, nor a journal of an earlier one.
        stop: looked at before each part.

    Raises:
        TargetTaken: there is a file already.
        SnapshotDamaged: a checksum does not fit.
        VaultUnusable: the file cannot be written.
        StoreError: the store failed.
    """
    target = real_path(target)
    for suffix in ("", "-wal", "-journal"):
        if target.with_name(target.name + suffix).exists():
            raise TargetTaken(target.with_name(target.name + suffix))
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(store, snapshot, draft, stop)
        Vault.open(draft).close()
        if not publish_new(draft, target):
            raise TargetTaken(target)
    except OSError as error:
        raise VaultUnusable(target, error.strerror or str(error)) from error
    finally:
        for leftover in draft.parent.glob(f"{draft.name}*"):
            leftover.unlink(missing_ok=True)
    return target


def _write(store: Store, snapshot: Snapshot, path: Path, stop: StopEvent) -> None:
    whole = hashlib.sha256()
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for part in snapshot.parts:
            stop.check()
            packed = _part(store, part)
            with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
                while chunk := stream.read(_CHUNK):
                    whole.update(chunk)
                    file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if whole.hexdigest() != snapshot.sha256:
        raise SnapshotDamaged(snapshot.name, "the whole has another checksum than it should")


def _part(store: Store, part: Part) -> bytes:
    try:
        packed = store.get(part.key)
    except ObjectMissing as error:
        raise SnapshotDamaged(store.place(part.key), "it is missing") from error
    if hashlib.sha256(packed).hexdigest() != part.sha256:
        raise SnapshotDamaged(store.place(part.key), "it has another checksum than it should")
    return packed
