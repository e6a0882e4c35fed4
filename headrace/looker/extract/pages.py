"""The pages of a listing: what an element says of itself, and how pages join.

A page begins at a multiple of its size and asks for one element more than that: the first of the
next one. Where the two agree nothing has moved between the two requests; so, by induction, every
element that was there all the time has been seen. A page that is not full may be the end, or a
server that gives less than it is asked for: only an answer with the last element alone proves it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from headrace.looker.content_types import SEPARATOR, Content, Listing
from headrace.looker.vault import Page, Vault
from headrace.looker.vault.items import id_text, server_time, shown
from headrace.wire.exceptions import BadAnswer


class ListedElement(msgspec.Struct):
    """What a listing says of an element without its body."""

    id: Any = None
    dashboard_id: Any = None
    name: Any = None
    title: Any = None
    updated_at: Any = None
    deleted_at: Any = None
    folder_id: Any = None
    content_metadata_id: Any = None
    explores: list[dict[str, Any]] | None = None


_NAMED = msgspec.json.Decoder(list[ListedElement])


def listed_elements(body: bytes, about: str) -> list[ListedElement]:
    """What each element says of itself.

    Raises:
        BadAnswer: the body is no array of objects.
    """
    try:
        return _NAMED.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            found = json.loads(body)
            if not isinstance(found, list):
                raise TypeError(f"a JSON {type(found).__name__}")
            return [msgspec.convert(each, ListedElement) for each in found]
        except (ValueError, TypeError, RecursionError, msgspec.ValidationError) as error:
            raise BadAnswer(
                f"the body is no list of objects ({error})", product=about, status=200
            ) from error


def id_of(content: Content, named: ListedElement, listing: Listing) -> str | None:
    """The id of an element of a listing; None if it has none."""
    for name in (listing.id_field,) if listing.id_field else content.id_fields:
        if SEPARATOR not in name:
            found = id_text(getattr(named, name, None))
            if found is not None:
                return found
    return None


def light_fields(content: Content, listing: Listing) -> str:
    """The fields that name an element and show whether it changed."""
    if listing.within:
        return f"name,{listing.within}(name)"
    if content.type == "lookml_model":
        return "name"
    if content.parts:
        return listing.id_field or "id"
    return "id,dashboard_id,title,name,updated_at,deleted_at,folder_id"


def explore_ids(model: ListedElement) -> list[str]:
    """Ids of the explores of a model."""
    stem = id_text(model.name)
    names = [id_text(explore.get("name")) for explore in model.explores or ()]
    return [f"{stem}{SEPARATOR}{name}" for name in names if stem and name]


@dataclass(slots=True)
class Known:
    """The times and names of a type's items, by id."""

    rows: dict[str, tuple[str | None, str | None, str | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, vault: Vault, type_: str) -> Known:
        """Those of the vault that are not deleted."""
        return cls(
            {row.id: (row.updated_at, row.name, row.folder) for row in vault.contents.rows(type_)}
        )

    def unchanged(self, item_id: str, named: ListedElement) -> bool:
        """Whether an element of a listing says that the body is the one that is stored.

        Without a time of change nothing can be said, and it is not.
        """
        row = self.rows.get(item_id)
        if row is None or not isinstance(named.updated_at, str) or named.deleted_at:
            return False
        updated_at, name, folder = row
        title, folder_id = named.title, id_text(named.folder_id)
        return (
            server_time(named.updated_at) == updated_at
            and (not isinstance(title, str) or shown(title) == name)
            and (folder_id is None or folder_id == folder)
        )


@dataclass(slots=True)
class ReadPage:
    """A page that was read.

    Args:
        start, asked: offset, and limit.
        ids: of its elements in their order; of a page from an earlier run, those at its ends.
        count: how many elements it had.
    """

    start: int
    asked: int
    ids: tuple[str, ...]
    count: int

    @property
    def end(self) -> int:
        """One past the place of its last element."""
        return self.start + self.count

    @property
    def full(self) -> bool:
        """Whether it has as many elements as were asked for."""
        return self.count >= self.asked

    @classmethod
    def of(cls, page: Page) -> ReadPage:
        """A page that the vault knows of."""
        ends = (page.first, page.last) if page.items > 1 else (page.first,)
        return cls(page.start, page.size, ends if page.items else (), page.items)


@dataclass(slots=True)
class Chain:
    """The pages of one listing, as far as they are read. Guard it by a lock of your own.

    Args:
        stride: how far apart pages begin; each asks for one element more.
    """

    stride: int
    pages: dict[int, ReadPage] = field(default_factory=dict)

    @property
    def asked(self) -> int:
        """The limit of a page."""
        return self.stride + 1

    def add(self, page: ReadPage) -> None:
        """One more page."""
        self.pages[page.start] = page

    def in_order(self) -> list[ReadPage]:
        """The pages that have elements, by their place."""
        return [self.pages[start] for start in sorted(self.pages) if self.pages[start].count]

    def end(self) -> int | None:
        """Where a page that is not full says that the list ends; None if all are full."""
        return min((page.end for page in self.pages.values() if not page.full), default=None)

    def beyond(self, start: int) -> bool:
        """Whether a page from `start` on can hold nothing new, as far as is known."""
        end = self.end()
        return end is not None and end <= start

    def not_the_end(self, page: ReadPage) -> None:
        """There is something behind a page that was not full: it is as full as it gets."""
        page.asked = page.count
        # Nothing can be said of empty pages behind it either, until they are asked again.
        for start in [s for s, other in self.pages.items() if s >= page.end and not other.count]:
            del self.pages[start]

    def clamp(self, most: int) -> None:
        """The server gives `most` elements at most, whatever the limit: take smaller strides."""
        self.stride = max(1, most - 1)
        for page in self.pages.values():
            page.asked = min(page.asked, most)

    def starts(self) -> Iterator[int]:
        """Where pages are to be read, in order, until one shows the end; may go on a little."""
        start = 0
        while not self.beyond(start):
            if start not in self.pages:
                yield start
            start += self.stride

    def breaks(self) -> list[tuple[ReadPage, ReadPage]]:
        """Neighbours that do not agree on the element between them."""
        return [pair for pair in itertools.pairwise(self.in_order()) if not joined(*pair)]

    def items(self) -> int:
        """How many elements the pages hold, those in two of them counted once."""
        pages = self.in_order()
        joints = sum(joined(*pair) for pair in itertools.pairwise(pages))
        return sum(page.count for page in pages) - joints


def joined(before: ReadPage, after: ReadPage) -> bool:
    """Whether the last element of one page is the first of the next."""
    return bool(before.ids and after.ids) and before.ids[-1] == after.ids[0]


def bridges(before: ReadPage, after: ReadPage, between: Iterable[str]) -> bool:
    """Whether a page read later shows both neighbours, and so everything between them."""
    shown = set(between)
    return not shown.isdisjoint(before.ids) and not shown.isdisjoint(after.ids)
