"""What all parts of an extraction share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.looker.client import LookerClient
from headrace.looker.extract.progress import ExtractProgress
from headrace.looker.extract.receipts import RangeReceipt
from headrace.looker.extract.request import ExtractRequest
from headrace.looker.extract.writer import Writer
from headrace.looker.vault import Vault
from headrace.stopping import StopEvent

#: Maps work of a kind (`pages`, `items`, `look up`) over its pieces, and gives back what became of
#: each. A piece is a key (the listing, or "") with starts of pages or with ids.
Piece = tuple[str, tuple[str, ...]]
Mapper = Callable[[str, Iterator[Piece]], Iterable[RangeReceipt]]

#: Where there is no quota, so many requests are one piece of work; see docs/adr/0001.
_PAGES, _ITEMS = 8, 40
#: With more workers than this the pieces are halved, so that all of them have some to the end.
_MANY = 8
#: With one, a piece lasts about so long at its rate.
_PIECE_S = 3.0


@dataclass(frozen=True, slots=True)
class Context:
    """One extraction under way.

    Args:
        client, vault, writer: whence, whither, and by whom.
        session: the vault's number of it.
        request: what is asked for.
        resumed: whether an earlier run began the session.
        folders: the chosen folders, those below them included; empty for no choice.
        progress: told of what comes.
        stop: looked at before each piece and page.
        per_s: requests a second that the quota sustains; None for no limit.
        listener: told of events, by name and facts.
    """

    client: LookerClient
    vault: Vault
    writer: Writer
    session: int
    request: ExtractRequest
    resumed: bool
    folders: Sequence[str]
    progress: ExtractProgress
    stop: StopEvent
    per_s: float | None = None
    listener: Callable[[str, dict[str, object]], None] = lambda _name, _facts: None

    @property
    def pages_per_piece(self) -> int:
        """Pages that one piece of work reads."""
        if self.per_s is None:
            return _PAGES if self.request.workers <= _MANY else _PAGES // 2
        return max(1, min(_PAGES, round(self.per_s * _PIECE_S / self.request.workers)))

    @property
    def items_per_piece(self) -> int:
        """Items that one piece of work fetches."""
        if self.per_s is None:
            return _ITEMS
        return max(1, min(_ITEMS, round(self.per_s * _PIECE_S)))


def pieces_of(key: str, values: Iterable[object], size: int) -> Iterator[Piece]:
    """Values in groups, taken only as they are wanted."""
    group: list[str] = []
    for value in values:
        group.append(str(value))
        if len(group) == size:
            yield key, tuple(group)
            group = []
    if group:
        yield key, tuple(group)
