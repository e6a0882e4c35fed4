"""What all parts of an extraction share: its session in the vault, its folders, its stop event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.looker.client import Call, LookerClient, NotFound
from headrace.looker.content_types import content_of
from headrace.looker.elements import elements_of
from headrace.looker.exceptions import UnknownFolder
from headrace.looker.extract.report import RangeReceipt
from headrace.looker.extract.request import ExtractRequest
from headrace.looker.extract.writer import Writer
from headrace.looker.vault import ITEM, Session, Status, Vault, item_of
from headrace.quota import OutageError
from headrace.run.progress import RunProgress
from headrace.stopping import Ending, StopEvent, Stopped

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
        client, vault, writer: where items come from, where they go, and what stores them.
        session: the vault's number of it.
        request: what is asked for.
        resumed: whether an earlier run began the session.
        folders: the chosen folders, those below them included; empty for no choice.
        progress: counts what comes.
        ending: ends the run when Looker is away for too long.
        per_s: requests a second that the quota sustains; None for no limit.
        listener: called with events, by name and facts.
    """

    client: LookerClient
    vault: Vault
    writer: Writer
    session: int
    request: ExtractRequest
    resumed: bool
    folders: Sequence[str]
    progress: RunProgress
    ending: Ending
    per_s: float | None = None
    listener: Callable[[str, dict[str, object]], None] = lambda _name, _facts: None

    @property
    def stop(self) -> StopEvent:
        """Looked at before each piece and page."""
        return self.ending.stop

    @contextmanager
    def ends_by_outage(self) -> Iterator[None]:
        """End the run if a request of the block waited for a Looker that is away for too long.

        The outage limit is the run's: the first request that meets it ends all others, those in
        flight too.

        Raises:
            Stopped: in place of `OutageError`.
        """
        try:
            yield
        except OutageError as error:
            self.ending.end(error)
            raise Stopped(str(error)) from error

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


KIND = "extract"

#: What was listed longer ago than this is listed again: too much may have changed meanwhile.
OLDEST = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """A session to work on, and whether an earlier run began it."""

    id: int
    resumed: bool


def choose_session(vault: Vault, request: ExtractRequest, run_id: str) -> SessionChoice:
    """Begin a session, or go on with the newest one if it is unfinished and asked for the same."""
    unfinished = vault.sessions.unfinished(KIND)
    if unfinished is not None and _goes_on(vault, unfinished, request):
        vault.sessions.resume(unfinished.id)
        return SessionChoice(unfinished.id, resumed=True)
    session = vault.sessions.begin(KIND, run_id=run_id, parameters=dict(request.scope))
    return SessionChoice(session, resumed=False)


def _goes_on(vault: Vault, old: Session, request: ExtractRequest) -> bool:
    if request.full or not request.resume:
        return False
    if dict(old.parameters) != dict(request.scope):
        return False
    if datetime.now(UTC) - datetime.fromisoformat(old.started_at) > OLDEST:
        return False
    if old.status is not Status.PARTIAL or not old.summary.get("resumed"):
        return True
    # Gone on with once already: what still fails then is not worth keeping from a new listing,
    # unless whole ranges are missing.
    return any(
        failure.session == old.id and failure.kind != ITEM for failure in vault.failures.open()
    )


def ending_of(status: str, *, cut_off: bool) -> Status:
    """The vault's word for how a run ended; what a stop or an outage cut off is gone on with."""
    if cut_off:
        return Status.INTERRUPTED
    return {"done": Status.DONE, "partial": Status.PARTIAL}.get(status, Status.FAILED)


def resolve_folders(
    client: LookerClient, folder_ids: Sequence[str], *, recursive: bool
) -> tuple[str, ...]:
    """Ids of the folders, each once, parents first.

    Raises:
        UnknownFolder: Looker has no such folder.
        RequestError: it could not be asked.
    """
    for folder_id in folder_ids:
        try:
            client.item("folder", folder_id, fields="id")
        except NotFound as error:
            raise UnknownFolder(folder_id) from error
    if not folder_ids or not recursive:
        return tuple(folder_ids)
    below = _children(client)
    chosen: dict[str, None] = {}
    waiting = list(folder_ids)
    while waiting:
        folder_id = waiting.pop(0)
        if folder_id not in chosen:  # a ring of folders ends here, too
            chosen[folder_id] = None
            waiting += below[folder_id]
    return tuple(chosen)


def _children(client: LookerClient) -> dict[str, list[str]]:
    """Folders by their parent, from one request."""
    listing = content_of("folder").listings[0]
    body = client.page(
        listing, fields="id,parent_id", call=Call(about="the folders", type="folder")
    )
    children: dict[str, list[str]] = defaultdict(list)
    for element in elements_of(body, "the folders"):
        folder = item_of("folder", element)
        if folder.folder is not None:
            children[folder.folder].append(folder.id)
    return children
