"""The tree of one symbol: its root at any size, and proofs, from tiles and a few blocks.

A size is a number of records, from the chain's beginning. A leaf has up to `GROUP` digests, so a
size has `ceil(size / GROUP)` leaves, and only the last one may have fewer.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

from headrace.errors import ConfigurationError
from headrace.evidence.merkle import inclusion_path, node_hash, perfect_root, root_of
from headrace.sot.chain import DIGEST_BYTES, genesis
from headrace.sot.exceptions import StoreUnavailable
from headrace.sot.reading import NoSuchRecord, head_of, read_frames
from headrace.sot.store import SotStore
from headrace.sot.tree.tiles import (
    FAN,
    GROUP,
    TILE_RECORDS,
    digests_of,
    keep_tile,
    leaves_of,
    tile_of,
)

INCLUSION: Final = "headrace.sot.inclusion.v1"
CONSISTENCY: Final = "headrace.sot.consistency.v1"
_FAN_BITS: Final = FAN.bit_length() - 1


class NoSuchSize(ConfigurationError):
    """A size that a symbol's tree does not have (exit code 2)."""

    def __init__(self, where: str, symbol_id: int, size: int, has: int) -> None:
        super().__init__(
            f"the tree of symbol {symbol_id} in {where} never had {size} records",
            hint=f"It has {has}",
        )
        self.symbol_id = symbol_id
        self.size = size


@dataclass(frozen=True, slots=True)
class Inclusion:
    """That a record is part of a tree.

    Attributes:
        symbol_id, first_seq, seq: the record, and where its chain begins.
        size, root: the tree.
        before: the digest in front of the record.
        digests: all of the record's leaf, as they are in a tree of that size.
        path: siblings of the leaf, from below.
    """

    symbol_id: int
    first_seq: int
    seq: int
    size: int
    root: bytes
    before: bytes
    digests: bytes
    path: tuple[bytes, ...]

    def as_dict(self) -> dict[str, Any]:
        """Its JSON form; hashes of one field one after the other, in base64."""
        return {
            "type": INCLUSION,
            "symbol": self.symbol_id,
            "first_seq": str(self.first_seq),
            "seq": str(self.seq),
            "size": str(self.size),
            "root": _text(self.root),
            "before": _text(self.before),
            "digests": _text(self.digests),
            "path": _text(b"".join(self.path)),
        }


@dataclass(frozen=True, slots=True)
class Consistency:
    """That the tree of one size is the beginning of the tree of another.

    Attributes:
        symbol_id, first_seq: whose trees.
        from_size, from_root, to_size, to_root: both trees.
        digests: of the leaf that holds record number `from_size`, as the larger tree has it; empty
            where both trees are the same.
        path: siblings of that leaf in the larger tree, from below.
    """

    symbol_id: int
    first_seq: int
    from_size: int
    from_root: bytes
    to_size: int
    to_root: bytes
    digests: bytes
    path: tuple[bytes, ...]

    def as_dict(self) -> dict[str, Any]:
        """Its JSON form."""
        return {
            "type": CONSISTENCY,
            "symbol": self.symbol_id,
            "first_seq": str(self.first_seq),
            "from_size": str(self.from_size),
            "from_root": _text(self.from_root),
            "to_size": str(self.to_size),
            "to_root": _text(self.to_root),
            "digests": _text(self.digests),
            "path": _text(b"".join(self.path)),
        }


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


