"""Chaining a stream that its engine did not chain: hashes of version 1 are computed here."""

from __future__ import annotations

from typing import Final

from xxhash import xxh3_64_intdigest

from headrace.sot.layout import FRAME_HEADER, LENGTH_BYTES, MIN_FRAME_BYTES
from headrace.sot.position import Position
from headrace.sot.record import HASH_XXH3_V1

_VERSION: Final = slice(12, 13)
_UP_TO_PREV: Final = slice(14, 28)
_BEHIND_PREV: Final = 36
_HASH_VERSION: Final = bytes([HASH_XXH3_V1])


def link(frame: bytes, prev_hash: int) -> tuple[bytes, int]:
    """The frame with its links filled in, and its hash.

    Args:
        frame: one whole frame; what it has as hash, hash version and prev_hash is replaced.
        prev_hash: hash of the symbol's record before it.
    """
    covered = b"".join(
        (
            frame[_VERSION],
            _HASH_VERSION,
            frame[_UP_TO_PREV],
            prev_hash.to_bytes(8, "little"),
            frame[_BEHIND_PREV:],
        )
    )
    hash_: int = xxh3_64_intdigest(covered)
    return b"".join((frame[:LENGTH_BYTES], hash_.to_bytes(8, "little"), covered)), hash_


def link_run(
    run: bytes, offset: int, symbol_id: int, position: Position, max_records: int
) -> bytes:
    """Link the frames at `offset` that are next in the chain of `symbol_id`.

    A frame keeps its length, so that offsets into the result are offsets into `run`.

    Args:
        run: frames as they came.
        offset: where to begin in it.
        symbol_id: whose chain it is.
        position: where the chain ends.
        max_records: link so many at most.

    Returns:
        The linked frames, up to the first that is not next, not whole, or carries a hash already.
    """
    expected, prev_hash = position.next_seq, position.hash
    linked: list[bytes] = []
    while len(run) - offset >= MIN_FRAME_BYTES and len(linked) < max_records:
        length, given, _, _, _, symbol, seq, prev, *_ = FRAME_HEADER.unpack_from(run, offset)
        stop = offset + LENGTH_BYTES + length
        if symbol != symbol_id or seq != expected or stop > len(run) or given or prev:
            break
        frame, prev_hash = link(run[offset:stop], prev_hash)
        linked.append(frame)
        expected += 1
        offset = stop
    return b"".join(linked)
