"""Replay a store into a stream that is equal to what came in.

Every symbol is verified on the way; all are merged in one order that is the same every time, in
bounded memory. Records are ordered by

    (the largest `input_seq` of the symbol's records up to this one, symbol_id, output_seq)

`input_seq` is the engine's own sequence over all symbols, so this is the order of the engine's
outputs. Taking the largest so far instead of the record's own keeps each symbol's chain in order
even where an engine counted backwards; symbol and sequence make the order total. It depends on
nothing but the records: not on shards, on the backend, on times, or on the order in which they are
read.

Each symbol that is open holds one block. Beyond a number of them, groups are merged into temporary
files first, and those are merged: a merge sort on disk.
"""

from __future__ import annotations

import heapq
import struct
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from headrace.errors import ConfigurationError
from headrace.sot.chain import Position
from headrace.sot.encoding import FRAME_ROUTE, LENGTH_BYTES
from headrace.sot.exceptions import DamagedLog
from headrace.sot.output import WRITERS, Target
from headrace.sot.sources.reading import Format
from headrace.sot.store import SotStore
from headrace.sot.verified_chain import ChainEnd, read_verified
from headrace.stopping import STOP, StopEvent

#: `input_seq` in a frame: behind hash, versions, symbol, output_seq and prev_hash.
_INPUT_SEQ_AT: Final = LENGTH_BYTES + 32
_INPUT_SEQ: Final = struct.Struct("<Q")


def input_seq_of(frame: bytes, offset: int = 0) -> int:
    """The engine's global sequence of the frame at `offset`."""
    found: int = _INPUT_SEQ.unpack_from(frame, offset + _INPUT_SEQ_AT)[0]
    return found


#: Order, symbol, sequence; then the frame, or what ends the symbol there.
Item = tuple[int, int, int, "bytes | DamagedLog"]
#: Opens a stream of items in order.
Opener = Callable[[], Iterator[Item]]

#: Symbols, or temporary files, that are open at once: some 200 MB of blocks at the most.
FAN_IN: Final = 128

#: Behind every sequence that a record can have.
_BEHIND_ALL: Final = 2**64
_ENTRY: Final = struct.Struct("<QIQI")
_DAMAGE: Final = 2**32 - 1
_BUFFER_BYTES: Final = 256 * 1024


def items_of(symbol_id: int, runs: Iterable[tuple[bytes, Position]]) -> Iterator[Item]:
    """One symbol's records; damage becomes its last item, right behind the last good record."""
    order = 0
    try:
        for run, _ in runs:
            offset = 0
            while offset < len(run):
                length, _, seq = FRAME_ROUTE.unpack_from(run, offset)
                stop = offset + LENGTH_BYTES + length
                order = max(order, input_seq_of(run, offset))
                yield order, symbol_id, seq, run[offset:stop]
                offset = stop
    except DamagedLog as damage:
        yield order, symbol_id, _BEHIND_ALL, damage


def merge_items(
    streams: Sequence[Opener], scratch: Path, *, fan_in: int = FAN_IN
) -> Iterator[Item]:
    """The items of all streams in order.

    Args:
        streams: how to open each; none is open before it is needed.
        scratch: an empty folder for temporary files.
        fan_in: how many are open at once.
    """
    level = 0
    while len(streams) > fan_in:
        groups = [streams[at : at + fan_in] for at in range(0, len(streams), fan_in)]
        streams = [
            _spill(group, scratch / f"merge-{level}-{number}")
            for number, group in enumerate(groups)
        ]
        level += 1
    return heapq.merge(*(open_stream() for open_stream in streams))


