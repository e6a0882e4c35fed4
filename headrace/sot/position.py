"""Where in its chain a symbol stands."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from headrace.sot.record import U64_MAX

DIGEST_BYTES: Final = 32
#: What the first record of a symbol carries as `prev_hash`.
GENESIS_HASH: Final = 0
DEFAULT_FIRST_SEQ: Final = 1
_GENESIS_DOMAIN: Final = b"headrace sot v1\0"


@dataclass(frozen=True, slots=True)
class Position:
    """A point between two records of a symbol's chain: all before it is known by two hashes.

    Attributes:
        next_seq: the sequence that comes next, 0 to 2**64 (the last means that the chain is full).
        hash: the engine's hash of the record before it; what the next one must name.
        digest: our 256-bit digest over everything before it, 32 bytes.
    """

    next_seq: int
    hash: int
    digest: bytes

    @property
    def last_seq(self) -> int | None:
        """The sequence just before, None before 0."""
        return self.next_seq - 1 if self.next_seq else None

    @property
    def full(self) -> bool:
        """Whether no sequence is left."""
        return self.next_seq > U64_MAX


def genesis(symbol_id: int, first_seq: int = DEFAULT_FIRST_SEQ) -> Position:
    """The position before the first record of a symbol.

    Its digest is SHA-256 over the domain, the symbol (u32) and the first sequence (u64), little
    endian: chains of two symbols, or chains that begin elsewhere, never share a digest.
    """
    start = symbol_id.to_bytes(4, "little") + first_seq.to_bytes(8, "little")
    digest = hashlib.sha256(_GENESIS_DOMAIN + start).digest()
    return Position(first_seq, GENESIS_HASH, digest)
