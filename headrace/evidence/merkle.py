"""Merkle trees as in RFC 6962: leaves and nodes are hashed apart, and every size has its own root.

A tree is known by the hashes of its perfect subtrees, kept or computed elsewhere: `Subtrees`.
With D[lo:hi] the leaves lo to hi - 1, and k the largest power of two below hi - lo:

    MTH(D[lo:lo+1]) = SHA-256(00 | D[lo])
    MTH(D[lo:hi])   = SHA-256(01 | MTH(D[lo:lo+k]) | MTH(D[lo+k:hi]))

The root of no leaf at all is SHA-256 of nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = hashlib.sha256().digest()

#: The hash of the perfect subtree of 2**level leaves that begins with leaf index * 2**level.
Subtrees = Callable[[int, int], bytes]


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf."""
    return hashlib.sha256(b"\0" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(b"\1" + left + right).digest()


def root_of(size: int, subtrees: Subtrees) -> bytes:
    """The root over the first `size` leaves."""
    return _range_hash(0, size, subtrees) if size else EMPTY_ROOT


def inclusion_path(index: int, size: int, subtrees: Subtrees) -> list[bytes]:
    """The siblings from a leaf up to the root over the first `size` leaves.

    Raises:
        ValueError: the tree has no such leaf.
    """
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has no leaf {index}")
    path: list[bytes] = []
    low, high = 0, size
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(_range_hash(middle, high, subtrees))
            high = middle
        else:
            path.append(_range_hash(low, middle, subtrees))
            low = middle
    path.reverse()
    return path


def root_from_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root to which a leaf's path leads; None if the path has a wrong length (RFC 9162, 2.1.3).

    Args:
        leaf: its hash.
        index: its place.
        size: leaves of the tree.
        path: siblings, from the leaf up.
    """
    found = leaf
    siblings = iter(path)
    last = size - 1
    while last:
        if index & 1 or index < last:
            sibling = next(siblings, None)
            if sibling is None:
                return None
            found = node_hash(sibling, found) if index & 1 else node_hash(found, sibling)
        index >>= 1
        last >>= 1
    return found if next(siblings, None) is None else None


def left_siblings(index: int, size: int, path: Sequence[bytes]) -> list[bytes]:
    """Those siblings of a path that lie before its leaf: subtrees of all that precedes it."""
    left: list[bytes] = []
    siblings = iter(path)
    last = size - 1
    while last:
        if index & 1 or index < last:
            sibling = next(siblings, b"")
            if index & 1:
                left.append(sibling)
        index >>= 1
        last >>= 1
    return left


def root_behind(left: Iterable[bytes], leaf: bytes | None) -> bytes:
    """The root of the tree that ends with a leaf (None: before it), from its left siblings."""
    found = leaf
    for sibling in left:
        found = sibling if found is None else node_hash(sibling, found)
    return EMPTY_ROOT if found is None else found


def subtrees_of(leaves: Sequence[bytes]) -> Subtrees:
    """The subtrees of a tree that is small enough to keep its leaf hashes."""

    def subtree(level: int, index: int) -> bytes:
        hashes = leaves[index << level : (index + 1) << level]
        return perfect_root(hashes)

    return subtree


def perfect_root(hashes: Sequence[bytes]) -> bytes:
    """The root over 2**n hashes of one level."""
    sha256 = hashlib.sha256  # `node_hash`, without a call for each
    while len(hashes) > 1:
        pairs = zip(hashes[::2], hashes[1::2], strict=True)
        hashes = [sha256(b"\1" + left + right).digest() for left, right in pairs]
    return hashes[0]


def _split(count: int) -> int:
    """The largest power of two below a number of leaves."""
    return 1 << ((count - 1).bit_length() - 1)


def _range_hash(low: int, high: int, subtrees: Subtrees) -> bytes:
    """MTH(D[low:high]) of a range that the tree has: it begins at a multiple of its size."""
    count = high - low
    if not count & (count - 1):
        level = count.bit_length() - 1
        return subtrees(level, low >> level)
    middle = low + _split(count)
    return node_hash(_range_hash(low, middle, subtrees), _range_hash(middle, high, subtrees))
