"""Taking and fetching a snapshot: a consistent copy of the file, in compressed parts.

Others may go on writing to the vault meanwhile; the copy is of one moment. The manifest is written
last: killed half way, a copy leaves parts without a manifest, which no list shows and the next
pruning removes. What is fetched is compared with the checksums of each part and of the whole before
it is put in its place.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa

from headrace.lake.exceptions import ObjectMissing
from headrace.lake.store import Store
from headrace.looker.exceptions import SnapshotDamaged, TargetTaken
from headrace.looker.snapshots.catalog import Part, Snapshot, manifest_key, part_key
from headrace.looker.vault import Vault, VaultUnusable
from headrace.looker.vault.items import utc_text
from headrace.paths import publish_new, real_path
from headrace.stopping import STOP, StopEvent

#: Bounds the memory, whatever the size of the vault.
PART_BYTES = 32 << 20
_FORGOTTEN_AFTER_S = 86_400


def take(
    vault: Vault,
    store: Store,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    part_bytes: int = PART_BYTES,
    stop: StopEvent = STOP,
) -> Snapshot:
    """Put a copy of `vault` into `store`.

    Args:
        vault: what to copy; needs as much free space beside it as it is big.
        store: see `open_snapshots`.
        now: the clock, for the name.
        part_bytes: of the file, per part.
        stop: looked at before each part.

    Raises:
        VaultDamaged, VaultUnusable: the vault cannot be copied.
        StoreError: the store failed; nothing that a list shows was left there.
    """
    taken_at = now()
    name = f"{taken_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    whole, parts = hashlib.sha256(), list[Part]()
    with _copy(vault) as path:
        with Vault.open(path) as copy:  # and looked at for damage
            counts = {type_: live for type_, (live, _) in copy.contents.counts().items()}
            newest = copy.sessions.list(limit=1)
            source = copy.source
            copy.file.close()
        with path.open("rb") as file:
            while block := file.read(part_bytes):
                stop.check()
                whole.update(block)
                packed = _framed(block)
                key = part_key(name, len(parts) + 1)
                store.put(key, packed)
                parts.append(Part(key, len(packed), hashlib.sha256(packed).hexdigest()))
        size_bytes = path.stat().st_size
    snapshot = Snapshot(
        name=name,
        taken_at=utc_text(taken_at),
        source=source,
        session=newest[0].id if newest else 0,
        counts=counts,
        size_bytes=size_bytes,
        sha256=whole.hexdigest(),
        parts=tuple(parts),
    )
    store.put(manifest_key(name), msgspec.json.format(msgspec.json.encode(snapshot), indent=1))
    return snapshot


def _framed(block: bytes) -> bytes:
    """A zstd stream, which the `zstd` command reads as well."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(block)
    return bytes(sink.getvalue())


@contextmanager
def _copy(vault: Vault) -> Iterator[Path]:
    """A copy beside the vault, for the user alone, gone at the end."""
    stem = f".{vault.path.name}.snapshot-"
    for forgotten in vault.path.parent.glob(f"{stem}*"):
        # Of a process that was killed; a copy takes minutes.
        with suppress(FileNotFoundError):
            if time.time() - forgotten.stat().st_mtime > _FORGOTTEN_AFTER_S:
                forgotten.unlink()
    path = vault.path.with_name(f"{stem}{secrets.token_hex(8)}")
    try:
        vault.file.copy_to(path)
        yield path
    finally:
        for leftover in path.parent.glob(f"{path.name}*"):
            leftover.unlink(missing_ok=True)


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
