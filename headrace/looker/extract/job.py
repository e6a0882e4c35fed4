"""One content type of an extraction, from its listings to the proof of what is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.looker.content_types import Content, content_of
from headrace.looker.extract.context import Context, Mapper, pieces_of
from headrace.looker.extract.items import ItemFetcher
from headrace.looker.extract.listing import ListingReader, Scope
from headrace.looker.extract.pages import Known
from headrace.looker.extract.report import RangeReceipt, TypeReceipt
from headrace.looker.merged_query_ids import named_ids
from headrace.looker.vault import ITEM, PAGE, page_of_key
from headrace.run.report import Status
from headrace.stopping import Stopped

PAGES, ITEMS, LOOK_UP = "pages", "items", "look up"

#: What incremental runs read by names and times; see `Known`.
_LIGHT = ("look", "dashboard")
#: A list that seems to end early so often is not one that can be read.
_MOST_ENDS = 50


@dataclass
class TypeJob:
    """Extracts one type. `run` is for its own thread; `do` for those of the pool.

    Args:
        context: the extraction.
        content: the type.
    """

    context: Context
    content: Content
    _readers: dict[str, ListingReader] = field(default_factory=dict)
    _shown: set[str] = field(default_factory=set)
    _deleted: int = 0
    _missing: list[str] = field(default_factory=list)
    _errors: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, context: Context, type_: str) -> TypeJob:
        """The job of a type by its name."""
        return cls(context, content_of(type_))

    def __post_init__(self) -> None:
        self.fetcher = ItemFetcher(self.context, self.content)
        self.complete = False

    def do(self, kind: str, key: str, values: tuple[str, ...]) -> RangeReceipt:
        """Do one piece of work."""
        match kind:
            case "pages":
                return self._readers[key].read_many(values)
            case "items":
                return self.fetcher.fetch_many(values)
            case _:
                return self.fetcher.look_up_many(values)

    def run(self, mapper: Mapper) -> TypeReceipt:
        """Extract the type. What can go wrong with it is in the receipt, never raised.

        Args:
            mapper: has `do` called for every piece of work, many at once.
        """
        try:
            self._run(mapper)
        except Stopped as stopped:
            self._errors.insert(0, str(self.context.ending.cause or stopped))
        except HeadraceError as error:
            self._errors.append(str(error))
        receipt = self.receipt()
        self.context.progress.end(self.content.type, receipt.status.value, receipt.error)
        return receipt

    def receipt(self) -> TypeReceipt:
        """What became of the type so far."""
        type_, vault, session = self.content.type, self.context.vault, self.context.session
        done = self.context.writer.tally(type_)
        failures = [f for f in vault.failures.open(types=[type_]) if f.session == session]
        names = tuple(
            f.key + (f" ({f.status})" if f.status else "") for f in failures if f.kind == ITEM
        )
        missing = tuple(
            dict.fromkeys([*self._missing, *(_range(f.key) for f in failures if f.kind == PAGE)])
        )
        todo = len(vault.progress.todo(session, type_, limit=1))
        error = self._errors[0] if self._errors else ""
        brought = done.new + done.changed + done.unchanged
        if self.complete and not (missing or names or todo or error):
            status = Status.DONE
        elif brought or self._shown or self.context.resumed:
            status = Status.PARTIAL
        else:
            status = Status.FAILED
        return TypeReceipt(
            type_,
            status,
            items=sum(vault.contents.counts().get(type_, (0, 0))[:1]),
            new=done.new,
            changed=done.changed,
            unchanged=done.unchanged,
            returned=done.returned,
            deleted=self._deleted,
            requests=self.context.client.stats.requests_for(type_),
            missing=missing,
            failures=names,
            complete=self.complete,
            resumed=self.context.resumed,
            error=error,
        )

    # -- stages ---------------------------------------------------------------------------------

    def _run(self, mapper: Mapper) -> None:
        type_, progress = self.content.type, self.context.progress
        held = self.context.vault.contents.counts().get(type_, (0, 0))[0]
        progress.begin(type_, "listing", held)
        if self.content.named_by:
            self._named(mapper)
            return
        known = Known.of(self.context.vault, type_) if self._incremental(held) else Known()
        if type_ == "folder" and self.context.folders:
            # The folders themselves were chosen by their ids; no listing narrows to them.
            whole = True
            self._items(mapper, self.context.folders)
        else:
            scopes = self._scopes(light=bool(known.rows))
            whole = True
            for scope in scopes:
                whole &= self._listing(mapper, scope, known)
            self._too_many_for_one_by_one(mapper, known)
            self._items(mapper, ())
        self.context.stop.check()
        self.complete = whole
        if whole and not self.context.folders and not self._missing:
            self._deletion(mapper)

    def _named(self, mapper: Mapper) -> None:
        """What the bodies in the vault name and it does not hold yet; it never changes."""
        type_, vault = self.content.type, self.context.vault
        named = set(named_ids(vault, type_))
        for failure in vault.failures.open(types=[type_]):
            if failure.key not in named:
                vault.failures.resolve(type_, failure.kind, failure.key)
        missing = [i for i in sorted(named) if vault.contents.row(type_, i) is None]
        self._items(mapper, missing)
        self.context.stop.check()
        self.complete = True

    def _incremental(self, held: int) -> bool:
        return self.context.request.incremental and self.content.type in _LIGHT and held > 0

    def _scopes(self, *, light: bool) -> list[Scope]:
        narrowed = self.content.type in ("look", "dashboard") and self.context.folders
        scopes = []
        for listing in self.content.listings:
            of_lookml = listing.name == "lookml_dashboards"
            if not narrowed:
                scopes.append(Scope(listing, light=light and not of_lookml))
            elif not of_lookml:  # LookML dashboards lie in no folder of their own
                scopes += [Scope(listing, folder, light) for folder in self.context.folders]
        return scopes

    def _listing(self, mapper: Mapper, scope: Scope, known: Known, *, again: bool = False) -> bool:
        """Read one listing to its end; whether that succeeded."""
        context = self.context
        reader = ListingReader(context, self.content, scope, known, self.fetcher, self._shown)
        self._readers[scope.key] = reader
        if reader.done and not again:
            return True
        context.stop.check()
        reader.begin()
        whole = not reader.failed
        if whole and scope.listing.paged:
            whole = self._pages(mapper, reader, scope.key)
        if reader.failed:
            self._missing += reader.missing
            self._errors.append(next(iter(reader.failed.values())))
        reader.record(complete=whole)
        return whole

    def _pages(self, mapper: Mapper, reader: ListingReader, key: str) -> bool:
        """Everything behind the first page, until the end is proven and every joint holds."""
        for _ in range(_MOST_ENDS):
            pieces = pieces_of(key, reader.starts(), self.context.pages_per_piece)
            self._map(mapper, PAGES, pieces)
            self.context.stop.check()
            if reader.failed:
                if reader.chain.end() is None:
                    self._missing.append(f"{key}: its end")
                return False
            try:
                ended = reader.prove_end()
            except Stopped:
                raise
            except HeadraceError as error:
                self._missing.append(f"{key}: its end")
                self._errors.append(str(error))
                return False
            if ended:
                break
        else:
            self._missing.append(f"{key}: its end")
            self._errors.append(f"{key} seems to end again and again")
            return False
        try:
            reader.reread_joints()
        except Stopped:
            raise
        except HeadraceError as error:
            self._missing.append(f"{key}: a joint")
            self._errors.append(str(error))
            return False
        return True

    def _too_many_for_one_by_one(self, mapper: Mapper, known: Known) -> None:
        """Where more has changed than there are pages, whole pages cost fewer requests."""
        listing = self.content.listings[0]
        if not known.rows or not listing.restorable or self.context.folders:
            return
        changed = len(self.context.vault.progress.todo(self.context.session, self.content.type))
        pages = len(known.rows) // self.context.request.batch_size + 2
        if changed > pages:
            self._listing(mapper, Scope(listing), known, again=True)

    def _items(self, mapper: Mapper, ids: Sequence[str]) -> None:
        """Bodies that cost a request each, those that failed in this session before included."""
        type_, vault, session = self.content.type, self.context.vault, self.context.session
        todo = [*ids, *vault.progress.todo(session, type_)]
        if self.context.resumed:
            todo += [
                failure.key
                for failure in vault.failures.open(types=[type_], kind=ITEM)
                if failure.session == session and not self._is_place(failure.key)
            ]
        if not todo:
            return
        self.context.progress.begin(type_, "fetching", self._so_far() + len(todo))
        self._map(mapper, ITEMS, pieces_of("", dict.fromkeys(todo), self.context.items_per_piece))

    def _is_place(self, key: str) -> bool:
        """Whether a failure names a place in a listing, because the element had no id."""
        return any(key.startswith(f"{listing.name}:") for listing in self.content.listings)

    def _so_far(self) -> int:
        return self.context.progress.part(self.content.type).done

    def _deletion(self, mapper: Mapper) -> None:
        """Look up what the vault holds and the listings did not show."""
        type_, vault = self.content.type, self.context.vault
        gone = vault.listings.absent(self.context.session, type_)
        if gone:
            self.context.progress.begin(type_, "looking up what is absent")
            before = vault.contents.counts().get(type_, (0, 0))[1]
            self._map(mapper, LOOK_UP, pieces_of("", gone, self.context.items_per_piece))
            self.context.stop.check()
            self._deleted = vault.contents.counts().get(type_, (0, 0))[1] - before
        if self.context.resumed:
            return
        for failure in vault.failures.open(types=[type_]):
            # It failed in an earlier session, and no listing shows it any more: it is no item now.
            stale = failure.session < self.context.session
            if stale and (failure.kind == PAGE or failure.key not in self._shown):
                vault.failures.resolve(type_, failure.kind, failure.key)

    def _map(
        self, mapper: Mapper, kind: str, pieces: Iterator[tuple[str, tuple[str, ...]]]
    ) -> None:
        for receipt in mapper(kind, pieces):
            if receipt.error:
                self._errors.append(receipt.error)


def _range(key: str) -> str:
    """The name of a range; of a listing without pages that of the listing."""
    listing, _start, size = page_of_key(key)
    return key if size else listing
