"""Is everything of the old log in the new one, and nothing else: both recomputed from content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headrace.sot.exceptions import DamagedLog
from headrace.sot.frames import bodies as bodies_of
from headrace.sot.frames import frame
from headrace.sot.migration.old import OldLog
from headrace.sot.migration.relinking import new_chains
from headrace.sot.position import Position
from headrace.sot.recovery.verified import ChainEnd, verified_runs
from headrace.sot.store import SotStore


@dataclass(slots=True)
class Comparison:
    """What comparing has shown.

    Attributes:
        records: of the old log, all of them.
        symbols: that they belong to.
        differences: one line each.
    """

    records: int = 0
    symbols: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether the new log holds the old one, and nothing else."""
        return not self.differences


def compare(
    old: OldLog, new: SotStore, *, on_records: Callable[[int], None] = lambda _: None
) -> Comparison:
    """Compare every record, by the digests over whole chains.

    Raises:
        DamagedLog: the old log is damaged.
        StoreUnavailable: one of them does not answer.
    """
    found = Comparison()
    expected: dict[int, Position] = {}
    for symbol_id, _, position in new_chains(old.bodies()):
        expected[symbol_id] = position
        found.records += 1
        if found.records % 1000 == 0:
            on_records(1000)
    on_records(found.records % 1000)
    found.symbols = len(expected)
    found.differences += [str(damage) for damage in new.damages()]
    for symbol_id in sorted(set(expected) | set(new.symbols())):
        difference = _difference(old, new, symbol_id, expected.get(symbol_id))
        if difference:
            found.differences.append(difference)
    return found


def _difference(old: OldLog, new: SotStore, symbol_id: int, expected: Position | None) -> str:
    try:
        head = new.head(symbol_id)
        if head is None or head.position.next_seq == head.first_seq:
            return f"symbol {symbol_id}: the new log has nothing of it" if expected else ""
        if expected is None:
            return f"symbol {symbol_id}: the old log has nothing of it"
        reached = None
        for _, position in verified_runs(new, ChainEnd(symbol_id, head)):
            reached = position
    except DamagedLog as damage:
        return str(damage)
    if reached == expected:
        return ""
    seq = _first_difference(old, new, symbol_id)
    return f"symbol {symbol_id}, seq {seq}: the logs differ from here on"


def _first_difference(old: OldLog, new: SotStore, symbol_id: int) -> int:
    """The first sequence of the symbol at which one log has something else, or nothing."""
    theirs = _new_frames(new, symbol_id)
    seq = 0
    for symbol, framed, position in new_chains(old.bodies()):
        if symbol == symbol_id:
            seq = position.next_seq - 1
            if next(theirs, None) != framed:
                return seq
    return seq + 1


def _new_frames(new: SotStore, symbol_id: int) -> Iterator[bytes]:
    for block in new.scan(symbol_id):
        yield from map(frame, bodies_of(block.frames))
