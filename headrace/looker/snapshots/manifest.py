"""What a snapshot is: its name, what it holds, and the checksum of every part."""

from __future__ import annotations

import re

import msgspec

from headrace.looker.snapshots.exceptions import SnapshotDamaged

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
