"""The vectors of trees and heads, by a second implementation written from docs/sot-format.md."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from support.sot_vectors import FOLDER

TREE = json.loads((FOLDER / "tree.json").read_text())
FRAMES = bytes.fromhex(TREE["frames"])
GROUP = 16


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def hashes(text: str) -> list[bytes]:
    raw = base64.b64decode(text)
    assert len(raw) % 32 == 0
    return [raw[at : at + 32] for at in range(0, len(raw), 32)]


def frames() -> list[bytes]:
    found, at = [], 0
    while at < len(FRAMES):
        end = at + 4 + int.from_bytes(FRAMES[at : at + 4], "little")
        found.append(FRAMES[at:end])
        at = end
    return found


def up(leaf: bytes, index: int, leaves: int, path: list[bytes]) -> tuple[bytes, list[bytes]]:
    """The root, and the siblings on the left, as the document walks a path."""
    node, last, left = leaf, leaves - 1, []
    siblings = list(path)
    while last > 0:
        if index % 2 == 1:
            sibling = siblings.pop(0)
            left.append(sibling)
            node = sha(b"\1", sibling, node)
        elif index < last:
            node = sha(b"\1", node, siblings.pop(0))
        index, last = index // 2, last // 2
    assert not siblings
    return node, left


@pytest.mark.parametrize("proof", TREE["inclusion"], ids=lambda proof: proof["seq"])
def test_a_record_is_part_of_its_tree(proof: dict[str, Any]) -> None:
    index, size = int(proof["seq"]) - int(proof["first_seq"]), int(proof["size"])
    digests = hashes(proof["digests"])
    [before] = hashes(proof["before"])
    assert len(digests) == min(GROUP, size - index // GROUP * GROUP)
    assert sha(before, frames()[index]) == digests[index % GROUP]
    leaf = sha(b"\0", *digests)
    root, _ = up(leaf, index // GROUP, -(-size // GROUP), hashes(proof["path"]))
    assert [root] == hashes(proof["root"])
    assert root.hex() in [one["root"] for one in TREE["roots"] if one["size"] == proof["size"]]


@pytest.mark.parametrize(
    "proof", TREE["consistency"], ids=lambda proof: f"{proof['from_size']}-{proof['to_size']}"
)
def test_a_tree_grew_out_of_a_smaller_one(proof: dict[str, Any]) -> None:
    smaller, larger = int(proof["from_size"]), int(proof["to_size"])
    digests, path = hashes(proof["digests"]), hashes(proof["path"])
    if smaller == larger:
        assert not digests
        assert not path
        assert proof["from_root"] == proof["to_root"]
        return
    place, kept = divmod(smaller, GROUP)
    assert len(digests) == min(GROUP, larger - place * GROUP)
    root, left = up(sha(b"\0", *digests), place, -(-larger // GROUP), path)
    assert [root] == hashes(proof["to_root"])
    old = sha(b"\0", *digests[:kept]) if kept else None
    for sibling in left:
        old = sibling if old is None else sha(b"\1", sibling, old)
    assert [old or sha()] == hashes(proof["from_root"])


def test_the_signed_head_is_over_all_symbols() -> None:
    head, symbols = TREE["log_head"]["head"], TREE["log_head"]["symbols"]
    [key] = TREE["keys"]["keys"]
    public = base64.b64decode(key["public_key"])
    assert head["key_id"] == key["key_id"] == sha(public)[:16].hex()
    text = json.dumps(head["payload"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    signature = base64.b64decode(head["signature"])
    Ed25519PublicKey.from_public_bytes(public).verify(signature, text.encode())
    leaves = [
        one["symbol"].to_bytes(4, "little")
        + int(one["first_seq"]).to_bytes(8, "little")
        + int(one["size"]).to_bytes(8, "little")
        + base64.b64decode(one["root"])
        for one in symbols
    ]
    place = TREE["head_index"]
    path = [bytes.fromhex(text) for text in TREE["head_path"]]
    root, _ = up(sha(b"\0", leaves[place]), place, len(leaves), path)
    assert [root] == hashes(head["payload"]["root"])
    assert head["payload"]["symbols"] == len(symbols) == 3
    assert symbols[place]["root"] == TREE["inclusion"][-1]["root"]
