"""Copies of a vault, compressed and with checksums, in a folder or in S3: take, fetch, list, prune.

Others may go on writing to the vault meanwhile; the copy is of one moment. A snapshot is its parts
and a manifest with the checksum of each, which is written last: killed half way, a copy leaves
parts without a manifest, which no list shows and the next pruning removes. What is fetched is
compared with the checksums of each part and of the whole before it is put in its place. Retention
is by age and by count, and never without the newest.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa

from headrace.errors import ConfigurationError
from headrace.lake.exceptions import LakeUnusable, ObjectMissing, StoreError
from headrace.lake.opening import make_store
from headrace.lake.store import Store
from headrace.looker.exceptions import (
    NoSuchSnapshot,
    SnapshotDamaged,
    SnapshotsUnusable,
    TargetTaken,
)
from headrace.looker.vault import Vault, VaultUnusable
from headrace.looker.vault.items import utc_text
from headrace.paths import publish_new, real_path
from headrace.stopping import STOP, StopEvent

SCHEMA_VERSION = 1
FOLDER = "looker-snapshots/"
PARTS = f"{FOLDER}parts/"
SUFFIX = ".json"
#: When it was taken, and a few letters for two in one second.
NAME = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")


class Part(msgspec.Struct, frozen=True):
    """A piece of the file, compressed: SHA-256 and size of what lies in the store."""

    key: str
    size_bytes: int
    sha256: str


class Snapshot(msgspec.Struct, frozen=True):
    """The manifest of a snapshot. It is written last: without it there is no snapshot.

    Attributes:
        name: as in 20260301T120000Z-1f2e3d4c; names sort by time.
        taken_at: UTC text.
        source: base URL of the Looker.
        session: the newest session in it.
        counts: items by type.
        size_bytes, sha256: of the vault's file.
        parts: in order.
    """

    name: str
    taken_at: str
    source: str
    session: int
    counts: dict[str, int]
    size_bytes: int
    sha256: str
    parts: tuple[Part, ...]
    schema_version: int = SCHEMA_VERSION

    @property
    def stored_bytes(self) -> int:
        """What it takes in the store."""
        return sum(part.size_bytes for part in self.parts)


def manifest_key(name: str) -> str:
    """Key of a snapshot's manifest."""
    return f"{FOLDER}{name}{SUFFIX}"


def part_key(name: str, number: int) -> str:
    """Key of part `number` of a snapshot."""
    return f"{PARTS}{name}.{number:05d}.zst"


def parse(place: str, content: bytes) -> Snapshot:
    """The manifest that was read from `place`.

    Raises:
        SnapshotDamaged: it does not read, or a newer version wrote it.
    """
    try:
        found = msgspec.json.decode(content, type=Snapshot)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SnapshotDamaged(place, f"its manifest does not read ({error})") from error
    if found.schema_version > SCHEMA_VERSION:
        raise SnapshotDamaged(place, "a newer headrace wrote it; upgrade headrace here")
    if not NAME.fullmatch(found.name) or any(
        part.key != part_key(found.name, n) for n, part in enumerate(found.parts, start=1)
    ):
        raise SnapshotDamaged(place, "its manifest names parts that are not its own")
    return found


NEWEST = "latest"


def list_names(store: Store) -> list[str]:
    """Names of the complete snapshots, newest first."""
    keys = (entry.key.removeprefix(FOLDER) for entry in store.entries(FOLDER))
    found = (key.removesuffix(SUFFIX) for key in keys if key.endswith(SUFFIX))
    return sorted((name for name in found if NAME.fullmatch(name)), reverse=True)


def list_snapshots(store: Store) -> list[Snapshot]:
    """The complete snapshots, newest first; a request for each.

    Raises:
        SnapshotDamaged: a manifest does not read.
        StoreError: the store failed.
    """
    found = []
    for name in list_names(store):
        try:
            found.append(_read(store, name))
        except ObjectMissing:
            continue  # deleted since it was listed
    return found


def find(store: Store, name: str = NEWEST) -> Snapshot:
    """One snapshot, the newest if called `latest`.

    Raises:
        NoSuchSnapshot, SnapshotDamaged, StoreError.
    """
    known = list_names(store)
    wanted = known[0] if name == NEWEST and known else name
    if wanted not in known:
        raise NoSuchSnapshot(store.location, name, ", ".join(known[:10]) or "none at all")
    return _read(store, wanted)


