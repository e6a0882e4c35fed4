"""Check proofs by what they hold alone, as a stranger would; docs/sot-format.md has the rules."""

from __future__ import annotations

import hashlib

from headrace.evidence.merkle import (
    EMPTY_ROOT,
    leaf_hash,
    left_siblings,
    root_behind,
    root_from_path,
)
from headrace.sot.chain import DIGEST_BYTES
from headrace.sot.tree.symbol_tree import Consistency, Inclusion
from headrace.sot.tree.tiles import GROUP


def inclusion_holds(proof: Inclusion, frame: bytes) -> bool:
    """Whether this frame is the record that the proof is about, and part of the tree."""
    index = proof.seq - proof.first_seq
    if not 0 <= index < proof.size:
        return False
    leaf, place = divmod(index, GROUP)
    digests = proof.digests
    if len(digests) != _leaf_records(leaf, proof.size) * DIGEST_BYTES:
        return False
    digest = digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]
    if hashlib.sha256(proof.before + frame).digest() != digest:
        return False
    if place and proof.before != digests[(place - 1) * DIGEST_BYTES : place * DIGEST_BYTES]:
        return False
    found = root_from_path(leaf_hash(digests), leaf, _leaves(proof.size), proof.path)
    return found == proof.root


def consistency_holds(proof: Consistency) -> bool:
    """Whether the smaller tree is the beginning of the larger one."""
    if not 0 <= proof.from_size <= proof.to_size:
        return False
    if proof.from_size == proof.to_size:
        return proof.from_root == proof.to_root
    leaf, place = divmod(proof.from_size, GROUP)
    digests, path = proof.digests, proof.path
    if len(digests) != _leaf_records(leaf, proof.to_size) * DIGEST_BYTES:
        return False
    leaves = _leaves(proof.to_size)
    if root_from_path(leaf_hash(digests), leaf, leaves, path) != proof.to_root:
        return False
    last = leaf_hash(digests[: place * DIGEST_BYTES]) if place else None
    if proof.from_size == 0:
        return proof.from_root == EMPTY_ROOT
    return root_behind(left_siblings(leaf, leaves, path), last) == proof.from_root


def _leaf_records(leaf: int, size: int) -> int:
    """How many digests a leaf has in a tree of that size."""
    return min(GROUP, size - leaf * GROUP)


def _leaves(size: int) -> int:
    return -(-size // GROUP)
