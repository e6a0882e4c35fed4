"""From the vault to files: the bytes that the server sent, nothing formatted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    outdated = [
        path
        for path, entry in manifest.entries.items()
        if path not in entries and (not wanted or entry.type in wanted)
    ]
    # Said before it is done, so that a killed unpacking is not taken for somebody's edits.
    manifest.pending = {path: entries[path] for path in changed}
    save(folder, manifest)
    for path in changed:
        stop.check()
        _write(vault, folder, path, entries[path])
    for path in outdated:
        (folder / path).unlink(missing_ok=True)
        del manifest.entries[path]
    manifest.entries.update(entries)
    manifest.pending = {}
    save(folder, manifest)
    return Unpacked(len(changed), len(entries) - len(changed), len(outdated))


def _write(vault: Vault, folder: Path, path: str, entry: Entry) -> None:
    # That very version, though a newer one may have come since.
    body = vault.contents.body(entry.type, entry.id, version=entry.version)
    target = folder / path
    target.parent.mkdir(exist_ok=True)
    write_whole(target, body.body)


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
