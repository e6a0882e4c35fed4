"""Tiles of the symbols' trees in files: one per symbol and level, each tile at its place.

A file has no header: 40 bytes per tile, the hash and an XXH3-64 over symbol, level, number and
hash. What was never written, or torn by a loss of power, fails that check and counts as missing.
Writers need no lock: there is only one right content for each place.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

from xxhash import xxh3_64_intdigest

from headrace.sot.exceptions import StoreUnavailable

TILE_FOLDER: Final = "tree"
_PLACE: Final = struct.Struct("<IBQ")
_TILE: Final = struct.Struct("<32sQ")


class TileFiles:
    """The files `tree/SYMBOL.LEVEL` of a store.

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
            raise _unavailable(path, "reading", error) from error
        found: list[bytes | None] = [None] * count
        for place in range(len(stored) // _TILE.size):
            tile, check = _TILE.unpack_from(stored, place * _TILE.size)
            if check == _check(symbol_id, level, first + place, tile):
                found[place] = tile
        return found

    def write(self, symbol_id: int, level: int, number: int, tile: bytes) -> None:
        """See `SotStore.write_tile`."""
        path = self._path(symbol_id, level)
        stored = _TILE.pack(tile, _check(symbol_id, level, number, tile))
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
            raise _unavailable(path, "writing", error) from error

    def _path(self, symbol_id: int, level: int) -> Path:
        return self._folder / f"{symbol_id:010d}.{level}"


def _check(symbol_id: int, level: int, number: int, tile: bytes) -> int:
    check: int = xxh3_64_intdigest(_PLACE.pack(symbol_id, level, number) + tile)
    return check


def _unavailable(path: Path, action: str, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(str(path), action, error.strerror or str(error))
