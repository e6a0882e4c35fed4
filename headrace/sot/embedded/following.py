"""Looks at volumes for a reader that follows the log: often, and seldom in the way of a writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headrace.sot.chain import Position
from headrace.sot.embedded.volume import Volume
from headrace.sot.exceptions import DamagedLog, StoreUnavailable
from headrace.sot.store import Head

#: How many looks in a row pass over a volume that is being appended to; the next one waits.
_MOST_MISSED: Final = 5


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
                reason = error.strerror or str(error)
                raise StoreUnavailable(str(volume.path), "reading", reason) from error
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
