"""The order of a replay over all symbols: total, and the same every time.

Records are ordered by

    (the largest `input_seq` of the symbol's records up to this one, symbol_id, output_seq)

`input_seq` is the engine's own sequence over all symbols, so this is the order in which the engine
spoke. Taking the largest so far instead of the record's own keeps each symbol's chain in order even
where an engine counted backwards; symbol and sequence make the order total. It depends on nothing
but the records: not on shards, on the backend, on times, or on the order in which they are read.
"""

from __future__ import annotations

import struct
from typing import Final

from headrace.sot.layout import LENGTH_BYTES

#: `input_seq` in a frame: behind hash, versions, symbol, output_seq and prev_hash.
_INPUT_SEQ_AT: Final = LENGTH_BYTES + 32
_INPUT_SEQ: Final = struct.Struct("<Q")


def input_seq_of(frame: bytes, offset: int = 0) -> int:
    """The engine's global sequence of the frame at `offset`."""
    found: int = _INPUT_SEQ.unpack_from(frame, offset + _INPUT_SEQ_AT)[0]
    return found
