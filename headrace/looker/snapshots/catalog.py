"""Which snapshots a store holds: the manifest of each, with the checksum of every part."""

from __future__ import annotations

import re

import msgspec

from headrace.lake.exceptions import LakeUnusable, ObjectMissing, StoreError
from headrace.lake.opening import make_store
from headrace.lake.s3_settings import S3Settings
from headrace.lake.store import Store
from headrace.looker.exceptions import NoSuchSnapshot, SnapshotDamaged, SnapshotsUnusable
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


def names(store: Store) -> list[str]:
    """Names of the complete snapshots, newest first."""
    keys = (entry.key.removeprefix(FOLDER) for entry in store.entries(FOLDER))
    found = (key.removesuffix(SUFFIX) for key in keys if key.endswith(SUFFIX))
    return sorted((name for name in found if NAME.fullmatch(name)), reverse=True)


def listed(store: Store) -> list[Snapshot]:
    """The complete snapshots, newest first; a request for each.

    Raises:
        SnapshotDamaged: a manifest does not read.
        StoreError: the store failed.
    """
    found = []
    for name in names(store):
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
    known = names(store)
    wanted = known[0] if name == NEWEST and known else name
    if wanted not in known:
        raise NoSuchSnapshot(store.location, name, ", ".join(known[:10]) or "none at all")
    return _read(store, wanted)


def _read(store: Store, name: str) -> Snapshot:
    key = manifest_key(name)
    return parse(store.place(key), store.get(key))


def open_snapshots(
    location: str, *, s3: S3Settings | None = None, check: bool = False, stop: StopEvent = STOP
) -> Store:
    """The store at `location`, of the same kind as a lake's.

    Args:
        location: a folder, or s3://bucket/prefix.
        s3: how to reach S3; boto3's own configuration if left out.
        check: try to list, write and remove there first.
        stop: ends waits between attempts.

    Raises:
        SnapshotsUnusable: an unknown form, a file, no permission, no answer.
    """
    try:
        store = make_store(location, s3=s3, stop=stop)
        if check:
            store.check()
    except LakeUnusable as error:
        raise SnapshotsUnusable(location, error.reason, hint=error.hint) from error
    except StoreError as error:
        raise SnapshotsUnusable(location, error.message, hint=error.hint) from error
    return store
