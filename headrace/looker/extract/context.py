"""What all parts of an extraction share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.looker.client import LookerClient
from headrace.looker.extract.progress import ExtractProgress
from headrace.looker.extract.receipts import RangeReceipt
from headrace.looker.extract.request import ExtractRequest
from headrace.looker.extract.writer import Writer
from headrace.looker.vault import Vault
from headrace.quota import OutageError
from headrace.stopping import StopEvent, Stopped

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


class Ending:
    """Ends a run whose Looker is away for longer than the outage limit.

    The limit is the run's: the first request that meets it ends all others, those in flight too.

    Args:
        stop: of the process; what ends by it was stopped on request.

    Attributes:
        stop: of the run: set with the process's, or when the outage limit has passed.
        outage: why the run ended, if it was not on request.
    """

    def __init__(self, stop: StopEvent) -> None:
        self.stop = stop.child()
        self.outage: OutageError | None = None

    @contextmanager
    def by_outage(self) -> Iterator[None]:
        """Have an `OutageError` of the request within the block end the run.

        Raises:
            Stopped: in place of it.
        """
        try:
            yield
        except OutageError as error:
            self.outage = self.outage or error
            self.stop.set()
            raise Stopped(str(error)) from error


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
        ending: ends the run when Looker is away for too long.
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
    ending: Ending
    per_s: float | None = None
    listener: Callable[[str, dict[str, object]], None] = lambda _name, _facts: None

    @property
    def stop(self) -> StopEvent:
        """Looked at before each piece and page."""
        return self.ending.stop

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
