"""`SotStore` in a folder of volumes: the default, for one machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from headrace.sot.embedded.asides import Key, key_of, pack_keys, pack_parked, unpack_parked
from headrace.sot.embedded.charter import DEFAULT_VOLUMES, load, load_or_make
from headrace.sot.embedded.entry import Entry, Kind, make
from headrace.sot.embedded.volume import Volume
from headrace.sot.embedded.walk import TornTail
from headrace.sot.exceptions import DamagedLog, StoreMisconfigured
from headrace.sot.position import Position
from headrace.sot.store import Answer, Batch, BatchLimits, Block, Head, Outcome, Parked

#: Larger blocks share an fsync among more records; one is decompressed to read any of its records.
_LIMITS: Final = BatchLimits(records=2000, size_bytes=1024 * 1024)


class EmbeddedStore:
    """A folder with `store.json` and up to `volumes` files; any number of processes may use it.

    Args:
        folder: on a local disk (locks of network shares cannot be trusted).
        create: make the store if there is none.
        volumes: for a new store; an existing one keeps its number.
        report_torn: told about each torn tail that is cut; `torn` lists them too.

    Raises:
        StoreMisconfigured: no store there (and not `create`), or something else is.
        DamagedLog, NewerLog: `store.json` is not what this version writes.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        create: bool = True,
        volumes: int = DEFAULT_VOLUMES,
        report_torn: Callable[[TornTail], None] | None = None,
    ) -> None:
        self._folder = Path(folder).absolute()
        charter = load_or_make(self._folder, volumes) if create else load(self._folder)
        if charter is None:
            raise StoreMisconfigured(
                str(self._folder), "there is none", hint="Write one first: headrace sot write"
            )
        self.volumes = charter.volumes
        self.torn: list[TornTail] = []
        self._report_torn = report_torn
        self._open: dict[int, Volume] = {}
        self._mutex = threading.Lock()

    @property
    def location(self) -> str:
        """The folder."""
        return str(self._folder)

    @property
    def limits(self) -> BatchLimits:
        """See `SotStore.limits`."""
        return _LIMITS

    def symbols(self) -> list[int]:
        """See `SotStore.symbols`."""
        found: list[int] = []
        for volume in self._existing():
            with volume.looking():
                found.extend(volume.symbols)
        return sorted(found)

    def head(self, symbol_id: int) -> Head | None:
        """See `SotStore.head`."""
        volume = self._volume_of(symbol_id)
        with volume.looking():
            index = volume.symbols.get(symbol_id)
            if index is None:
                return None
            if index.damage is not None:
                raise index.damage
            return index.head

    def claim(self, symbol_id: int, *, first_seq: int) -> Head:
        """See `SotStore.claim`."""
        volume = self._volume_of(symbol_id)

        def plan(volume: Volume) -> list[tuple[Entry, bytes]]:
            index = volume.index(symbol_id)
            begun = index.position is not None and index.position.next_seq != index.first_seq
            start = index.first_seq if begun else first_seq
            return [make(Kind.CLAIM, symbol_id, first_seq=start, epoch=index.epoch + 1)]

        volume.append(plan)
        head = volume.symbols[symbol_id].head
        if head is None:
            raise RuntimeError(f"symbol {symbol_id} has no head after a claim")
        return head

    def commit(self, batches: Sequence[Batch]) -> list[Outcome]:
        """See `SotStore.commit`. The batches of one volume share one write and one fdatasync."""
        outcomes: dict[int, Outcome] = {}
        made = {batch.symbol_id: _block(batch) for batch in batches}
        if len(made) != len(batches):
            raise ValueError("at most one batch per symbol may be committed at once")
        by_volume = sorted(batches, key=lambda batch: batch.symbol_id % self.volumes)
        for number, group in groupby(by_volume, lambda batch: batch.symbol_id % self.volumes):
            judged = list(group)

            def plan(volume: Volume, judged: list[Batch] = judged) -> list[tuple[Entry, bytes]]:
                fitting = []
                for batch in judged:
                    answer = _judge(batch, volume.index(batch.symbol_id).head)
                    if isinstance(answer, Outcome):
                        outcomes[batch.symbol_id] = answer
                    else:
                        fitting.append(made[batch.symbol_id])
                return fitting

            volume = self._volume(number)
            volume.append(plan)
            for batch in judged:
                if batch.symbol_id not in outcomes:
                    head = Head(batch.symbol_id, batch.epoch, _first(volume, batch), batch.after)
                    outcomes[batch.symbol_id] = Outcome(Answer.COMMITTED, head)
        return [outcomes[batch.symbol_id] for batch in batches]

    def scan(
        self, symbol_id: int, *, from_seq: int = 0, to_seq: int | None = None
    ) -> Iterator[Block]:
        """See `SotStore.scan`."""
        volume = self._volume_of(symbol_id)
        with volume.looking():
            index = volume.symbols.get(symbol_id)
            if index is None:
                return iter(())
            # An array of offsets, not of blocks: 8 bytes for some 2,000 records.
            offsets = list(index.blocks(from_seq, to_seq))
            damage = index.damage or next((d for d in volume.damages if d.symbol_id is None), None)
        return self._blocks(volume, offsets, damage)

    def damages(self) -> list[DamagedLog]:
        """See `SotStore.damages`."""
        found: list[DamagedLog] = []
        for number in self._numbers():
            try:
                volume = self._volume(number)
                with volume.looking():
                    found.extend(volume.damages)
                    if volume.torn is not None:
                        self._note_torn(volume.torn)
            except DamagedLog as error:
                found.append(error)
        return found

    def repairs(self) -> list[str]:
        """See `SotStore.repairs`."""
        return [f"cut off {torn}" for torn in self.torn]

    def park(self, records: Iterable[Parked]) -> None:
        """See `SotStore.park`."""
        for symbol_id, group in _by_symbol(records):

            def plan(
                volume: Volume, symbol_id: int = symbol_id, group: list[Parked] = group
            ) -> list[tuple[Entry, bytes]]:
                known = volume.index(symbol_id).parked
                new = {key_of(record): record for record in group}
                fresh = [record for key, record in new.items() if key not in known]
                if not fresh:
                    return []
                return [make(Kind.PARK, symbol_id, raw=pack_parked(fresh))]

            self._volume_of(symbol_id).append(plan)

    def parked(self, symbol_id: int) -> Iterator[Parked]:
        """See `SotStore.parked`."""
        volume = self._volume_of(symbol_id)
        with volume.looking():
            index = volume.symbols.get(symbol_id)
            places = sorted(index.parked.items()) if index else []
        return self._parked(volume, symbol_id, places)

    def unpark(self, records: Iterable[Parked]) -> None:
        """See `SotStore.unpark`."""
        for symbol_id, group in _by_symbol(records):

            def plan(
                volume: Volume, symbol_id: int = symbol_id, group: list[Parked] = group
            ) -> list[tuple[Entry, bytes]]:
                known = volume.index(symbol_id).parked
                gone = [key for key in map(key_of, group) if key in known]
                if not gone:
                    return []
                return [make(Kind.UNPARK, symbol_id, raw=pack_keys(gone))]

            self._volume_of(symbol_id).append(plan)

    def verified(self, symbol_id: int) -> Position | None:
        """See `SotStore.verified`."""
        volume = self._volume_of(symbol_id)
        with volume.looking():
            index = volume.symbols.get(symbol_id)
            return index.verified if index else None

    def mark_verified(self, symbol_id: int, position: Position) -> None:
        """See `SotStore.mark_verified`."""
        if position.last_seq is None:
            return  # nothing precedes sequence 0
        entry = make(
            Kind.VERIFIED,
            symbol_id,
            first_seq=position.last_seq,
            hash_=position.hash,
            digest=position.digest,
        )
        self._volume_of(symbol_id).append(lambda _: [entry])

    def close(self) -> None:
        """See `SotStore.close`."""
        with self._mutex:
            volumes, self._open = list(self._open.values()), {}
        for volume in volumes:
            volume.close()

    def _blocks(
        self, volume: Volume, offsets: list[int], damage: DamagedLog | None
    ) -> Iterator[Block]:
        for offset in offsets:
            entry, frames = volume.read(offset)
            yield Block(
                symbol_id=entry.symbol_id,
                first_seq=entry.first_seq,
                count=entry.count,
                frames=frames,
                where=f"{volume.path} at byte {offset}",
                after=Position(entry.last_seq + 1, entry.hash, entry.digest),
            )
        if damage is not None:
            raise damage

    def _parked(
        self, volume: Volume, symbol_id: int, places: list[tuple[Key, int]]
    ) -> Iterator[Parked]:
        held: dict[int, dict[Key, Parked]] = {}
        for key, offset in places:
            if offset not in held:
                if len(held) >= 8:
                    held.pop(next(iter(held)))
                _, raw = volume.read(offset)
                held[offset] = {key_of(record): record for record in unpack_parked(symbol_id, raw)}
            yield held[offset][key]

    def _volume_of(self, symbol_id: int) -> Volume:
        return self._volume(symbol_id % self.volumes)

    def _volume(self, number: int) -> Volume:
        with self._mutex:
            volume = self._open.get(number)
            if volume is None:
                path = self._folder / f"volume-{number:04d}.sot"
                volume = self._open[number] = Volume(path, number, self._note_torn)
            return volume

    def _existing(self) -> list[Volume]:
        return [self._volume(number) for number in self._numbers()]

    def _numbers(self) -> list[int]:
        names = {path.stem for path in self._folder.glob("volume-[0-9][0-9][0-9][0-9].*")}
        return sorted(number for name in names if (number := int(name[7:11])) < self.volumes)

    def _note_torn(self, torn: TornTail) -> None:
        if torn in self.torn:
            return
        self.torn.append(torn)
        if self._report_torn is not None:
            self._report_torn(torn)


def _block(batch: Batch) -> tuple[Entry, bytes]:
    return make(
        Kind.BLOCK,
        batch.symbol_id,
        raw=batch.frames,
        count=batch.count,
        first_seq=batch.before.next_seq,
        epoch=batch.epoch,
        hash_=batch.after.hash,
        digest=batch.after.digest,
    )


def _judge(batch: Batch, head: Head | None) -> Outcome | None:
    """Why the batch may not be stored; None if it may."""
    if head is None:
        raise ValueError(f"symbol {batch.symbol_id} was never claimed")
    if head.epoch != batch.epoch:
        return Outcome(Answer.FENCED, head)
    if head.position != batch.before:
        return Outcome(Answer.MOVED, head)
    return None


def _first(volume: Volume, batch: Batch) -> int:
    return volume.symbols[batch.symbol_id].first_seq


def _by_symbol(records: Iterable[Parked]) -> Iterator[tuple[int, list[Parked]]]:
    ordered = sorted(records, key=lambda record: record.symbol_id)
    for symbol_id, group in groupby(ordered, lambda record: record.symbol_id):
        yield symbol_id, list(group)
