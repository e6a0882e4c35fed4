"""What goes into a vault and comes out of it, besides bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class Status(StrEnum):
    """The state of a session; `running` of a dead process means that it was killed."""

    RUNNING = "running"
    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Session:
    """One run that wrote to the vault.

    Attributes:
        id: rising, never used twice.
        kind: extract, retry, pack.
        run_id: of the run, as the UI knows it.
        parameters: what it was asked to do.
        started_at, ended_at: UTC text; None while it runs (or was killed).
        status: see `Status`.
        summary: what it found to say at its end.
    """

    id: int
    kind: str
    run_id: str
    parameters: Mapping[str, Any]
    started_at: str
    ended_at: str | None
    status: Status
    summary: Mapping[str, Any]


class Page(NamedTuple):
    """A page that was answered and stored: it need not be asked for again in its session.

    `first` and `last` are the ids at its ends: neighbouring pages overlap in one item, which shows
    that nothing moved between them.
    """

    type: str
    listing: str
    start: int
    size: int
    items: int
    first: str = ""
    last: str = ""


class Failed(NamedTuple):
    """A failure to record: of an item (`key` is its id) or of a page (see `page_key`).

    `status` is the HTTP status, None where no answer came.
    """

    type: str
    kind: str
    key: str
    status: int | None
    message: str


ITEM = "item"
PAGE = "page"


def page_key(listing: str, start: int, size: int) -> str:
    """How a failed page is called: `dashboards:300+100`."""
    return f"{listing}:{start}+{size}"


def page_of_key(key: str) -> tuple[str, int, int]:
    """Listing, start and size of a failed page's key.

    Raises:
        ValueError: it is no such key.
    """
    listing, _, numbers = key.rpartition(":")
    start, _, size = numbers.partition("+")
    return listing, int(start), int(size)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure as the vault keeps it, until what failed succeeds."""

    type: str
    kind: str
    key: str
    status: int | None
    message: str
    attempts: int
    session: int
    first_at: str
    last_at: str
    resolved_at: str | None


@dataclass(frozen=True, slots=True)
class UpsertCounts:
    """What became of a batch, in items."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    returned: int = 0

    def __add__(self, other: UpsertCounts) -> UpsertCounts:
        return UpsertCounts(
            self.new + other.new,
            self.changed + other.changed,
            self.unchanged + other.unchanged,
            self.returned + other.returned,
        )


@dataclass(frozen=True, slots=True)
class ListingOutcome:
    """How a listing ended.

    Attributes:
        scope: empty if it asked for everything; else what it was narrowed to, and then it is no
            evidence of absence.
        complete: read to its end without one failed page.
    """

    session: int
    type: str
    name: str
    scope: str
    complete: bool
    items: int
    ended_at: str


@dataclass(frozen=True, slots=True)
class Row:
    """An item as a list shows it; see `headrace.looker.vault.items.Item` for the fields."""

    type: str
    id: str
    name: str | None
    owner: str | None
    folder: str | None
    created_at: str | None
    updated_at: str | None
    deletion: str | None
    deleted_at: str | None
    first_session: int
    seen_session: int
    seen_at: str
    version: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Body:
    """One version of an item, its body as the server sent it."""

    type: str
    id: str
    version: int
    session: int
    stored_at: str
    origin: str
    hash: bytes
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an item without its body; `size_bytes` as the server sent it."""

    version: int
    session: int
    stored_at: str
    origin: str
    size_bytes: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class ItemComparison:
    """An item of which something was stored between two sessions, and how it stood at each.

    Attributes:
        type, id, name: which; the name is the present one.
        version_before: None if the vault did not have it yet.
        version_after: at the later session.
        origin_after: of that version.
        deleted_before, deleted_after: on the server, as far as was known.
        known_before: the vault had it; without a version, what it had is no longer kept.
    """

    type: str
    id: str
    name: str | None
    version_before: int | None
    version_after: int
    origin_after: str
    deleted_before: bool
    deleted_after: bool
    known_before: bool
