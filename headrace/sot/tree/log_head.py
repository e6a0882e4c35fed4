"""One head over all symbols of a log, signed: what anchors keep and proofs lead to.

The tree over the symbols is one of RFC 6962, too: a leaf per symbol that has records, in the order
of their ids, each of 52 bytes: symbol (4), first sequence (8), size (8), little endian, and the
root of the symbol's tree (32).
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from headrace.evidence.exceptions import BadStatement
from headrace.evidence.keys import SigningKey, moment
from headrace.evidence.merkle import inclusion_path, leaf_hash, root_of, subtrees_of
from headrace.evidence.statements import Envelope, canonical, envelope_of
from headrace.sot.store import SotStore
from headrace.sot.tree.symbol_tree import SymbolTree

#: `type` of the statement.
LOG_HEAD: Final = "headrace.sot.head.v1"
_LEAF: Final = struct.Struct("<IQQ32s")


@dataclass(frozen=True, slots=True)
class SymbolHead:
    """The tree of one symbol at some size."""

    symbol_id: int
    first_seq: int
    size: int
    root: bytes

    @property
    def leaf(self) -> bytes:
        """Its leaf in the tree over all symbols."""
        return _LEAF.pack(self.symbol_id, self.first_seq, self.size, self.root)

    def as_dict(self) -> dict[str, Any]:
        """Its JSON form."""
        return {
            "symbol": self.symbol_id,
            "first_seq": str(self.first_seq),
            "size": str(self.size),
            "root": base64.b64encode(self.root).decode(),
        }


@dataclass(frozen=True, slots=True)
class LogHead:
    """A signed head, with the heads of the symbols that it is about.

    Attributes:
        statement: the envelope; its payload has the root over `symbols`.
        symbols: ascending; the root binds them, so they need no signature of their own.
    """

    statement: Envelope
    symbols: tuple[SymbolHead, ...]

    @property
    def store_id(self) -> str:
        """Which log it is about."""
        return str(self.statement.payload["store"])

    @property
    def time(self) -> str:
        """When it was signed, as the signer says."""
        return str(self.statement.payload["time"])

    def as_line(self) -> bytes:
        """Canonical JSON, and a line feed."""
        symbols = [symbol.as_dict() for symbol in self.symbols]
        return canonical({"head": self.statement.as_dict(), "symbols": symbols}) + b"\n"

    def symbol(self, symbol_id: int) -> tuple[int, SymbolHead] | None:
        """The head of a symbol and its place; None if it had no records then."""
        for place, symbol in enumerate(self.symbols):
            if symbol.symbol_id == symbol_id:
                return place, symbol
        return None

    def path(self, place: int) -> list[bytes]:
        """The siblings from a symbol's leaf up to the root."""
        leaves = [leaf_hash(symbol.leaf) for symbol in self.symbols]
        return inclusion_path(place, len(leaves), subtrees_of(leaves))


def root_over(symbols: Sequence[SymbolHead]) -> bytes:
    """The root of the tree over all symbols."""
    leaves = [leaf_hash(symbol.leaf) for symbol in symbols]
    return root_of(len(leaves), subtrees_of(leaves))


def symbol_heads(store: SotStore) -> list[SymbolHead]:
    """The head of every symbol that has records, as it is when its turn comes.

    Raises:
        DamagedLog: a chain cannot be read where it has to be.
    """
    found = []
    for symbol_id in store.symbols():
        if store.head(symbol_id) is None:
            continue
        tree = SymbolTree(store, symbol_id)
        if tree.size:
            found.append(SymbolHead(symbol_id, tree.first_seq, tree.size, tree.root()))
    return found


def sign_head(store: SotStore, key: SigningKey, *, now: datetime) -> LogHead:
    """Sign where the whole log ends now. The store gets an id if it has none."""
    store_id = store.store_id()
    symbols = symbol_heads(store)
    payload = {
        "type": LOG_HEAD,
        "store": store_id,
        "time": moment(now),
        "symbols": len(symbols),
        "root": base64.b64encode(root_over(symbols)).decode(),
    }
    return LogHead(key.sign(payload), tuple(symbols))


def read_log_head(stored: bytes | str, *, where: str) -> LogHead:
    """A head from its JSON text; that its root is over its symbols is checked, its signature not.

    Raises:
        BadStatement: it is no such head.
    """
    try:
        found = json.loads(stored)
        if not isinstance(found, dict) or not {"head", "symbols"} <= found.keys():
            raise BadStatement(where, "it is no signed head, as headrace sot head --signed writes")
        statement = envelope_of(found["head"], where=where)
        symbols = tuple(_symbol(one) for one in found["symbols"])
        payload = statement.payload
        if payload["type"] != LOG_HEAD:
            raise BadStatement(where, f"its type is {payload['type']!r}, not {LOG_HEAD}")
        if not all(isinstance(payload[name], str) for name in ("store", "time", "root")):
            raise BadStatement(where, "store, time and root are no text")
        ids = [symbol.symbol_id for symbol in symbols]
        root = base64.b64encode(root_over(symbols)).decode()
    except (KeyError, TypeError, RecursionError, struct.error, binascii.Error) as error:
        raise BadStatement(where, f"{type(error).__name__}: {error}") from error
    except ValueError as error:
        raise BadStatement(where, str(error)) from error
    if ids != sorted(set(ids)) or payload["symbols"] != len(ids) or payload["root"] != root:
        raise BadStatement(where, "the root that was signed is not over the symbols beside it")
    return LogHead(statement, symbols)


def _symbol(found: dict[str, Any]) -> SymbolHead:
    root = base64.b64decode(found["root"], validate=True)
    symbol = SymbolHead(found["symbol"], int(found["first_seq"]), int(found["size"]), root)
    if symbol.as_dict() != found:
        raise ValueError(f"symbol {found['symbol']!r} is not written as it has to be")
    return symbol
