"""An old record as the new log has it: its symbol's sequence and link instead of the global ones.

The n-th old record of a symbol is the n-th of its new chain. Everything but sequence, link and hash
stays as it is; the old log keeps the old ones. What comes out depends on the old log alone, so a
backfill can stop anywhere, and a comparison can do it all again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from headrace.sot.chain import follow
from headrace.sot.frames import frame
from headrace.sot.layout import HEADER
from headrace.sot.linking import link
from headrace.sot.position import DEFAULT_FIRST_SEQ, Position, genesis

_SEQ_AT: Final = 16
_U64: Final = struct.Struct("<Q")


def symbol_in(body: bytes) -> int:
    """The symbol of an old record."""
    found: int = HEADER.unpack_from(body)[4]
    return found


def relinked(body: bytes, position: Position) -> tuple[bytes, Position]:
    """The frame of an old record at `position` of its new chain, and the position behind it."""
    changed = b"".join((body[:_SEQ_AT], _U64.pack(position.next_seq), body[_SEQ_AT + 8 :]))
    framed, _ = link(frame(changed), position.hash)
    followed = follow(framed, 0, symbol_in(body), position)
    if followed.error is not None:
        raise followed.error
    return framed, followed.position


def new_chains(bodies: Iterable[bytes]) -> Iterator[tuple[int, bytes, Position]]:
    """What the new log must hold for these old records from the first on."""
    positions: dict[int, Position] = {}
    for body in bodies:
        symbol_id = symbol_in(body)
        position = positions.get(symbol_id) or genesis(symbol_id, DEFAULT_FIRST_SEQ)
        framed, positions[symbol_id] = relinked(body, position)
        yield symbol_id, framed, positions[symbol_id]
