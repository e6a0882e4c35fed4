"""The files of a store: its manifest, volumes and their tips written whole, tiles of its trees.

`store.json` says what a folder of volumes is, decided when it is made and never changed.

A log alone cannot show that its end is missing. The tip is a small file beside it; it names every
symbol's head, so that what is missing can be named. A writer replaces it when it closes the volume,
and before that whenever `TIP_EVERY_ENTRIES` entries have been appended since. What a writer that
was killed has appended since then no tip knows.
"""

from __future__ import annotations

import os
import re
import secrets
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest

from headrace.atomic_files import put_whole, sync_folder, write_new
from headrace.sot.embedded.entries import FORMAT, TornTail
from headrace.sot.exceptions import DamagedLog, NewerLog, StoreMisconfigured, StoreUnavailable

_NAME: Final = b"HRSOTVOL"
_CHECK_BYTES: Final = 8
#: What stands in front of a volume's first entry.
PREAMBLE_BYTES: Final = len(_NAME) + 8 + _CHECK_BYTES
_FORMAT_AT: Final = slice(12, 16)


def preamble(number: int, format_: int = FORMAT) -> bytes:
    """The first bytes of a volume: its name, its number, the format, a check."""
    fields = _NAME + number.to_bytes(4, "little") + format_.to_bytes(4, "little")
    return fields + xxh3_64_intdigest(fields).to_bytes(_CHECK_BYTES, "little")


def newer_format(found: bytes, number: int) -> int | None:
    """The format of a preamble that is sound but later than ours; None for any other."""
    format_ = int.from_bytes(found[_FORMAT_AT], "little")
    return format_ if format_ > FORMAT and found == preamble(number, format_) else None


def create_volume(path: Path, number: int) -> None:
    """Let the file appear with its preamble: an empty one could not be distinguished from damage.

    Raises:
        OSError: the disk does not take it.
    """
    put_whole(path, preamble(number), replace=False)  # unless another process was first


def copy_out(descriptor: int, torn: TornTail, copy: Path) -> None:
    """Keep a torn tail in a file of its own."""
    write_new(copy, os.pread(descriptor, torn.size_bytes, torn.offset))


#: A tip costs two fsyncs, of the file and of the folder; this often they cannot be felt.
TIP_EVERY_ENTRIES: Final = 4096


