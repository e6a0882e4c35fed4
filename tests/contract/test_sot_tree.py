"""Trees over the chains of every store: roots, proofs of any two sizes, tiles that were lost."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.evidence.exceptions import BadStatement
from headrace.evidence.keys import KeyList, PublicKey, SigningKey
from headrace.sot.anchors.compare import Comparison
from headrace.sot.chain import genesis
from headrace.sot.store import SotStore
from headrace.sot.tree.checking import consistency_holds, inclusion_holds
from headrace.sot.tree.log_head import LogHead, read_log_head, sign_head
from headrace.sot.tree.symbol_tree import NoSuchSize, SymbolTree
from headrace.sot.tree.tiles import GROUP, TILE_RECORDS
from headrace.sot.verify import verify_store
from headrace.sot.verify_plan import Mode
from tests.support.cassandra import cassandra
from tests.support.sot_chains import Chain
from tests.support.sot_stores import Backend, backend, make_backend, store
from tests.support.sot_streams import frames_of, made, write

__all__ = ["backend", "cassandra", "store"]

# A first run fetches the server and starts it.
pytestmark = pytest.mark.timeout(300)

SIZES = [0, 1, GROUP - 1, GROUP, GROUP + 1, 100, TILE_RECORDS - 1, TILE_RECORDS, TILE_RECORDS + 40]


def digests_of(frames: bytes, symbol_id: int, first_seq: int) -> list[bytes]:
    """Record by record, as docs/sot-format.md says it."""
    digest, found, offset = genesis(symbol_id, first_seq).digest, [], 0
    while offset < len(frames):
        stop = offset + 4 + int.from_bytes(frames[offset : offset + 4], "little")
        digest = hashlib.sha256(digest + frames[offset:stop]).digest()
        found.append(digest)
        offset = stop
    return found


def reference_root(digests: list[bytes]) -> bytes:
    """RFC 6962, 2.1, word for word."""
    leaves = [b"".join(digests[at : at + GROUP]) for at in range(0, len(digests), GROUP)]

    def mth(data: list[bytes]) -> bytes:
        if len(data) <= 1:
            return hashlib.sha256(*[b"\0" + leaf for leaf in data]).digest()
        k = 1
        while k * 2 < len(data):
            k *= 2
        return hashlib.sha256(b"\1" + mth(data[:k]) + mth(data[k:])).digest()

    return mth(leaves)


def grown(store: SotStore, symbol_id: int, size: int, first_seq: int = 1) -> None:
    chain = Chain.claimed(store, symbol_id, first_seq)
    while size:
        count = min(size, 400)
        store.commit([chain.batch(count)])
        size -= count


def test_a_root_is_the_same_whatever_is_kept(store: SotStore) -> None:
    first_seq = 2**63 - 10
    grown(store, 2**32 - 1, SIZES[-1], first_seq)
    digests = digests_of(frames_of(store, 2**32 - 1), 2**32 - 1, first_seq)
    for _ in range(2):  # the tile is computed, then kept
        tree = SymbolTree(store, 2**32 - 1)
        assert [tree.root(size) for size in SIZES] == [
            reference_root(digests[:size]) for size in SIZES
        ]
    [tile] = store.read_tiles(2**32 - 1, 1, 0, 1)
    assert tile == reference_root(digests[:TILE_RECORDS])


def test_proofs_hold_and_spoilt_ones_do_not(store: SotStore) -> None:
    grown(store, 7, SIZES[-1])
    tree = SymbolTree(store, 7)
    for size in SIZES[1:]:
        for seq in {1, min(2, size), size, (size + 1) // 2, GROUP * (size // GROUP // 2) + 1}:
            proof, frame = tree.inclusion(seq, size), tree.frame(seq)
            assert inclusion_holds(proof, frame)
            other = frame[:-1] + bytes([frame[-1] ^ 1])
            assert not inclusion_holds(proof, other)
            for wrong in (
                replace(proof, seq=seq + 1),
                replace(proof, root=bytes(32)),
                replace(proof, before=bytes(32)),
                replace(proof, digests=proof.digests[:-32]),
                replace(proof, path=(*proof.path, bytes(32))),
            ):
                assert not inclusion_holds(wrong, frame)
    for smaller in SIZES:
        for larger in SIZES:
            if smaller > larger:
                with pytest.raises(ConfigurationError, match="Name the smaller size first"):
                    tree.consistency(smaller, larger)
                continue
            grows = tree.consistency(smaller, larger)
            assert consistency_holds(grows)
            assert not consistency_holds(replace(grows, from_root=bytes(32)))
            assert not consistency_holds(replace(grows, to_root=bytes(32)))
            if smaller and smaller < larger:
                assert not consistency_holds(replace(grows, from_size=smaller - 1))
    with pytest.raises(NoSuchSize, match=f"It has {SIZES[-1]}"):
        tree.root(SIZES[-1] + 1)


def test_writers_keep_tiles_and_verifying_finds_a_wrong_one(backend: Backend) -> None:
    records = made(TILE_RECORDS * 2 + 900, symbol_ids=(7,), size_bytes=80)
    for begin, end in pairwise((0, 300, TILE_RECORDS + 5, len(records))):
        write(backend.open(), records[begin:end], per_chunk=800)
    store = backend.open()
    kept = store.read_tiles(7, 1, 0, 3)
    digests = digests_of(frames_of(store, 7), 7, 1)
    assert kept == [
        reference_root(digests[:TILE_RECORDS]),
        reference_root(digests[TILE_RECORDS : 2 * TILE_RECORDS]),
        None,
    ]
    assert verify_store(store, mark=False, processes=0).good
    store.write_tile(7, 1, 1, bytes(32))
    for mode in (Mode.FULL, Mode.SINCE):
        report = verify_store(backend.open(), mode, mark=False, processes=0)
        first = TILE_RECORDS + 1
        assert f"seq {first} to {first + TILE_RECORDS - 1}" in str(report.symbols[0].damage)
    tree = SymbolTree(backend.open(), 7)
    proof = tree.inclusion(TILE_RECORDS + 9)
    assert not inclusion_holds(proof, tree.frame(TILE_RECORDS + 9))


def test_a_head_over_all_symbols_is_about_one_log_for_good(backend: Backend) -> None:
    store, key = backend.open(), SigningKey.make()
    for symbol_id, size in ((3, 40), (2**32 - 1, 20), (11, 1)):
        grown(store, symbol_id, size)
    store.claim(5, first_seq=1)  # without records, so without a leaf
    first = sign_head(store, key, now=datetime(2026, 1, 31, tzinfo=UTC))
    again = sign_head(backend.open(), key, now=datetime(2026, 2, 1, tzinfo=UTC))
    assert len(first.store_id) == 32
    assert first.store_id == again.store_id
    assert [symbol.symbol_id for symbol in first.symbols] == [3, 11, 2**32 - 1]
    assert first.symbols == again.symbols
    assert read_log_head(first.as_line(), where="here") == first
    for other in ("[]", '{"type": "headrace.sot.inclusion.v1"}'):
        with pytest.raises(BadStatement, match="it is no signed head"):
            read_log_head(other, where="here")
    keys = KeyList([PublicKey(key.public_key, first.time)])
    [report] = Comparison(backend.open(), keys).hold_against([_Kept(first, again)])
    assert (report.heads, report.misfit) == (2, "")


class _Kept:
    """Anchors in memory."""

    where = "memory"

    def __init__(self, *heads: LogHead) -> None:
        self.heads = heads

    def append(self, line: bytes, name: str) -> str:
        raise NotImplementedError

    def lines(self) -> Iterator[tuple[str, bytes]]:
        for number, head in enumerate(self.heads):
            yield f"head {number}", head.as_line()


def heads_of_a_growing_log(backend: Backend, count: int) -> list[tuple[int, bytes]]:
    """Sizes and roots of one symbol, as it grows by runs of any number of shards."""
    chosen = random.Random(1)
    records = made(count * 8, symbol_ids=(3, 11), hot_share=0.9, size_bytes=80)
    heads, at = [], 0
    while len(heads) < count:
        store = backend.open()
        for _ in range(chosen.randint(1, 20)):
            more = chosen.randint(1, 14)
            write(store, records[at : at + more], shards=chosen.randint(1, 9), batch_records=5)
            at += more
            tree = SymbolTree(store, 3)
            heads.append((tree.size, tree.root()))
            if len(heads) == count:
                break
        store.close()
    return heads


def check_pairs(store: SotStore, heads: list[tuple[int, bytes]], pairs: int) -> None:
    tree, chosen = SymbolTree(store, 3), random.Random(2)
    for _ in range(pairs):
        smaller, larger = sorted(chosen.sample(heads, 2))
        proof = tree.consistency(smaller[0], larger[0])
        assert (proof.from_root, proof.to_root) == (smaller[1], larger[1])
        assert consistency_holds(proof)


def test_any_two_heads_are_consistent(backend: Backend) -> None:
    heads = heads_of_a_growing_log(backend, 25)
    check_pairs(backend.open(), heads, 100)


@pytest.mark.long
def test_any_two_of_a_thousand_heads_are_consistent(tmp_path: Path) -> None:
    backend = make_backend("embedded", tmp_path, lambda: "")
    heads = heads_of_a_growing_log(backend, 1000)
    check_pairs(backend.open(), heads, 1000)
    for path in (tmp_path / "sot" / "tree").iterdir():
        path.unlink()  # what is lost is computed again
    check_pairs(backend.open(), heads, 1000)
