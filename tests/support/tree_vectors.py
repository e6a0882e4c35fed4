"""Vectors of the trees: a chain of 40 records, its roots, proofs, and a signed head over them."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.evidence.keys import KeyList, PublicKey, SigningKey
from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.tree.log_head import LogHead, symbol_heads
from headrace.sot.tree.log_head import sign_head as sign
from headrace.sot.tree.symbol_tree import SymbolTree
from tests.support.sot_chains import Chain

SIGNED_AT = datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)
SIZES = (1, 2, 15, 16, 17, 32, 33, 40)
#: RFC 8032, 7.1, test 1, as a PKCS #8 PEM. Everybody knows it: it signs vectors only.
KEY = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
"""


class _Named(EmbeddedStore):
    def store_id(self) -> str:
        return "00112233445566778899aabbccddeeff"


def signed_head(store: EmbeddedStore, key: SigningKey) -> LogHead:
    """The head over all symbols of the vectors."""
    return sign(store, key, now=SIGNED_AT)


def make_tree() -> dict[str, Any]:
    """The content of tree.json."""
    key = SigningKey.from_pem(KEY, where="the vectors")
    with tempfile.TemporaryDirectory() as folder:
        store = _Named(Path(folder) / "log")
        chain = Chain.claimed(store, 7, 100)
        store.commit([chain.batch(40, data=b"vector")])
        for symbol_id, records in ((0, 3), (2**32 - 1, 20)):
            store.commit([Chain.claimed(store, symbol_id).batch(records)])
        tree = SymbolTree(store, 7)
        head = signed_head(store, key)
        place = [symbol.symbol_id for symbol in symbol_heads(store)].index(7)
        made = {
            "frames": b"".join(block.frames for block in store.scan(7)).hex(),
            "roots": [{"size": str(size), "root": tree.root(size).hex()} for size in (0, *SIZES)],
            "inclusion": [
                tree.inclusion(seq, size).as_dict()
                for seq, size in ((100, 1), (100, 40), (115, 16), (116, 40), (135, 40), (139, 40))
            ],
            "consistency": [
                tree.consistency(smaller, larger).as_dict()
                for smaller in (0, *SIZES)
                for larger in SIZES[::3]
                if smaller <= larger
            ],
            "keys": KeyList([PublicKey(key.public_key, "2026-01-01T00:00:00Z")]).as_dict(),
            "log_head": {
                "head": head.statement.as_dict(),
                "symbols": [symbol.as_dict() for symbol in head.symbols],
            },
            "head_index": place,
            "head_path": [sibling.hex() for sibling in head.path(place)],
        }
        store.close()
    return made
