"""What stream is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from headrace.errors import ConfigurationError
from headrace.sot.layout import MAX_BODY_BYTES, MIN_FRAME_BYTES
from headrace.sot.record import U32_MAX, U64_MAX

#: Faults that can be asked for, and what they do to a stream.
FAULTS: Final = {
    "gap": "leave a record out",
    "duplicate": "say a record twice",
    "fork": "say a record, then another one at the same sequence",
    "swap": "say a record after the next one of its symbol",
    "link": "give a record another prev_hash",
    "hash": "change a record's content, not its hash",
}


class StreamSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stream, the same every time for the same values.

    Attributes:
        records: in all, before faults.
        symbols: ids 1 to this many, or `symbol_ids`.
        symbol_ids: the ids themselves.
        size_bytes: of a frame.
        hot_share: of the records that go to the first symbol; the rest is even. None: all even.
        chained: whether records carry hashes and links.
        first_seq: of every symbol.
        seed: of everything that is random.
        faults: how many of which of `FAULTS`.
    """

    records: int
    symbols: int = 8
    symbol_ids: tuple[int, ...] = ()
    size_bytes: int = 300
    hot_share: float | None = None
    chained: bool = True
    first_seq: int = 1
    seed: int = 1
    faults: dict[str, int] = {}

    @property
    def ids(self) -> tuple[int, ...]:
        """The symbols."""
        return self.symbol_ids or tuple(range(1, self.symbols + 1))

    def check(self) -> None:
        """Return if such a stream can be made.

        Raises:
            ConfigurationError: if not; says which value is wrong.
        """
        largest = MAX_BODY_BYTES
        for name, value, low, high in (
            ("records", self.records, 0, U64_MAX),
            ("symbols", len(self.ids), 1, 1_000_000),
            ("size_bytes", self.size_bytes, MIN_FRAME_BYTES, largest),
            ("first_seq", self.first_seq, 0, U64_MAX + 1 - self.records),
            ("hot_share", self.hot_share or 0, 0, 1),
            ("the greatest symbol", max(self.ids), 0, U32_MAX),
        ):
            if not low <= value <= high:
                raise ConfigurationError(f"{name} is {value}, it has to be within {low} and {high}")
        unknown = set(self.faults) - set(FAULTS)
        if unknown:
            raise ConfigurationError(
                f"there is no fault {sorted(unknown)[0]!r}", hint=f"There are: {', '.join(FAULTS)}"
            )
        if sum(self.faults.values()) * 4 > self.records:
            raise ConfigurationError(
                f"{sum(self.faults.values())} faults are too many for {self.records} records",
                hint="At most one record in four can have one",
            )


@dataclass(frozen=True, slots=True)
class Made:
    """One record of a stream; `fault` says what was done to it, "" for nothing."""

    symbol_id: int
    seq: int
    body: bytes
    fault: str = ""
