"""What was unpacked into a folder: which version of what, so that edits can be told from age."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from headrace.looker.folder.exceptions import FolderForeign

FILE_NAME = "headrace-vault.json"
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


def load(folder: Path) -> Manifest | None:
    """The manifest of `folder`, with what a killed unpacking wrote; None if it has none.

    Raises:
        FolderForeign: it cannot be read.
    """
    path = folder / FILE_NAME
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=_Saved)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FolderForeign(
            folder, f"{FILE_NAME} cannot be read ({error})", "Unpack into a new folder"
        ) from error
    if saved.schema_version > _SCHEMA_VERSION:
        raise FolderForeign(
            folder, f"a newer headrace wrote {FILE_NAME}", "Upgrade headrace, or unpack anew"
        )
    written = {p: e for p, e in saved.pending.items() if sha256_of(folder / p) == e.sha256}
    return Manifest(saved.source, {**saved.entries, **written})


def save(folder: Path, manifest: Manifest) -> None:
    """Put the manifest into `folder`, as a whole."""
    saved: dict[str, Any] = {
        "schema_version": _SCHEMA_VERSION,
        "source": manifest.source,
        "entries": _plain(manifest.entries),
        "pending": _plain(manifest.pending),
    }
    write_whole(folder / FILE_NAME, (json.dumps(saved, indent=1) + "\n").encode())


def _plain(entries: dict[str, Entry]) -> dict[str, Any]:
    return {path: msgspec.to_builtins(entry) for path, entry in sorted(entries.items())}


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that nobody sees half of it, and no link leads elsewhere."""
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