def _spill(group: Sequence[Opener], path: Path) -> Opener:
    """The group merged into a file; how to read it."""
    damages: list[DamagedLog] = []
    with path.open("wb", buffering=_BUFFER_BYTES) as file:
        for order, symbol_id, seq, content in heapq.merge(*(opened() for opened in group)):
            if isinstance(content, DamagedLog):
                file.write(_ENTRY.pack(order, symbol_id, len(damages), _DAMAGE))
                damages.append(content)
            else:
                file.write(_ENTRY.pack(order, symbol_id, seq, len(content)))
                file.write(content)

    def read() -> Iterator[Item]:
        with path.open("rb", buffering=_BUFFER_BYTES) as file:
            yield from _entries(file, damages)
        path.unlink()

    return read


def _entries(file: BinaryIO, damages: Sequence[DamagedLog]) -> Iterator[Item]:
    while head := file.read(_ENTRY.size):
        order, symbol_id, seq, size = _ENTRY.unpack(head)
        if size == _DAMAGE:
            yield order, symbol_id, _BEHIND_ALL, damages[seq]
        else:
            yield order, symbol_id, seq, file.read(size)


@dataclass(frozen=True, slots=True)
class RecoverOptions:
    """How to replay.

    Attributes:
        format: frames, JSON lines or Parquet.
        symbols: only these; empty for all.
        past_damage: go on with the other symbols behind the damage of one. Without it the replay
            ends there, so that what was written is a true beginning of the whole.
        scratch: folder for temporary files, for stores with more symbols than `fan_in`.
        fan_in: symbols open at once.
    """

    format: Format = Format.FRAMES
    symbols: tuple[int, ...] = ()
    past_damage: bool = False
    scratch: Path | None = None
    fan_in: int = FAN_IN


@dataclass(slots=True)
class SymbolReplay:
    """What was replayed of one symbol; of its chain, `missing` records were not."""

    symbol_id: int
    records: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    missing: int = 0


