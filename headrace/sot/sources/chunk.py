"""What every reader hands on: some records, gathered by symbol."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.sot.frames import frame

#: What a reader reads at once. Chunks this large keep the work per record small; several of them
#: are in flight.
CHUNK_BYTES: Final = 1024 * 1024


@dataclass(slots=True)
class Chunk:
    """Records in the order in which they came, per symbol.

    Attributes:
        runs: frames of each symbol, in pieces.
        records: how many there are.
        size_bytes: of all frames.
    """

    runs: dict[int, list[bytes]] = field(default_factory=dict)
    records: int = 0
    size_bytes: int = 0

    def add(self, symbol_id: int, body: bytes) -> None:
        """Add one record."""
        framed = frame(body)
        self.runs.setdefault(symbol_id, []).append(framed)
        self.records += 1
        self.size_bytes += len(framed)
