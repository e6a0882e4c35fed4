"""Payloads of the entries that park records and let them go again."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from typing import Final

from headrace.sot.store import Parked

_ITEM: Final = struct.Struct("<QBI")
_KEY: Final = struct.Struct("<Q32s")
_REASONS: Final = ("gap", "link", "fork")

#: What tells two parked records of one symbol apart: sequence and SHA-256 of the body.
Key = tuple[int, bytes]


def key_of(record: Parked) -> Key:
    """The key of a parked record."""
    return record.seq, hashlib.sha256(record.body).digest()


def pack_parked(records: Iterable[Parked]) -> bytes:
    """seq u64, reason u8, length u32, body; one after the other."""
    pieces = []
    for record in records:
        pieces.append(_ITEM.pack(record.seq, _REASONS.index(record.reason), len(record.body)))
        pieces.append(record.body)
    return b"".join(pieces)


def unpack_parked(symbol_id: int, raw: bytes) -> Iterator[Parked]:
    """The records of one entry."""
    offset = 0
    while offset < len(raw):
        seq, reason, size = _ITEM.unpack_from(raw, offset)
        offset += _ITEM.size
        yield Parked(symbol_id, seq, raw[offset : offset + size], _REASONS[reason])
        offset += size


def pack_keys(keys: Iterable[Key]) -> bytes:
    """seq u64, SHA-256; one after the other."""
    return b"".join(_KEY.pack(*key) for key in keys)


def unpack_keys(raw: bytes) -> Iterator[Key]:
    """The keys of one entry."""
    yield from _KEY.iter_unpack(raw)
