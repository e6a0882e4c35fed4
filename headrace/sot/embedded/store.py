"""`SotStore` in a folder of volumes: the default, for one machine."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from headrace.sot.chain import Position
from headrace.sot.embedded.entries import (
    Entry,
    Key,
    Kind,
    TornTail,
    key_of,
    make,
    pack_keys,
    pack_parked,
    unpack_parked,
)
from headrace.sot.embedded.files import (
    DEFAULT_VOLUMES,
    FILE_NAME,
    TILE_FOLDER,
    TileFiles,
    list_volumes,
    load,
    load_or_make,
    store_id,
    unavailable,
)
from headrace.sot.embedded.index import SymbolIndex, block_entry, check_batches, claim_entry
from headrace.sot.embedded.volume import Volume
from headrace.sot.exceptions import DamagedLog, StoreMisconfigured
from headrace.sot.store import Answer, Batch, BatchLimits, Block, Head, Outcome, Parked, by_symbol

#: Larger blocks share an fsync among more records; one is decompressed to read any of its records.
#: Four of a symbol share one, for what arrives while the disk is at the last ones.
_LIMITS: Final = BatchLimits(records=2000, size_bytes=1024 * 1024, together=4)
#: How many looks in a row pass over a volume that is being appended to; the next one waits.
_MOST_MISSED: Final = 5


class EmbeddedStore:
    """A folder with `store.json` and up to `volumes` files; any number of processes may use it.

    Args:
        folder: on a local disk (locks of network shares cannot be trusted).
        create: make the store if there is none.
        volumes: for a new store; an existing one keeps its number.
        report_torn: called with each torn tail that is cut; `torn` lists them too.

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
        manifest = load_or_make(self._folder, volumes) if create else load(self._folder)
        if manifest is None:
            raise StoreMisconfigured(
                str(self._folder), "there is none", hint="Write one first: headrace sot write"
            )
        self.volumes = manifest.volumes
        self.torn: list[TornTail] = []
        self._report_torn = report_torn
        self._open: dict[int, Volume] = {}
        self._mutex = threading.Lock()
        self._looks = Looks()
        self._tiles = TileFiles(self._folder / TILE_FOLDER)

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
            # Of a volume that cannot be read, its tip may still know them; `damages` names it.
            with suppress(DamagedLog), volume.reading():
                pass
            found.extend(volume.symbols)
        return sorted(found)

    def head(self, symbol_id: int) -> Head | None:
        """See `SotStore.head`."""
        with self._reading(symbol_id) as (_, index):
            if index is None:
                return None
            if index.damage is not None:
                raise index.damage
            return index.head

    def moved_heads(self, known: Mapping[int, Position]) -> Iterator[Head]:
        """See `SotStore.moved_heads`."""
        return self._looks.moved_heads(self._existing(), known)

    def claim(self, symbol_id: int, *, first_seq: int) -> Head:
        """See `SotStore.claim`."""
        return self.claim_all([symbol_id], first_seq=first_seq)[0]

    def claim_all(self, symbol_ids: Sequence[int], *, first_seq: int) -> list[Head]:
        """See `SotStore.claim_all`. Those of one volume share one write and one fdatasync."""
        heads: dict[int, Head] = {}
        for number, group in self._by_volume(
            dict.fromkeys(symbol_ids), lambda symbol_id: symbol_id
        ):

            def plan(volume: Volume, group: list[int] = group) -> list[tuple[Entry, bytes]]:
                return [claim_entry(volume.index(symbol_id), first_seq) for symbol_id in group]

            volume = self._volume(number)
            volume.append(plan)
            for symbol_id in group:
                head = volume.symbols[symbol_id].head
                if head is None:
                    raise RuntimeError(f"symbol {symbol_id} has no head after a claim")
                heads[symbol_id] = head
        return [heads[symbol_id] for symbol_id in symbol_ids]

    def commit(self, batches: Sequence[Batch]) -> list[Outcome]:
        """See `SotStore.commit`. The batches of one volume share one write and one fdatasync."""
        most = self.limits.together
        if max(Counter(batch.symbol_id for batch in batches).values(), default=0) > most:
            raise ValueError(f"at most {most} batches per symbol may be committed at once")
        made = [block_entry(batch) for batch in batches]
        outcomes: dict[int, Outcome] = {}
        places = range(len(batches))
        for number, group in self._by_volume(places, lambda place: batches[place].symbol_id):

            def plan(volume: Volume, group: list[int] = group) -> list[tuple[Entry, bytes]]:
                candidates = [batches[place] for place in group]
                answers = check_batches(candidates, lambda symbol_id: volume.index(symbol_id).head)
                outcomes.update(zip(group, answers, strict=True))
                return [
                    made[place] for place in group if outcomes[place].answer is Answer.COMMITTED
                ]

            self._volume(number).append(plan)
        return [outcomes[place] for place in places]

    def scan(
        self, symbol_id: int, *, from_seq: int = 0, to_seq: int | None = None
    ) -> Iterator[Block]:
        """See `SotStore.scan`."""
        if to_seq is not None:
            # So that reads of what is long there do not wait for an append.
            volume = self._volume_of(symbol_id)
            known = volume.known_blocks(symbol_id, from_seq, to_seq)
            if known is not None:
                return self._blocks(volume, known, None)
        with self._reading(symbol_id) as (volume, index):
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
                with volume.reading():
                    found.extend(volume.damages)
                    if volume.torn is not None:
                        self._note_torn(volume.torn)
                found.extend(self._misplaced(volume))
            except DamagedLog as error:
                found.extend(volume.damages or [error])
        return found

    def _misplaced(self, volume: Volume) -> Iterator[DamagedLog]:
        for symbol_id in volume.symbols:
            if symbol_id % self.volumes != volume.number:
                yield DamagedLog(
                    str(volume.path),
                    f"it does not belong there: {FILE_NAME} says {self.volumes} volumes, and is "
                    "not the one with which it was written",
                    symbol_id=symbol_id,
                    hint=f"Put {FILE_NAME} back from a copy of the store",
                )

    def repairs(self) -> list[str]:
        """See `SotStore.repairs`."""
        return [f"cut off {torn}" for torn in self.torn]

    def park(self, records: Iterable[Parked]) -> None:
        """See `SotStore.park`."""
        for symbol_id, group in by_symbol(records):

            def plan(
                volume: Volume, symbol_id: int = symbol_id, group: list[Parked] = group
            ) -> list[tuple[Entry, bytes]]:
                known = volume.index(symbol_id).parked
                given = {key_of(record): record for record in group}
                changed = [
                    record
                    for key, record in given.items()
                    if key not in known or known[key][1] != record.reason
                ]
                if not changed:
                    return []
                return [make(Kind.PARK, symbol_id, raw=pack_parked(changed))]

            self._volume_of(symbol_id).append(plan)

    def parked(self, symbol_id: int) -> Iterator[Parked]:
        """See `SotStore.parked`."""
        with self._reading(symbol_id) as (volume, index):
            places = sorted(index.parked.items()) if index else []
        return self._parked(volume, symbol_id, places)

    def unpark(self, records: Iterable[Parked]) -> None:
        """See `SotStore.unpark`."""
        for symbol_id, group in by_symbol(records):

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
        with self._reading(symbol_id) as (_, index):
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

    def read_tiles(self, symbol_id: int, level: int, first: int, count: int) -> list[bytes | None]:
        """See `SotStore.read_tiles`."""
        return self._tiles.read(symbol_id, level, first, count)

    def write_tile(self, symbol_id: int, level: int, number: int, tile: bytes) -> None:
        """See `SotStore.write_tile`."""
        self._tiles.write(symbol_id, level, number, tile)

    def store_id(self) -> str:
        """See `SotStore.store_id`."""
        return store_id(self._folder)

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
        self, volume: Volume, symbol_id: int, places: list[tuple[Key, tuple[int, str]]]
    ) -> Iterator[Parked]:
        held: dict[int, dict[Key, Parked]] = {}
        for key, (offset, _) in places:
            if offset not in held:
                if len(held) >= 8:
                    held.pop(next(iter(held)))
                _, raw = volume.read(offset)
                held[offset] = {key_of(record): record for record in unpack_parked(symbol_id, raw)}
            yield held[offset][key]

    def _by_volume(
        self, items: Iterable[int], symbol_of: Callable[[int], int]
    ) -> list[tuple[int, list[int]]]:
        """The items by the volume of their symbols, in their order."""
        groups: dict[int, list[int]] = {}
        for item in items:
            groups.setdefault(symbol_of(item) % self.volumes, []).append(item)
        return sorted(groups.items())

    @contextmanager
    def _reading(self, symbol_id: int) -> Iterator[tuple[Volume, SymbolIndex | None]]:
        """The symbol's volume, held still, and what it holds of the symbol.

        Raises:
            DamagedLog: the volume cannot be read; the symbol's own damage if it is known.
        """
        volume = self._volume_of(symbol_id)
        with ExitStack() as held:
            try:
                held.enter_context(volume.reading())
            except DamagedLog as error:
                index = volume.symbols.get(symbol_id)
                raise (index and index.damage) or error from None
            yield volume, volume.symbols.get(symbol_id)

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
        try:
            numbers = {number for number, _ in list_volumes(self._folder)}
        except OSError as error:
            raise unavailable(self._folder, "listing its volumes", error) from error
        return sorted(number for number in numbers if number < self.volumes)

    def _note_torn(self, torn: TornTail) -> None:
        if torn in self.torn:
            return
        self.torn.append(torn)
        if self._report_torn is not None:
            self._report_torn(torn)


class Looks:
    """Remembers which volumes could not be looked into, since an append was under way."""

    def __init__(self) -> None:
        self._missed: dict[int, int] = {}

    def moved_heads(
        self, volumes: Iterable[Volume], known: Mapping[int, Position]
    ) -> Iterator[Head]:
        """See `SotStore.moved_heads`."""
        damage: DamagedLog | None = None
        for volume in volumes:
            try:
                if volume.unread:
                    self._look_into(volume)
            except DamagedLog as error:
                damage = damage or error
            except OSError as error:
                raise unavailable(volume.path, "reading", error) from error
            for index in volume.symbols.values():
                head = index.head
                if head is not None and known.get(head.symbol_id) != head.position:
                    yield head
            damage = damage or next(iter(volume.damages), None)
        if damage is not None:
            raise damage

    def _look_into(self, volume: Volume) -> None:
        missed = self._missed.pop(volume.number, 0)
        if missed >= _MOST_MISSED:
            with volume.reading():
                return
        if not volume.look():
            self._missed[volume.number] = missed + 1
