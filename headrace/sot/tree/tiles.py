"""Tiles: hashes of perfect subtrees of a symbol's tree, kept so that a proof reads little.

A leaf is `GROUP` consecutive digests of the chain (the last one may have fewer), one after the
other. One digest per leaf would cost a write a fifth of its rate, see the decision record.

The tile of level 1 and number t is the root over leaves 256 t to 256 t + 255, that of level n + 1
the root over 256 tiles of level n. Tiles are derived from the chain: they are written after their
records are durable, without waiting for the disk, and one that is missing is computed again.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Final

from headrace.errors import HeadraceError
from headrace.evidence.merkle import perfect_root
from headrace.sot.chain import DIGEST_BYTES, Position, follow
from headrace.sot.exceptions import DamagedLog, StoreUnavailable
from headrace.sot.store import Head, SotStore
from headrace.sot.verified_chain import position_before

log = logging.getLogger(__name__)

#: Digests per leaf.
GROUP: Final = 16
#: Leaves per tile of level 1, and tiles per tile of the level above.
FAN: Final = 256
TILE_RECORDS: Final = GROUP * FAN
_GROUP_BYTES: Final = GROUP * DIGEST_BYTES


def leaves_of(digests: bytes) -> list[bytes]:
    """The leaf hashes of consecutive digests, of which the first begins a leaf."""
    sha256 = hashlib.sha256  # `leaf_hash`, without a call for each
    return [
        sha256(b"\0" + digests[at : at + _GROUP_BYTES]).digest()
        for at in range(0, len(digests), _GROUP_BYTES)
    ]


class TileBuilder:
    """Makes tiles of level 1 out of the digests of a chain, as they come.

    Args:
        index: of the first record that will be added, from 0 at the chain's beginning.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self._digests = b""
        #: Hashes of the leaves of the tile under way; None where its beginning was not seen.
        self._leaves: list[bytes] | None = None if index % TILE_RECORDS else []

    def add(self, digests: bytes) -> list[tuple[int, bytes | None]]:
        """Take in the digests of the next records, one after the other.

        Returns:
            Number and root of each tile that is complete by that; None as the root of one whose
            beginning was not seen.
        """
        done: list[tuple[int, bytes | None]] = []
        at = 0
        while at < len(digests):
            left = (TILE_RECORDS - self.index % TILE_RECORDS) * DIGEST_BYTES
            part = digests[at : at + left]
            at += len(part)
            self.index += len(part) // DIGEST_BYTES
            if self._leaves is not None:
                part = self._digests + part
                whole = len(part) - len(part) % _GROUP_BYTES
                self._digests = part[whole:]
                self._leaves += leaves_of(part[:whole])
            if not self.index % TILE_RECORDS:
                root = None if self._leaves is None else perfect_root(self._leaves)
                done.append((self.index // TILE_RECORDS - 1, root))
                self._leaves = []
        return done


class TileWriter:
    """Keeps the tiles of one symbol up to date while its chain grows.

    A tile that cannot be written or computed is left out, with a warning: nothing depends on it but
    how fast a proof is made.
    """

    def __init__(self, store: SotStore, symbol_id: int, first_seq: int, next_seq: int) -> None:
        self._store = store
        self._symbol_id = symbol_id
        self._first_seq = first_seq
        self._builder = TileBuilder(next_seq - first_seq)

    def add(self, next_seq: int, digests: bytes) -> None:
        """These records are stored; the first one has the sequence `next_seq`."""
        if next_seq - self._first_seq != self._builder.index:
            self._builder = TileBuilder(next_seq - self._first_seq)
        for number, root in self._builder.add(digests):
            try:
                if root is None:
                    root = tile_of(self._store, self._symbol_id, self._first_seq, number)
                keep_tile(self._store, self._symbol_id, number, root)
            except HeadraceError as error:
                log.warning(
                    "symbol %s: tile %s of its tree is not kept: %s", self._symbol_id, number, error
                )


def keep_tile(store: SotStore, symbol_id: int, number: int, root: bytes) -> None:
    """Keep a tile of level 1, and those above it that it completes."""
    level = 1
    while True:
        store.write_tile(symbol_id, level, number, root)
        if (number + 1) % FAN:
            return
        below = store.read_tiles(symbol_id, level, number + 1 - FAN, FAN)
        if None in below:
            return
        root = perfect_root([tile for tile in below if tile is not None])
        level, number = level + 1, number // FAN


def check_tile(
    store: SotStore, symbol_id: int, first_seq: int, level: int, number: int, root: bytes
) -> DamagedLog | None:
    """What is wrong with the tile that is kept, given what it has to be; a missing one is kept."""
    [kept] = store.read_tiles(symbol_id, level, number, 1)
    if kept == root:
        return None
    if kept is None:
        try:
            store.write_tile(symbol_id, level, number, root)
        except StoreUnavailable as error:
            log.warning("a tile of the tree of symbol %s is not kept: %s", symbol_id, error)
        return None
    records = TILE_RECORDS * FAN ** (level - 1)
    seq = first_seq + number * records
    return DamagedLog(
        store.location,
        f"tile {number} of level {level} of its tree is not that of its records: the tile was "
        "changed, or they were",
        symbol_id=symbol_id,
        seq=seq,
        last_seq=seq + records - 1,
        hint="Hold the log against its anchors; if it fits, remove the tiles: they are made again",
    )


def check_upper_tiles(store: SotStore, head: Head) -> DamagedLog | None:
    """What is wrong with the tiles above level 1, given those below each."""
    tiles = (head.position.next_seq - head.first_seq) // TILE_RECORDS // FAN
    level = 2
    while tiles:
        for number in range(tiles):
            below = store.read_tiles(head.symbol_id, level - 1, number * FAN, FAN)
            whole = [tile for tile in below if tile is not None]
            if len(whole) < FAN:
                continue  # of a part of the chain that was not looked at
            root = perfect_root(whole)
            damage = check_tile(store, head.symbol_id, head.first_seq, level, number, root)
            if damage is not None:
                return damage
        tiles, level = tiles // FAN, level + 1
    return None


def tile_of(store: SotStore, symbol_id: int, first_seq: int, number: int) -> bytes:
    """A tile of level 1, computed from the chain.

    Raises:
        DamagedLog: its records cannot be read.
    """
    digests = digests_of(store, symbol_id, first_seq, number * TILE_RECORDS, TILE_RECORDS)
    return perfect_root(leaves_of(digests))


def digests_of(store: SotStore, symbol_id: int, first_seq: int, index: int, count: int) -> bytes:
    """The digests of records that a chain has, recomputed from their content.

    Args:
        store: where the chain is.
        symbol_id: whose it is.
        first_seq: where it begins.
        index: of the first record, from 0.
        count: how many.

    Raises:
        DamagedLog: one of them is not there, or is not what the chain says.
    """
    if not count:
        return b""
    seq = first_seq + index
    found: list[bytes] = []
    position: Position | None = None
    for block in store.scan(symbol_id, from_seq=seq, to_seq=seq + count - 1):
        if position is None:
            position = position_before(store, block, first_seq)
        wanted = seq + count - position.next_seq
        followed = follow(block.frames, 0, symbol_id, position, max_records=wanted)
        found.append(followed.digests)
        position = followed.position
        if followed.error is not None or position.next_seq < min(
            block.first_seq + block.count, seq + count
        ):
            reason = followed.error.message if followed.error else "another record is there"
            raise DamagedLog(
                block.where, reason, symbol_id=symbol_id, seq=followed.position.next_seq
            )
        if position.next_seq >= seq + count:
            break
    digests = b"".join(found)[-count * DIGEST_BYTES :]
    if position is None or len(digests) != count * DIGEST_BYTES:
        raise DamagedLog(store.location, "records are missing", symbol_id=symbol_id, seq=seq)
    return digests