class _Tip(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size_bytes: int
    entries: int
    last_check: str
    heads: tuple[tuple[int, str], ...]


_TIP = msgspec.json.Decoder(_Tip)


@dataclass(frozen=True, slots=True)
class Tip:
    """The end of a volume at some moment.

    Attributes:
        size_bytes, entries, last_check: the file up to there.
        heads: `next_seq` of every symbol that had a chain.
    """

    size_bytes: int
    entries: int
    last_check: int
    heads: dict[int, int]


def write_tip(path: Path, tip: Tip) -> None:
    """Replace the tip as a whole; durable when it returns.

    Raises:
        OSError: if the disk does not take it.
    """
    heads = tuple((symbol, str(next_seq)) for symbol, next_seq in sorted(tip.heads.items()))
    body = msgspec.json.encode(_Tip(tip.size_bytes, tip.entries, f"{tip.last_check:016x}", heads))
    put_whole(path, xxh3_64_hexdigest(body).encode() + b" " + body + b"\n", replace=True)


def read_tip(path: Path) -> Tip | None:
    """The tip, None if there is none yet.

    Raises:
        DamagedLog: if it is not what was written.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise _damaged_tip(path, "it is a folder") from None
    body = content[17:-1]
    if content != xxh3_64_hexdigest(body).encode() + b" " + body + b"\n":
        raise _damaged_tip(path, "it fails its check")
    try:
        tip = _TIP.decode(body)
        heads = {symbol: int(next_seq) for symbol, next_seq in tip.heads}
        return Tip(tip.size_bytes, tip.entries, int(tip.last_check, 16), heads)
    except (msgspec.DecodeError, ValueError) as error:
        raise _damaged_tip(path, str(error)) from error


def _damaged_tip(path: Path, reason: str) -> DamagedLog:
    return DamagedLog(
        str(path),
        reason,
        hint="It says how far the volume beside it went; once that is verified (headrace sot "
        "verify), this file may be removed, and the next run writes a new one",
    )


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
        raise unavailable(folder, "opening the store", error) from error


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
        raise unavailable(folder, "opening the store", error) from error


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
    manifest = StoreManifest(_KIND, _FORMAT, volumes)
    put_whole(path, _content(manifest), replace=False)  # unless another process was first
    sync_folder(folder.parent)


def _refuse_orphans(folder: Path, path: Path) -> None:
    if folder.is_dir() and any(entry.name.startswith("volume-") for entry in folder.iterdir()):
        raise _damaged(path, "it is missing, though there are volumes")


def _content(manifest: StoreManifest) -> bytes:
    fields = msgspec.json.encode(manifest)
    check = xxh3_64_hexdigest(fields)
    return fields[:-1] + f',"check":"{check}"}}\n'.encode()


#: Made here: two threads that meet a type for the first time at once crash in msgspec.
_MANIFEST = msgspec.json.Decoder(StoreManifest)


def _parsed(path: Path, content: bytes) -> StoreManifest:
    try:
        manifest = _MANIFEST.decode(content)
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


_ID: Final = re.compile(rb"[0-9a-f]{32}\n")


def store_id(folder: Path) -> str:
    """The id in `store.id`, made if there is none.

    Raises:
        DamagedLog: it holds something else.
        StoreUnavailable: it cannot be read or made.
    """
    path = folder / "store.id"
    try:
        if not path.exists():
            put_whole(path, secrets.token_hex(16).encode() + b"\n", replace=False)
        found = path.read_bytes()
    except OSError as error:
        raise StoreUnavailable(str(path), "naming the log", error.strerror or str(error)) from error
    if not _ID.fullmatch(found):
        raise _damaged(path, "it holds no id")
    return found.decode().strip()


def _damaged(path: Path, reason: str) -> DamagedLog:
    return DamagedLog(str(path), reason, hint="Put the file back from a copy of the store")


TILE_FOLDER: Final = "tree"
_PLACE: Final = struct.Struct("<IBQ")
_TILE: Final = struct.Struct("<32sQ")


class TileFiles:
    """The files `tree/SYMBOL.LEVEL` of a store: one per symbol and level, each tile at its place.

    A file has no header: 40 bytes per tile, the hash and an XXH3-64 over symbol, level, number and
    hash. What was never written, or torn by a loss of power, fails that check and counts as
    missing. Writers need no lock: there is only one right content for each place.

    Args:
        folder: made with the first tile.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, symbol_id: int, level: int, first: int, count: int) -> list[bytes | None]:
        """See `SotStore.read_tiles`."""
        path = self._path(symbol_id, level)
        try:
            with path.open("rb", buffering=0) as file:
                stored = os.pread(file.fileno(), count * _TILE.size, first * _TILE.size)
        except FileNotFoundError:
            return [None] * count
        except OSError as error:
            raise unavailable(path, "reading", error) from error
        found: list[bytes | None] = [None] * count
        for place in range(len(stored) // _TILE.size):
            tile, check = _TILE.unpack_from(stored, place * _TILE.size)
            if check == _tile_check(symbol_id, level, first + place, tile):
                found[place] = tile
        return found

    def write(self, symbol_id: int, level: int, number: int, tile: bytes) -> None:
        """See `SotStore.write_tile`."""
        path = self._path(symbol_id, level)
        stored = _TILE.pack(tile, _tile_check(symbol_id, level, number, tile))
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        try:
            try:
                descriptor = os.open(path, flags, 0o600)
            except FileNotFoundError:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                descriptor = os.open(path, flags, 0o600)
            try:
                os.pwrite(descriptor, stored, number * _TILE.size)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise unavailable(path, "writing", error) from error

    def _path(self, symbol_id: int, level: int) -> Path:
        return self._folder / f"{symbol_id:010d}.{level}"


def _tile_check(symbol_id: int, level: int, number: int, tile: bytes) -> int:
    check: int = xxh3_64_intdigest(_PLACE.pack(symbol_id, level, number) + tile)
    return check


def unavailable(path: Path, action: str, error: OSError) -> StoreUnavailable:
    """What the system says of a file or folder, as an error of the store."""
    return StoreUnavailable(str(path), action, error.strerror or str(error))
