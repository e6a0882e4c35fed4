"""From the vault to files: the bytes that the server sent, nothing formatted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.looker.folder.exceptions import FolderEdited, FolderForeign
from headrace.looker.folder.manifest import Entry, Manifest, load, save, sha256_of, write_whole
from headrace.looker.folder.names import file_name
from headrace.looker.vault import Vault
from headrace.stopping import STOP, StopEvent


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What became of the files: written anew, left since they were right, removed as outdated."""

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
) -> Unpacked:
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
    edited = _edited(folder, manifest)
    if edited and not force:
        raise FolderEdited(folder, edited)
    manifest.source = vault.source
    before, written, unchanged = dict(manifest.entries), 0, 0
    try:
        for type_ in wanted or ("",):
            for row in vault.contents.rows(type_, deleted=deleted):
                stop.check()
                path = f"{row.type}/{file_name(row.id)}"
                entry = Entry(row.type, row.id, row.version, row.hash.hex())
                old = before.pop(path, None)
                if old is not None and old.sha256 == entry.sha256 and path not in edited:
                    unchanged += 1
                else:
                    # The current version may have changed since the row was read.
                    body = vault.contents.body(row.type, row.id)
                    entry = Entry(row.type, row.id, body.version, body.hash.hex())
                    target = folder / path
                    target.parent.mkdir(exist_ok=True)
                    write_whole(target, body.body)
                    written += 1
                manifest.entries[path] = entry
        outdated = [p for p, e in before.items() if not wanted or e.type in wanted]
        for path in outdated:
            (folder / path).unlink(missing_ok=True)
            del manifest.entries[path]
    finally:
        save(folder, manifest)
    return Unpacked(written, unchanged, len(outdated))


def _prepared(folder: Path, *, force: bool) -> Manifest:
    if folder.exists() and not folder.is_dir():
        raise FolderForeign(folder, "it is not a folder", "Name a folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    manifest = load(folder)
    if manifest is None and any(folder.iterdir()) and not force:
        raise FolderForeign(
            folder,
            "it holds files that were not unpacked from a vault",
            "Name a new or an empty folder; --force writes beside what is there",
        )
    return manifest or Manifest()


def _edited(folder: Path, manifest: Manifest) -> tuple[str, ...]:
    """Files that are there and are not what was written. A missing one is no edit."""
    return tuple(
        path
        for path, entry in manifest.entries.items()
        if sha256_of(folder / path) not in (None, entry.sha256)
    )