@dataclass(slots=True)
class RecoverReport:
    """What a replay did.

    Attributes:
        place: the file as it is named now, or `-`.
        records: written.
        symbols: per symbol, ascending.
        damages: what was found to be wrong.
        stopped: the stop was asked for; the file is the beginning of the whole.
    """

    place: str
    records: int = 0
    symbols: list[SymbolReplay] = field(default_factory=list)
    damages: list[DamagedLog] = field(default_factory=list)
    stopped: bool = False
    elapsed_s: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every record of every chain asked for was written."""
        return not self.damages and not self.stopped


def recover(
    store: SotStore,
    out: str,
    options: RecoverOptions | None = None,
    *,
    saved_heads: Mapping[int, Position] | None = None,
    on_records: Callable[[int], None] | None = None,
    stop: StopEvent = STOP,
) -> RecoverReport:
    """Write the verified records of the store in the order of `headrace.sot.recover`.

    Args:
        store: what to replay; as it is now, whatever is written meanwhile.
        out: a file that does not exist yet, or `-`. A replay that is not whole gets `.partial`.
        options: how.
        floors: per symbol, a position that it must have passed (heads kept elsewhere).
        on_records: called, now and then, with how many were written.
        stop: ends it early.

    Raises:
        ConfigurationError: `out` or a symbol cannot be used.
        StoreUnavailable: the store or the disk does not answer.
    """
    options = options or RecoverOptions()
    started_s = time.monotonic()
    saved_heads = saved_heads or {}
    replay = _Replay(options, RecoverReport(out), on_records or (lambda _: None), stop)
    target = Target(out)
    wanted = _wanted(store, options.symbols, saved_heads)
    chains = replay.chains(store, wanted, saved_heads)
    with (
        target.opened() as file,
        tempfile.TemporaryDirectory(prefix="headrace-sot-", dir=options.scratch) as scratch,
    ):
        items: Iterator[Item] = iter(())
        if options.past_damage or not replay.unplaceable:
            streams = [partial(_items, store, chain) for chain in chains]
            items = merge_items(streams, Path(scratch), fan_in=options.fan_in)
        WRITERS[options.format](replay.bodies(items), file)
    target.finish(whole=replay.report.complete)
    replay.report.place = target.place
    replay.report.elapsed_s = time.monotonic() - started_s
    return replay.finished(chains)


class _Replay:
    """A replay under way."""

    def __init__(
        self,
        options: RecoverOptions,
        report: RecoverReport,
        on_records: Callable[[int], None],
        stop: StopEvent,
    ) -> None:
        self.report = report
        self._options = options
        self._on_records = on_records
        self._stop = stop
        self._symbols: dict[int, SymbolReplay] = {}
        #: Damage that cannot be placed in the order: then only `past_damage` replays anything.
        self.unplaceable = False

    def chains(
        self, store: SotStore, wanted: list[int], saved_heads: Mapping[int, Position]
    ) -> list[ChainEnd]:
        """Where each chain ends now; what is wrong with the store itself is found here."""
        damaged = set()
        for damage in store.damages():
            if damage.symbol_id is None or damage.symbol_id in wanted:
                self._found(damage)
                damaged.add(damage.symbol_id)
        chains = []
        for symbol_id in wanted:
            saved_head = saved_heads.get(symbol_id)
            try:
                head = store.head(symbol_id)
            except DamagedLog as damage:
                chains.append(ChainEnd(symbol_id, None, damage, saved_head))
                continue
            if head is not None:
                chains.append(ChainEnd(symbol_id, head, saved_head=saved_head))
            elif symbol_id in damaged:
                self.unplaceable = True  # it had a chain, of which nothing can be read
            elif saved_head is not None:
                reason = "the symbol was written here, and is gone"
                self._found(DamagedLog(store.location, reason, symbol_id=symbol_id), placed=False)
        return chains

    def bodies(self, items: Iterator[Item]) -> Iterator[bytes]:
        """What is written: the body of every record up to where the replay ends."""
        for _, symbol_id, seq, content in items:
            if isinstance(content, DamagedLog):
                self._found(content)
                if not self._options.past_damage:
                    return
                continue
            symbol = self._symbols.get(symbol_id)
            if symbol is None:
                symbol = self._symbols[symbol_id] = SymbolReplay(symbol_id, first_seq=seq)
            symbol.records += 1
            symbol.last_seq = seq
            self.report.records += 1
            if self.report.records % 1024 == 0:
                self._on_records(1024)
                if self._stop.is_set():
                    self.report.stopped = True
                    return
            yield content[LENGTH_BYTES:]

    def finished(self, chains: Iterable[ChainEnd]) -> RecoverReport:
        """The report, with every symbol that has a chain in it."""
        self._on_records(self.report.records % 1024)
        for chain in chains:
            symbol = self._symbols.get(chain.symbol_id, SymbolReplay(chain.symbol_id))
            if chain.head is not None:
                all_of_it = chain.head.position.next_seq - chain.head.first_seq
                symbol.missing = all_of_it - symbol.records
            self.report.symbols.append(symbol)
        return self.report

    def _found(self, damage: DamagedLog, *, placed: bool = True) -> None:
        """Note damage once; without a symbol, or a chain, its place in the order is unknown."""
        if str(damage) not in map(str, self.report.damages):
            self.report.damages.append(damage)
        self.unplaceable = self.unplaceable or damage.symbol_id is None or not placed


def _items(store: SotStore, chain: ChainEnd) -> Iterator[Item]:
    return items_of(chain.symbol_id, read_verified(store, chain))


def _wanted(
    store: SotStore, asked: tuple[int, ...], saved_heads: Mapping[int, Position]
) -> list[int]:
    """Symbols to replay: those asked for, else every one that the store or a saved head names."""
    present = set(store.symbols())
    if not asked:
        return sorted(present | set(saved_heads))
    absent = sorted(set(asked) - present - set(saved_heads))
    if absent:
        raise ConfigurationError(
            f"the log in {store.location} has no symbol {absent[0]}",
            hint="headrace sot head lists those that it has",
        )
    return sorted(set(asked))