class SymbolTree:
    """The tree of one symbol as its store has it now.

    Tiles that are missing are computed from the chain, and kept.

    Raises:
        NoSuchRecord: the log does not have the symbol.
        DamagedLog: a method met records that cannot be read.
    """

    def __init__(self, store: SotStore, symbol_id: int) -> None:
        self._store = store
        self._head = head_of(store, symbol_id)
        self.symbol_id = symbol_id
        self.first_seq = self._head.first_seq
        self.size = self._head.position.next_seq - self.first_seq
        #: Of the tiles used last: digests by number, roots by level and run of `FAN`.
        self._digests: dict[int, bytes] = {}
        self._runs: dict[tuple[int, int], list[bytes | None]] = {}

    def root(self, size: int | None = None) -> bytes:
        """The root over the first `size` records; all of them if left out.

        Raises:
            NoSuchSize: the chain has fewer.
        """
        size = self._checked(self.size if size is None else size)
        return root_of(_leaves(size), _Sized(self, size).subtree)

    def inclusion(self, seq: int, size: int | None = None) -> Inclusion:
        """The proof that a record is part of the tree of that size.

        Raises:
            NoSuchRecord: that tree does not have the record.
            NoSuchSize: the chain has fewer records.
        """
        size = self._checked(self.size if size is None else size)
        index = seq - self.first_seq
        if not 0 <= index < size:
            has = f"seq {self.first_seq} to {self.first_seq + size - 1}" if size else "none yet"
            raise NoSuchRecord(self._store.location, self.symbol_id, seq, has)
        sized = _Sized(self, size)
        leaf = index // GROUP
        return Inclusion(
            self.symbol_id,
            self.first_seq,
            seq,
            size,
            root_of(_leaves(size), sized.subtree),
            self._digest_before(index),
            self._group(leaf, size),
            tuple(inclusion_path(leaf, _leaves(size), sized.subtree)),
        )

    def consistency(self, from_size: int, to_size: int | None = None) -> Consistency:
        """The proof that the tree of `from_size` is the beginning of that of `to_size`.

        Raises:
            NoSuchSize: the chain has fewer records.
            ConfigurationError: the sizes fall.
        """
        to_size = self._checked(self.size if to_size is None else to_size)
        if from_size > to_size:
            raise ConfigurationError(
                f"the log of {from_size} records did not grow into one of {to_size}",
                hint="Name the smaller size first",
            )
        if from_size < 0:
            raise NoSuchSize(self._store.location, self.symbol_id, from_size, to_size)
        digests = b""
        path: tuple[bytes, ...] = ()
        larger = _Sized(self, to_size)
        if from_size < to_size:
            leaf = from_size // GROUP
            digests = self._group(leaf, to_size)
            path = tuple(inclusion_path(leaf, _leaves(to_size), larger.subtree))
        return Consistency(
            self.symbol_id,
            self.first_seq,
            from_size,
            self.root(from_size),
            to_size,
            root_of(_leaves(to_size), larger.subtree),
            digests,
            path,
        )

    def frame(self, seq: int) -> bytes:
        """The frame of a record, which a proof of inclusion is about."""
        return b"".join(read_frames(self._store, self.symbol_id, seq, seq))

    def tile_digests(self, number: int, size: int) -> bytes:
        """The digests of a tile of level 1, those before `size`."""
        have = min(TILE_RECORDS, self.size - number * TILE_RECORDS)
        known = self._digests.get(number)
        if known is None:
            if len(self._digests) >= 4:
                self._digests.pop(next(iter(self._digests)))
            known = digests_of(
                self._store, self.symbol_id, self.first_seq, number * TILE_RECORDS, have
            )
            self._digests[number] = known
        return known[: max(0, size - number * TILE_RECORDS) * DIGEST_BYTES]

    def tile(self, level: int, number: int) -> bytes:
        """A whole tile, kept or computed."""
        run = self._run(level, number // FAN)
        tile = run[number % FAN]
        if tile is None:
            tile = self._computed(level, number)
            run[number % FAN] = tile
        return tile

    def _run(self, level: int, number: int) -> list[bytes | None]:
        run = self._runs.get((level, number))
        if run is None:
            run = self._store.read_tiles(self.symbol_id, level, number * FAN, FAN)
            self._runs[level, number] = run
        return run

    def _computed(self, level: int, number: int) -> bytes:
        if level > 1:
            root = perfect_root([self.tile(level - 1, number * FAN + at) for at in range(FAN)])
        else:
            root = tile_of(self._store, self.symbol_id, self.first_seq, number)
        try:
            if level > 1:
                self._store.write_tile(self.symbol_id, level, number, root)
            else:
                keep_tile(self._store, self.symbol_id, number, root)
        except StoreUnavailable:
            return root  # a log that may only be read; the next proof computes it again
        return root

    def _group(self, leaf: int, size: int) -> bytes:
        """The digests of a leaf as a tree of that size has them."""
        tile, place = divmod(leaf * GROUP, TILE_RECORDS)
        at = place * DIGEST_BYTES
        return self.tile_digests(tile, size)[at : at + GROUP * DIGEST_BYTES]

    def _digest_before(self, index: int) -> bytes:
        seq = self.first_seq + index
        if index % TILE_RECORDS:
            at = index % TILE_RECORDS * DIGEST_BYTES
            return self.tile_digests(index // TILE_RECORDS, index)[at - DIGEST_BYTES : at]
        if not index:
            return genesis(self.symbol_id, seq).digest
        return digests_of(self._store, self.symbol_id, self.first_seq, index - 1, 1)

    def _checked(self, size: int) -> int:
        if not 0 <= size <= self.size:
            raise NoSuchSize(self._store.location, self.symbol_id, size, self.size)
        return size


class _Sized:
    """The perfect subtrees of the tree of one size."""

    def __init__(self, tree: SymbolTree, size: int) -> None:
        self._tree = tree
        self._size = size
        self._leaves: dict[int, list[bytes]] = {}

    def subtree(self, level: int, index: int) -> bytes:
        """The hash over 2**level leaves; see `headrace.evidence.merkle.Subtrees`."""
        if (
            level >= _FAN_BITS
            and self._size % GROUP
            and (index + 1) << level == _leaves(self._size)
        ):
            # Its last leaf has fewer digests than in the tiles of the records that followed.
            return node_hash(
                self.subtree(level - 1, 2 * index), self.subtree(level - 1, 2 * index + 1)
            )
        if level >= _FAN_BITS:
            tile_level, rest = divmod(level, _FAN_BITS)
            first = index << rest
            return perfect_root(
                [self._tree.tile(tile_level, first + at) for at in range(1 << rest)]
            )
        number, place = divmod(index << level, FAN)
        leaves = self._leaves.get(number)
        if leaves is None:
            leaves = self._leaves[number] = leaves_of(self._tree.tile_digests(number, self._size))
        return perfect_root(leaves[place : place + (1 << level)])


def _leaves(size: int) -> int:
    return -(-size // GROUP)
