"""Is the vault whole, and is it what the server shows now?

Two questions. The first needs no server: every version of every item is decompressed and its hash
computed again. The second reads the listings (and the items whose listing has no whole body) and
compares bytes; what the listings do not show is looked up by itself before anything is said of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.looker.client import NotFound
from headrace.looker.content_types import CONTENT, TYPES, Content, Listing
from headrace.looker.elements import elements_of
from headrace.looker.exceptions import ItemRefused
from headrace.looker.extract.pages import explore_ids, id_of, listed_elements
from headrace.looker.merged_query_ids import named_ids
from headrace.looker.vault import Item, Vault, item_of
from headrace.stopping import STOP, StopEvent
from headrace.wire.exceptions import RequestError

if TYPE_CHECKING:
    from headrace.looker.client import LookerClient

_PAGE = 100


class Problem(StrEnum):
    """What is not as it should be."""

    DAMAGED = "damaged"  # the vault's own bytes are not those that were stored
    MISSING = "missing"  # the server shows it, the vault does not have it
    CHANGED = "changed"  # the server shows other bytes by now
    GONE = "gone"  # the server has it no more
    UNREADABLE = "unreadable"  # the server does not give it


@dataclass(frozen=True, slots=True)
class Finding:
    """One item that is not as it should be, and what shows it."""

    type: str
    id: str
    what: Problem
    detail: str


@dataclass
class VerifyCounts:
    """How much was looked at."""

    versions: int = 0
    compared: int = 0


def verify_hashes(
    vault: Vault, checked: VerifyCounts, *, types: Iterable[str] = (), stop: StopEvent = STOP
) -> Iterator[Finding]:
    """Recompute the hash of every version; those that do not fit are found."""
    for type_ in tuple(types) or ("",):
        for name, item_id, version, problem in vault.contents.audit(type_):
            stop.check()
            checked.versions += 1
            if problem:
                yield Finding(name, item_id, Problem.DAMAGED, f"version {version} {problem}")


class Comparison:
    """Compares a vault with the Looker it is of.

    Args:
        vault: the vault.
        client: of that Looker, with its quota.
        checked: counts as it goes.
        stop: looked at before each request.
    """

    def __init__(
        self, vault: Vault, client: LookerClient, checked: VerifyCounts, *, stop: StopEvent = STOP
    ) -> None:
        self._vault, self._client, self._checked = vault, client, checked
        self._stop = stop

    def findings(self, types: Iterable[str] = ()) -> Iterator[Finding]:
        """What is not alike, type by type.

        Raises:
            HeadraceError: a listing cannot be read.
        """
        for type_ in tuple(types) or TYPES:
            content = CONTENT[type_]
            shown: set[str] = set()
            for listing in content.listings:
                yield from self._listed(content, listing, shown)
            known = [row.id for row in self._vault.contents.rows(type_)]
            named = named_ids(self._vault, type_) if content.named_by else ()
            for item_id in dict.fromkeys((*known, *named)):
                if item_id in shown:
                    continue
                yield from self._looked_up(content, item_id)

    def _listed(self, content: Content, listing: Listing, shown: set[str]) -> Iterator[Finding]:
        for body in self._pages(listing):
            about = f"the listing {listing.name}"
            if listing.restorable:
                for element in elements_of(body, about):
                    try:
                        item = item_of(content.type, element)
                    except ItemRefused as error:
                        yield Finding(content.type, "?", Problem.UNREADABLE, error.reason)
                        continue
                    if item.id not in shown:
                        shown.add(item.id)
                        yield from self._compared(item)
                continue
            for named in listed_elements(body, about):
                found = explore_ids(named) if listing.within else [id_of(content, named, listing)]
                for item_id in found:
                    if item_id is not None and item_id not in shown:
                        shown.add(item_id)
                        yield from self._looked_up(content, item_id)

    def _pages(self, listing: Listing) -> Iterator[bytes]:
        """Pages until an empty one: a server may give fewer elements than it was asked for."""
        start = 0
        while True:
            self._stop.check()
            body = self._client.page(listing, start=start, size=_PAGE)
            count = len(elements_of(body, f"the listing {listing.name}"))
            if count:
                yield body
            if not count or not listing.paged:
                return
            start += count

    def _looked_up(self, content: Content, item_id: str) -> Iterator[Finding]:
        self._stop.check()
        try:
            body = self._client.item(content.type, item_id)
            item = item_of(content.type, body, item_id=item_id)
        except NotFound as error:
            known = self._vault.contents.row(content.type, item_id)
            what = Problem.GONE if known else Problem.UNREADABLE
            yield Finding(content.type, item_id, what, error.problem)
        except (RequestError, ItemRefused) as error:
            yield Finding(content.type, item_id, Problem.UNREADABLE, _reason(error))
        else:
            yield from self._compared(item)

    def _compared(self, item: Item) -> Iterator[Finding]:
        self._checked.compared += 1
        row = self._vault.contents.row(item.type, item.id)
        if row is None:
            yield Finding(item.type, item.id, Problem.MISSING, "the vault does not have it")
        elif row.hash != item.hash:
            detail = f"version {row.version} is not what the server shows"
            yield Finding(item.type, item.id, Problem.CHANGED, detail)


def _reason(error: HeadraceError) -> str:
    return error.reason if isinstance(error, ItemRefused) else error.message
