"""A vault's items as files, `{type}/{id}.json`, to read, compare and edit; and back again.

An id comes from outside and may be `../../x`, `model::name` or differ from another by case alone.
So in a file name lower-case letters, digits, `-` and `_` stand for themselves, as do dots within;
every other byte of the UTF-8 form becomes `%` and two lower-case digits. Names are ASCII and have
no capitals, so file systems that fold case or normalise Unicode keep them apart. What would be too
long ends in `~` and a hash; its id stands in the body.

Files hold the bytes that the server sent, nothing formatted. The manifest says which version of an
item each file is; a file that was edited becomes a new version when it is packed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from headrace.looker.content_types import TYPES
from headrace.looker.exceptions import FolderEdited, FolderForeign, ItemRefused
from headrace.looker.vault import Item, Status, Vault, VaultOfAnother, item_of
from headrace.stopping import STOP, StopEvent

SUFFIX = ".json"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")
#: Names that Windows keeps for devices, whatever follows the first dot.
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)")
_LONGEST = 200
_ENCODED = re.compile(r"(?:[a-z0-9_.-]|%[0-9a-f]{2})+")


def file_name(item_id: str) -> str:
    """The file name of an item, with its suffix."""
    raw = item_id.encode()
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in raw)
    if name.startswith("."):
        name = f"%2e{name[1:]}"
    if _DEVICES.match(name):
        name = f"%{raw[0]:02x}{name[1:]}"
    if len(name) > _LONGEST:
        name = f"{name[: _LONGEST - 65].rstrip('%')}~{hashlib.sha256(raw).hexdigest()}"
    return name + SUFFIX


def id_of_name(name: str) -> str | None:
    """The id that a file name stands for; None if the name alone does not say.

    Raises:
        ValueError: it is no name of ours.
    """
    stem = name.removesuffix(SUFFIX)
    if stem == name:
        raise ValueError(f"{name!r} does not end in {SUFFIX}")
    if "~" in stem:
        return None
    if not _ENCODED.fullmatch(stem):
        raise ValueError(f"{name!r} is not as `unpack` writes names")
    item_id = unquote_to_bytes(stem).decode()
    if file_name(item_id) != name:
        raise ValueError(f"{name!r} is not how `unpack` writes {item_id!r}")
    return item_id


MANIFEST_NAME = "headrace-vault.json"
_SCHEMA_VERSION = 1


class Entry(msgspec.Struct, frozen=True):
    """One file: the item, its version, and the SHA-256 of the bytes that were written."""

    type: str
    id: str
    version: int
    sha256: str


class _Saved(msgspec.Struct, frozen=True):
    schema_version: int
    source: str
    entries: dict[str, Entry]
    pending: dict[str, Entry] = {}


@dataclass
class Manifest:
    """The entries of a folder by their relative path, such as `look/5.json`.

    Attributes:
        source: base URL of the Looker whose content it is.
        pending: what an unpacking was about to write; it may have been killed before or after.
    """

    source: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    pending: dict[str, Entry] = field(default_factory=dict)


def load_manifest(folder: Path) -> Manifest | None:
    """The manifest of `folder`, with what a killed unpacking wrote; None if it has none.

    Raises:
        FolderForeign: it cannot be read.
    """
    path = folder / MANIFEST_NAME
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=_Saved)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FolderForeign(
            folder, f"{MANIFEST_NAME} cannot be read ({error})", hint="Unpack into a new folder"
        ) from error
    if saved.schema_version > _SCHEMA_VERSION:
        raise FolderForeign(
            folder,
            f"a newer headrace wrote {MANIFEST_NAME}",
            hint="Upgrade headrace, or unpack again",
        )
    written = {p: e for p, e in saved.pending.items() if sha256_of(folder / p) == e.sha256}
    return Manifest(saved.source, {**saved.entries, **written})


def save_manifest(folder: Path, manifest: Manifest) -> None:
    """Put the manifest into `folder`, as a whole."""
    saved: dict[str, Any] = {
        "schema_version": _SCHEMA_VERSION,
        "source": manifest.source,
        "entries": _plain(manifest.entries),
        "pending": _plain(manifest.pending),
    }
    write_whole(folder / MANIFEST_NAME, (json.dumps(saved, indent=1) + "\n").encode())


def _plain(entries: dict[str, Entry]) -> dict[str, Any]:
    return {path: msgspec.to_builtins(entry) for path, entry in sorted(entries.items())}


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that no reader sees half of it, and no link leads elsewhere."""
    draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with draft.open("xb") as file:
            file.write(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def sha256_of(path: Path) -> str | None:
    """SHA-256 of a file as hex; None if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class UnpackReport:
    """What became of the files: written, left since they were right, removed as outdated."""

    written: int
    unchanged: int
    removed: int


def unpack(
    vault: Vault,
    folder: Path,
    *,
    types: Iterable[str] = (),
    deleted: bool = False,
    force: bool = False,
    stop: StopEvent = STOP,
) -> UnpackReport:
    """Write the current version of every item to `{folder}/{type}/{id}.json`.

    What an earlier unpacking left there and the vault no longer shows is removed, unless it was
    edited.

    Args:
        vault: what to unpack.
        folder: made if missing; must be empty or the folder of an earlier unpacking.
        types: only these content types; what lies there of others stays.
        deleted: also what is deleted on the server.
        force: overwrite edits.
        stop: looked at before each file.

    Raises:
        FolderForeign: the folder holds something else.
        FolderEdited: it holds edits that were not packed.
        VaultDamaged: an item does not read; what was written before stays.
    """
    wanted = tuple(types)
    manifest = _prepared(folder, force=force)
    manifest.source = vault.source
    entries = {
        f"{row.type}/{file_name(row.id)}": Entry(row.type, row.id, row.version, row.hash.hex())
        for type_ in wanted or ("",)
        for row in vault.contents.rows(type_, deleted=deleted)
    }
    there = {path: sha256_of(folder / path) for path in {**manifest.entries, **entries}}
    edited = _edited(manifest, entries, there)
    if edited and not force:
        raise FolderEdited(folder, edited)
    changed = [path for path, entry in entries.items() if there[path] != entry.sha256]
    find_outdated = [
        path
        for path, entry in manifest.entries.items()
        if path not in entries and (not wanted or entry.type in wanted)
    ]
    # Said before it is done, so that a killed unpacking is not taken for edits.
    manifest.pending = {path: entries[path] for path in changed}
    save_manifest(folder, manifest)
    for path in changed:
        stop.check()
        _write(vault, folder, path, entries[path])
    for path in find_outdated:
        (folder / path).unlink(missing_ok=True)
        del manifest.entries[path]
    manifest.entries.update(entries)
    manifest.pending = {}
    save_manifest(folder, manifest)
    return UnpackReport(len(changed), len(entries) - len(changed), len(find_outdated))


def _write(vault: Vault, folder: Path, path: str, entry: Entry) -> None:
    # That very version, though a newer one may have come since.
    body = vault.contents.body(entry.type, entry.id, version=entry.version)
    target = folder / path
    target.parent.mkdir(exist_ok=True)
    write_whole(target, body.body)


def _prepared(folder: Path, *, force: bool) -> Manifest:
    if folder.exists() and not folder.is_dir():
        raise FolderForeign(folder, "it is not a folder", hint="Name a folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    manifest = load_manifest(folder)
    if manifest is None and any(folder.iterdir()) and not force:
        raise FolderForeign(
            folder,
            "it holds files that were not unpacked from a vault",
            hint="Name a new or an empty folder; --force writes beside what is there",
        )
    return manifest or Manifest()


def _edited(
    manifest: Manifest, entries: Mapping[str, Entry], there: Mapping[str, str | None]
) -> tuple[str, ...]:
    """Files that are there and are neither what was written nor what is to be written."""
    found = []
    for path, sha256 in there.items():
        written, wanted = manifest.entries.get(path), entries.get(path)
        known = {entry.sha256 for entry in (written, wanted) if entry is not None}
        if sha256 is not None and sha256 not in known:
            found.append(path)
    return tuple(sorted(found))


_ITEMS_AT_ONCE = 100


@dataclass
class PackReport:
    """What became of the files.

    Attributes:
        session: the vault's session that holds the new versions; None if there was nothing new.
        changed, new: items as TYPE ID.
        unchanged: how many files were as they had been unpacked.
        refused: path and reason of what was not taken; it stays as it is.
    """

    session: int | None = None
    changed: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    unchanged: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)


def pack(
    vault: Vault,
    folder: Path,
    *,
    types: Iterable[str] = (),
    dry_run: bool = False,
    force: bool = False,
) -> PackReport:
    """Take edited files of an unpacked folder into the vault as new versions.

    A file that is as it was unpacked is left out, however old; so a folder that was unpacked long
    ago does not bring old bodies back. An edit of a version that is not the current one any more is
    refused, since it was not made with a view of what came since.

    Args:
        vault: the vault it was unpacked from.
        folder: see `headrace.looker.folder.unpack`.
        types: only these content types.
        dry_run: say what would be taken, and take nothing.
        force: also take edits of outdated versions.

    Raises:
        FolderForeign: nothing was unpacked there.
        VaultOfAnother: it was unpacked from the vault of another Looker.
    """
    manifest = load_manifest(folder)
    if manifest is None:
        raise FolderForeign(
            folder,
            f"there is no {MANIFEST_NAME} in it",
            hint="Pack what `headrace looker unpack` wrote",
        )
    if manifest.source != vault.source:
        raise VaultOfAnother(vault.path, vault.source, manifest.source)
    packed = PackReport()
    batch: list[tuple[str, Item]] = []
    for path in _files(folder, tuple(types) or TYPES):
        sha256 = sha256_of(folder / path)
        entry = manifest.entries.get(path)
        if entry is not None and entry.sha256 == sha256:
            packed.unchanged += 1
            continue
        try:
            batch.append((path, _item(vault, folder, path, entry, force=force)))
        except (ItemRefused, ValueError, OSError) as error:
            packed.refused.append((path, _reason(error)))
    for _, item in batch:
        known = vault.contents.row(item.type, item.id)
        (packed.changed if known else packed.new).append(f"{item.type} {item.id}")
    if batch and not dry_run:
        packed.session = _store(vault, [item for _, item in batch])
        for path, item in batch:
            row = vault.contents.row(item.type, item.id)
            assert row is not None
            manifest.entries[path] = Entry(item.type, item.id, row.version, item.hash.hex())
        save_manifest(folder, manifest)
    return packed


def _files(folder: Path, types: tuple[str, ...]) -> Iterator[str]:
    for type_ in types:
        if (folder / type_).is_dir() and not (folder / type_).is_symlink():
            with os.scandir(folder / type_) as entries:
                names = sorted(e.name for e in entries if e.is_file(follow_symlinks=False))
            # Editors leave files of their own behind; they start with a dot or end otherwise.
            yield from (
                f"{type_}/{name}"
                for name in names
                if name.endswith(".json") and not name.startswith(".")
            )


def _item(vault: Vault, folder: Path, path: str, entry: Entry | None, *, force: bool) -> Item:
    type_, _, name = path.partition("/")
    body = (folder / path).read_bytes()
    item = item_of(type_, body, item_id=entry.id if entry else id_of_name(name))
    if file_name(item.id) != name:
        raise ValueError(f"its body says {item.id!r}, whose file is {file_name(item.id)}")
    row = vault.contents.row(type_, item.id)
    if row is not None and not force:
        if entry is None:
            raise ValueError("the vault has this item, and it was not unpacked here")
        if entry.version != row.version:
            raise ValueError(
                f"it is an edit of version {entry.version}, the vault has {row.version} by now"
            )
    return item


def _store(vault: Vault, items: list[Item]) -> int:
    session = vault.sessions.begin("pack")
    for at in range(0, len(items), _ITEMS_AT_ONCE):
        vault.upsert_many(session, items[at : at + _ITEMS_AT_ONCE], origin="pack")
    vault.sessions.end(session, Status.DONE, summary={"items": len(items)})
    return session


def _reason(error: Exception) -> str:
    if isinstance(error, ItemRefused):
        return error.reason
    return (isinstance(error, OSError) and error.strerror) or str(error)
