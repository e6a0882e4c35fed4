"""One listing of a type: its pages read by many threads, its end and its joints proven."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.looker.client import AppError, Call
from headrace.looker.content_types import Content, Listing
from headrace.looker.elements import elements_of
from headrace.looker.exceptions import ItemRefused, ListingShifts
from headrace.looker.extract.context import Context
from headrace.looker.extract.items import ItemFetcher
from headrace.looker.extract.pages import (
    Chain,
    Known,
    ListedElement,
    ReadPage,
    bridges,
    explore_ids,
    id_of,
    light_fields,
    listed_elements,
)
from headrace.looker.extract.report import RangeReceipt
from headrace.looker.extract.writer import Batch, Ticket
from headrace.looker.vault import ITEM, PAGE, Failed, Item, Page, item_of, page_key
from headrace.stopping import StopEvent, Stopped
from headrace.wire.exceptions import BadAnswer, RequestError, RequestTimeout, RetriesExhausted

#: Without bodies, a page may be so many times longer.
LIGHT_FACTOR = 10
#: Windows read at one joint before the listing is called unstable.
_WINDOWS = 6
#: Pages that may fail behind the last one that came before no further ones are asked for.
_MOST_FAILED_BEHIND = 20
#: Failures behind which one element of a page may stand, rather than the server as a whole.
_OF_ONE_ELEMENT = (AppError, RequestTimeout, BadAnswer)


@dataclass(frozen=True, slots=True)
class Scope:
    """A listing, and what it is narrowed to.

    Args:
        listing: which.
        folder: only what is in this folder; empty for everything.
        light: read names only, and put what is new or changed on the to-do list.
    """

    listing: Listing
    folder: str = ""
    light: bool = False

    @property
    def key(self) -> str:
        """Under which the vault keeps its pages."""
        return self.name + ("~" if self.light and self.listing.restorable else "")

    @property
    def name(self) -> str:
        """Under which the vault keeps how it ended."""
        return self.listing.name + (f"@{self.folder}" if self.folder else "")

    @property
    def words(self) -> str:
        """What it is narrowed to, as the vault records it; empty for everything."""
        return f"folder {self.folder}" if self.folder else ""


@dataclass
class ListingReader:
    """Reads one listing. `read` is for many threads; the rest for the type's own.

    Args:
        context, content, scope: which.
        known: what the vault holds of the type, for light listings.
        fetcher: fetches single items, for pages that cannot be had whole.
        shown: ids that listings of this run have shown; shared by those of the type.
    """

    context: Context
    content: Content
    scope: Scope
    known: Known
    fetcher: ItemFetcher
    shown: set[str]
    failed: dict[int, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: dict[int, StopEvent] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size = self.context.request.batch_size
        self.chain = Chain(size * LIGHT_FACTOR if self._bare else size)
        stored = self.context.vault.progress.pages(
            self.context.session, self.content.type, self.scope.key
        )
        for page in stored:
            self.chain.add(ReadPage.of(page))
        if self.scope.listing.paged and stored:
            # An earlier run found out how much the server gives.
            usual = max(page.size for page in stored)
            self.chain.stride = max(1, min(self.chain.stride, usual - 1))

    @property
    def _bare(self) -> bool:
        """Whether pages come without bodies although the listing has them."""
        return self.scope.light and self.scope.listing.restorable

    @property
    def done(self) -> bool:
        """Whether an earlier run has read it to its end already."""
        found = self.context.vault.listings.of(self.context.session)
        return any(
            listed.complete and listed.type == self.content.type and listed.name == self.scope.name
            for listed in found
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """What was tried and not read, by name."""
        return tuple(self._name(start) for start in sorted(self.failed))

    def begin(self) -> None:
        """Read the first page, which shows whether there is more, unless it is stored."""
        if 0 not in self.chain.pages:
            ticket = self.read(0)
            if ticket is not None:
                ticket.result()

    def starts(self) -> Iterator[int]:
        """Where pages are still to be read; asked for one at a time, as others come in.

        Where no page says where the list ends, so many failures behind the last page that came
        are the end of the attempt.
        """
        tried: set[int] = set()
        while True:
            with self._lock:
                start = next((s for s in self.chain.starts() if s not in tried), None)
                if start is None or self._failed_behind() >= _MOST_FAILED_BEHIND:
                    return
            tried.add(start)
            yield start

    def read_many(self, starts: tuple[str, ...]) -> RangeReceipt:
        """Read some pages, and wait until they are in the vault."""
        tickets: list[Ticket] = []
        failed, error = 0, ""
        for start in map(int, starts):
            if self.context.stop.is_set():
                break
            try:
                ticket = self.read(start)
            except Stopped:
                break
            if ticket is not None:
                tickets.append(ticket)
            if start in self.failed:
                failed += 1
                error = error or self.failed[start]
        for ticket in tickets:
            ticket.result()
        return RangeReceipt(len(tickets) - failed, failed, error)

    def read(self, start: int) -> Ticket | None:
        """Read one page and hand it, or its failure, to the writer; None if it is behind the end.

        Raises:
            Stopped: the run was asked to stop.
        """
        with self._lock:
            if start and self.chain.beyond(start):
                return None
            waiting = self._waiting[start] = self.context.stop.child()
        try:
            body = self._asked(start, waiting)
        except Stopped:
            if self.context.stop.is_set():
                raise
            return None  # the end was found meanwhile
        except HeadraceError as error:
            return self._failed(start, error)
        finally:
            with self._lock:
                self._waiting.pop(start, None)
        try:
            return self._keep(start, body)
        except BadAnswer as error:
            return self._failed(start, error)

    def prove_end(self) -> bool:
        """Whether nothing lies behind the last page: asked of the server.

        False if there is more: then `starts` has more to give.
        """
        if not self.scope.listing.paged:
            return True
        pages = self.chain.in_order()
        if not pages:
            return True
        last = pages[-1]
        start = last.end - 1 if last.count > 1 else last.end
        page, batch = self._read_page(start, self._asked(start, self.context.stop), whole=True)
        if page.count == 0 or (page.count == 1 and page.ids[0] == last.ids[-1]):
            return True
        self.context.writer.put(batch).result()
        with self._lock:
            self.chain.not_the_end(last)
            self.chain.add(page)
            if last.start == 0 and page.count == last.count:
                self.chain.clamp(last.count)
        return False

    def reread_joints(self) -> None:
        """Read again around the joints at which the list has moved.

        Raises:
            ListingShifts: it moves faster than that.
        """
        for before, after in self.chain.breaks():
            self._reread_joint(before, after)

    def record(self, *, complete: bool) -> None:
        """Say in the vault how the listing ended."""
        self.context.vault.listings.record(
            self.context.session,
            self.content.type,
            self.scope.name,
            complete=complete,
            items=self.chain.items(),
            scope=self.scope.words,
        )

    def _failed_behind(self) -> int:
        """How many pages have failed behind the last one that came; the lock is held."""
        last = max(self.chain.pages, default=-1)
        return sum(start > last for start in self.failed)

    # -- one page -------------------------------------------------------------------------------

    def _asked(self, start: int, stop: StopEvent, *, fields: str = "") -> bytes:
        listing, folder = self.scope.listing, self.scope.folder
        params = {"folder_id": folder} if folder else {}
        if self.content.type in ("dashboard", "look") and listing.name != "lookml_dashboards":
            params["deleted"] = "false"
        light = self.scope.light or not listing.restorable
        with self.context.ends_by_outage():
            return self.context.client.page(
                listing,
                start=start,
                size=self.chain.asked,
                fields=fields or (light_fields(self.content, listing) if light else ""),
                params=params,
                call=Call(about=self._name(start), type=self.content.type, stop=stop),
            )

    def _keep(self, start: int, body: bytes) -> Ticket:
        page, batch = self._read_page(start, body)
        ticket = self.context.writer.put(batch)
        with self._lock:
            self.failed.pop(start, None)
            self.chain.add(page)
            end = self.chain.end()
            for waiting, stop in self._waiting.items():
                if end is not None and waiting >= end:
                    stop.set()
        self.context.progress.add(self.content.type, done=len(batch.items))
        return ticket

    def _read_page(self, start: int, body: bytes, *, whole: bool = False) -> tuple[ReadPage, Batch]:
        """What is on a page; its last element, if it is full, comes again with the next one.

        `whole` takes that one as well: there may be no next page.
        """
        about = self._name(start)
        if self.scope.light or not self.scope.listing.restorable:
            return self._names(start, listed_elements(body, about))
        elements = elements_of(body, about)
        items: list[Item] = []
        failures: list[Failed] = []
        ids: list[str] = []
        for at, element in enumerate(elements):
            try:
                item = item_of(self.content.type, element)
            except ItemRefused as error:
                # Named by its place: it has no other name.
                place = f"{self.scope.key}:{start + at}"
                failures.append(Failed(self.content.type, ITEM, place, None, str(error)))
                ids.append(f"?{place}")
            else:
                items.append(item)
                ids.append(item.id)
        page = self._page(start, ids)
        if items and self._comes_again(page, whole=whole) and items[-1].id == ids[-1]:
            items.pop()
        self.shown.update(item.id for item in items)
        batch = Batch(self.content.type, items, [self._stored(page)], failures)
        if failures:
            self.context.progress.add(self.content.type, failed=len(failures))
        return page, batch

    def _names(self, start: int, found: list[ListedElement]) -> tuple[ReadPage, Batch]:
        """A page of names: what is known and unchanged is seen, the rest is to be fetched."""
        failures: list[Failed] = []
        elements: list[str] = []
        seen: list[str] = []
        todo: list[str] = []
        for at, named in enumerate(found):
            item_id = id_of(self.content, named, self.scope.listing)
            if self.scope.listing.within:
                elements.append(str(named.name))
                ids = explore_ids(named)
                seen += ids
                todo += ids
            elif item_id is None and self.scope.listing.id_field:
                elements.append(f"-{start + at}")  # the folder of LookML has no access of its own
            elif item_id is None:
                place = f"{self.scope.key}:{start + at}"
                said = "a listing names an element without an id"
                failures.append(Failed(self.content.type, ITEM, place, None, said))
                elements.append(f"?{place}")
            else:
                elements.append(item_id)
                seen.append(item_id)
                if not (self.scope.light and self.known.unchanged(item_id, named)):
                    todo.append(item_id)
        page = self._page(start, elements)
        self.shown.update(seen)
        if self.scope.light:
            self.context.progress.add(self.content.type, done=len(seen) - len(todo))
        return page, Batch(self.content.type, (), [self._stored(page)], failures, seen, todo)

    def _comes_again(self, page: ReadPage, *, whole: bool) -> bool:
        return self.scope.listing.paged and page.full and not whole

    def _page(self, start: int, ids: list[str]) -> ReadPage:
        asked = self.chain.asked if self.scope.listing.paged else 0
        return ReadPage(start, asked, tuple(ids), len(ids))

    def _stored(self, page: ReadPage) -> Page:
        first, last = (page.ids[0], page.ids[-1]) if page.ids else ("", "")
        return Page(
            self.content.type, self.scope.key, page.start, page.asked, page.count,
            _plain(first), _plain(last),
        )  # fmt: skip

    def _failed(self, start: int, error: HeadraceError) -> Ticket:
        """Try the page's items one by one if one of them may be to blame; else name the range."""
        cause = error.__cause__ if isinstance(error, RetriesExhausted) else error
        if isinstance(cause, _OF_ONE_ELEMENT) and self.scope.listing.restorable:
            try:
                return self._one_by_one(start)
            except Stopped:
                raise
            except HeadraceError as more:
                error = more if isinstance(more, RetriesExhausted) else error
        status = error.status if isinstance(error, RequestError) else None
        with self._lock:
            self.failed[start] = str(error)
        size = self.chain.asked if self.scope.listing.paged else 0
        failed = Failed(
            self.content.type, PAGE, page_key(self.scope.key, start, size), status, str(error)
        )
        self.context.progress.add(self.content.type, failed=1)
        self.context.listener(
            "range-failed", {"type": self.content.type, "range": self._name(start)}
        )
        return self.context.writer.put(Batch(self.content.type, failures=[failed]))

    def _one_by_one(self, start: int) -> Ticket:
        """The page's items, each by itself: what cannot be had costs no other."""
        names = ",".join(dict.fromkeys(f.partition("::")[0] for f in self.content.id_fields))
        found = listed_elements(
            self._asked(start, self.context.stop, fields=names), self._name(start)
        )
        ids = [id_of(self.content, named, self.scope.listing) for named in found]
        whole = [item_id for item_id in ids if item_id is not None]
        self.shown.update(whole)
        for item_id in whole:
            self.fetcher.fetch(item_id)
        page = self._page(start, [item_id or f"?{at}" for at, item_id in enumerate(ids)])
        ticket = self.context.writer.put(
            Batch(self.content.type, pages=[self._stored(page)], seen=whole)
        )
        with self._lock:
            self.failed.pop(start, None)
            self.chain.add(page)
        return ticket

    def _reread_joint(self, before: ReadPage, after: ReadPage) -> None:
        """Read windows around a joint until one shows both sides of it."""
        half = max(1, self.chain.stride // 2)
        for window in range(_WINDOWS):
            self.context.stop.check()
            start = max(0, after.start - half * (window + 1))
            body = self._asked(start, self.context.stop)
            page, batch = self._read_page(start, body, whole=True)
            # The window is no page of the plan: what it shows is kept, its place is not.
            kept = Batch(batch.type, batch.items, (), batch.failures, batch.seen, batch.todo)
            self.context.writer.put(kept).result()
            if bridges(before, after, page.ids):
                return
        raise ListingShifts(self.content.type, self.scope.key, after.start)

    def _name(self, start: int) -> str:
        if not self.scope.listing.paged:
            return self.scope.key
        return page_key(self.scope.key, start, self.chain.asked)


def _plain(text: str) -> str:
    """An id that SQLite can keep; one that it cannot names no joint."""
    return text if text.isprintable() else ascii(text)