def _read(store: Store, name: str) -> Snapshot:
    key = manifest_key(name)
    return parse(store.place(key), store.get(key))


def open_snapshots(location: str, *, check: bool = False) -> Store:
    """The store at `location`, of the same kind as a lake's.

    Args:
        location: a folder, or s3://bucket/prefix.
        check: try to list, write and remove there first.

    Raises:
        SnapshotsUnusable: an unknown form, a file, no permission, no answer.
    """
    try:
        store = make_store(location)
        if check:
            store.check()
    except LakeUnusable as error:
        raise SnapshotsUnusable(location, error.reason, hint=error.hint) from error
    except StoreError as error:
        raise SnapshotsUnusable(location, error.message, hint=error.hint) from error
    return store


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
            packed = fetch_part(store, part)
            with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
                while chunk := stream.read(_CHUNK):
                    whole.update(chunk)
                    file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if whole.hexdigest() != snapshot.sha256:
        raise SnapshotDamaged(snapshot.name, "the whole has another checksum than it should")


def fetch_part(store: Store, part: Part) -> bytes:
    """A part as it lies in the store, its checksum checked.

    Raises:
        SnapshotDamaged: it is missing, or another one.
    """
    try:
        packed = store.get(part.key)
    except ObjectMissing as error:
        raise SnapshotDamaged(store.place(part.key), "it is missing") from error
    if hashlib.sha256(packed).hexdigest() != part.sha256:
        raise SnapshotDamaged(store.place(part.key), "it has another checksum than it should")
    return packed


#: Parts without a manifest that are younger may belong to a snapshot that is being taken.
_ABANDONED_AFTER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What was removed: snapshots by name, and parts that a killed one left behind."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    leftovers: int


def find_outdated(
    found: Sequence[str], *, keep_days: float | None, keep: int | None, now: datetime
) -> list[str]:
    """Names of the snapshots that a retention removes, oldest first.

    Args:
        found: names of snapshots.
        keep_days: younger ones stay; None: age keeps nothing.
        keep: so many of the newest stay, whatever their age; None: the newest one.
        now: the present.

    Raises:
        ConfigurationError: neither was given, or a number that is out of range.
    """
    if keep_days is None and keep is None:
        raise ConfigurationError(
            "nothing says which snapshots to keep", hint="Give --keep-days, --keep, or both"
        )
    if (keep is not None and keep < 1) or (keep_days is not None and keep_days < 0):
        raise ConfigurationError(
            f"a retention of {keep_days} days and {keep} snapshots makes no sense",
            hint="Keep at least one",
        )
    newest_first = sorted(found, reverse=True)
    beyond = newest_first[keep or 1 :]
    if keep_days is not None:
        oldest = now - timedelta(days=keep_days)
        beyond = [name for name in beyond if taken_at(name) < oldest]
    return beyond[::-1]


def prune(
    store: Store,
    *,
    keep_days: float | None = None,
    keep: int | None = None,
    dry_run: bool = False,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> PruneReport:
    """Remove the snapshots that `find_outdated` names, and what killed ones left.

    Raises:
        ConfigurationError: see `find_outdated`.
        StoreError: the store failed; what was removed before stays removed.
    """
    found = list_names(store)
    going = find_outdated(found, keep_days=keep_days, keep=keep, now=now())
    leftovers = _abandoned(store, set(found), now() - _ABANDONED_AFTER)
    if not dry_run:
        for name in going:
            delete(store, name)
        for key in leftovers:
            store.delete(key)
    kept = tuple(name for name in found if name not in set(going))
    return PruneReport(tuple(going), kept, len(leftovers))


def delete(store: Store, name: str) -> None:
    """Remove one snapshot: its manifest first, so that no list shows half of one."""
    store.delete(manifest_key(name))
    for entry in list(store.entries(PARTS)):
        if _owner(entry.key) == name:
            store.delete(entry.key)


def taken_at(name: str) -> datetime:
    """When a snapshot was taken, by its name."""
    return datetime.strptime(name[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def _abandoned(store: Store, known: set[str], before: datetime) -> list[str]:
    return [
        entry.key
        for entry in store.entries(PARTS)
        if (owner := _owner(entry.key)) and owner not in known and taken_at(owner) < before
    ]


def _owner(key: str) -> str:
    name = key.removeprefix(PARTS).partition(".")[0]
    return name if NAME.fullmatch(name) else ""
