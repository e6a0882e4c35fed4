"""`store.json`: what a folder of volumes is, decided when it is made and never changed."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Final

import msgspec
from xxhash import xxh3_64_hexdigest

from headrace.paths import publish_new
from headrace.sot.embedded.files import sync_folder, write_all
from headrace.sot.exceptions import DamagedLog, NewerLog, StoreMisconfigured, StoreUnavailable

FILE_NAME: Final = "store.json"
_VOLUME: Final = re.compile(r"volume-([0-9]{4})\.")
_KIND: Final = "headrace source-of-truth log"
_FORMAT: Final = 1
DEFAULT_VOLUMES: Final = 64
MAX_VOLUMES: Final = 4096


class StoreManifest(msgspec.Struct, frozen=True):
    """What is fixed for a store.

    Attributes:
        volumes: number of volumes; a symbol lies in volume `symbol_id % volumes`, for good.
    """

    kind: str
    format: int
    volumes: int


def load_or_make(folder: Path, volumes: int) -> StoreManifest:
    """The manifest of `folder`; made, with the folder, if there is none.

    Raises:
        DamagedLog, NewerLog: it is not what this version writes.
        StoreMisconfigured: the folder is a file, or holds something else.
    """
    path = folder / FILE_NAME
    try:
        if not path.exists():
            _make(folder, path, volumes)
        return _fitting(folder, _parsed(path, path.read_bytes()))
    except NotADirectoryError as error:
        raise StoreMisconfigured(str(folder), "it is not a folder") from error
    except OSError as error:
        raise StoreUnavailable(
            str(folder), "opening the store", error.strerror or str(error)
        ) from error


def load(folder: Path) -> StoreManifest | None:
    """The manifest of `folder`, None if there is no store.

    Raises:
        DamagedLog, NewerLog: it is not what this version writes, or is missing beside volumes.
    """
    path = folder / FILE_NAME
    try:
        return _fitting(folder, _parsed(path, path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        _refuse_orphans(folder, path)
        return None
    except OSError as error:
        raise StoreUnavailable(
            str(folder), "opening the store", error.strerror or str(error)
        ) from error


def _make(folder: Path, path: Path, volumes: int) -> None:
    if not 1 <= volumes <= MAX_VOLUMES:
        raise StoreMisconfigured(str(folder), f"{volumes} volumes; 1 to {MAX_VOLUMES} are possible")
    if folder.exists() and not folder.is_dir():
        raise StoreMisconfigured(str(folder), "it is not a folder")
    _refuse_orphans(folder, path)
    if folder.is_dir() and any(entry for entry in folder.iterdir() if entry.name[0] != "."):
        raise StoreMisconfigured(
            str(folder), "it holds other things", hint="Name an empty folder, or a new one"
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".{FILE_NAME}.{secrets.token_hex(8)}"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, memoryview(_content(StoreManifest(_KIND, _FORMAT, volumes))), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        publish_new(draft, path)  # unless another process was first
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(folder)
    sync_folder(folder.parent)


def _refuse_orphans(folder: Path, path: Path) -> None:
    if folder.is_dir() and any(entry.name.startswith("volume-") for entry in folder.iterdir()):
        raise _damaged(path, "it is missing, though there are volumes")


def _content(manifest: StoreManifest) -> bytes:
    fields = msgspec.json.encode(manifest)
    check = xxh3_64_hexdigest(fields)
    return fields[:-1] + f',"check":"{check}"}}\n'.encode()


def _parsed(path: Path, content: bytes) -> StoreManifest:
    try:
        manifest = msgspec.json.decode(content, type=StoreManifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error
    if content != _content(manifest) or manifest.kind != _KIND:
        raise _damaged(path, "it fails its check")
    if manifest.format > _FORMAT:
        raise NewerLog(str(path), manifest.format, _FORMAT)
    return manifest


def _fitting(folder: Path, manifest: StoreManifest) -> StoreManifest:
    """The manifest, unless it is another store's: symbols would be looked for in other volumes."""
    for number, name in list_volumes(folder):
        if number >= manifest.volumes:
            reason = f"it says {manifest.volumes} volumes, but there is {name}"
            raise _damaged(folder / FILE_NAME, reason)
    return manifest


def list_volumes(folder: Path) -> list[tuple[int, str]]:
    """Number and name of every volume's file and of every tip in the folder.

    Raises:
        OSError: the folder cannot be listed (`Path.glob` would find nothing in it then).
    """
    names = [_VOLUME.match(name) for name in sorted(entry.name for entry in folder.iterdir())]
    return [(int(name[1]), name.string) for name in names if name]


def _damaged(path: Path, reason: str) -> DamagedLog:
    return DamagedLog(str(path), reason, hint="Put the file back from a copy of the store")
