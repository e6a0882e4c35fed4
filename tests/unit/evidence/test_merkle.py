"""Trees of RFC 6962: the vectors of the reference implementation, and every small tree."""

from __future__ import annotations

import hashlib

import pytest

from headrace.evidence.merkle import (
    EMPTY_ROOT,
    inclusion_path,
    leaf_hash,
    left_siblings,
    node_hash,
    root_behind,
    root_from_path,
    root_of,
    subtrees_of,
)

#: Leaves, roots and paths of the tests of the reference implementation of RFC 6962
#: (certificate-transparency, merkle_tree_test).
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
PATHS = {
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
}


def test_the_roots_of_the_reference() -> None:
    hashes = [leaf_hash(leaf) for leaf in LEAVES]
    assert root_of(0, subtrees_of([])) == hashlib.sha256(b"").digest() == EMPTY_ROOT
    for size, root in enumerate(ROOTS, 1):
        assert root_of(size, subtrees_of(hashes)).hex() == root


@pytest.mark.parametrize(("place", "path"), PATHS.items())
def test_the_paths_of_the_reference(place: tuple[int, int], path: list[str]) -> None:
    hashes = [leaf_hash(leaf) for leaf in LEAVES]
    assert [one.hex() for one in inclusion_path(*place, subtrees_of(hashes))] == path


def test_every_leaf_of_every_small_tree() -> None:
    hashes = [leaf_hash(bytes([number])) for number in range(70)]
    subtrees = subtrees_of(hashes)
    roots = [root_of(size, subtrees) for size in range(71)]
    for size in range(1, 71):
        for index in range(size):
            path = inclusion_path(index, size, subtrees)
            assert root_from_path(hashes[index], index, size, path) == roots[size]
            left = left_siblings(index, size, path)
            assert root_behind(left, hashes[index]) == roots[index + 1]
            assert root_behind(left, None) == roots[index]
            assert root_from_path(hashes[index], index, size, [*path, hashes[0]]) is None
            if path:
                spoilt = [node_hash(path[0], path[0]), *path[1:]]
                assert root_from_path(hashes[index], index, size, spoilt) != roots[size]
                assert root_from_path(hashes[index], index, size, path[:-1]) is None


@pytest.mark.parametrize(("index", "size"), [(0, 0), (-1, 3), (3, 3)])
def test_there_is_no_path_to_a_leaf_that_is_not_there(index: int, size: int) -> None:
    with pytest.raises(ValueError):
        inclusion_path(index, size, subtrees_of([leaf_hash(b"")] * 3))
