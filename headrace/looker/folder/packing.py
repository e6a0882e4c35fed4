"""From edited files back to the vault: what was edited becomes a new version of its item."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headrace.looker.content import TYPES
from headrace.looker.exceptions import ItemRefused
from headrace.looker.folder.exceptions import FolderForeign
from headrace.looker.folder.manifest import FILE_NAME, Entry, load, save, sha256_of
from headrace.looker.folder.names import file_name, id_of_name
from headrace.looker.vault import Item, Status, Vault, VaultOfAnother, item_of

_AT_ONCE = 100


@dataclass
class Packed:
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
) -> Packed:
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
    manifest = load(folder)
    if manifest is None:
        raise FolderForeign(
            folder, f"there is no {FILE_NAME} in it", "Pack what `headrace looker unpack` wrote"
        )
    if manifest.source != vault.source:
        raise VaultOfAnother(vault.path, vault.source, manifest.source)
    packed = Packed()
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
        save(folder, manifest)
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
    for at in range(0, len(items), _AT_ONCE):
        vault.upsert_many(session, items[at : at + _AT_ONCE], origin="pack")
    vault.sessions.end(session, Status.DONE, summary={"items": len(items)})
    return session


def _reason(error: Exception) -> str:
    if isinstance(error, ItemRefused):
        return error.reason
    return (isinstance(error, OSError) and error.strerror) or str(error)
