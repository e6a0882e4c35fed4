"""What a manifest states of a product, and how its parts are listed (docs/manifests.md).

A manifest is small; the parts stand in lists of so many each beside it, named by the SHA-256 of
their bytes. Most lists stay as they are from one manifest to the next, so that a manifest a night
of a product with thousands of parts costs one list, not all.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from headrace.coverage import Range
from headrace.lake.answer_evidence import Answer
from headrace.lake.digest import ContentDigest
from headrace.lake.encoding import PartFooter
from headrace.lake.names import PartName

MANIFEST_TYPE = "headrace.lake-manifest.v1"
HEAD_TYPE = "headrace.lake-head.v1"
#: Parts of one list.
LIST_PARTS = 1_000

Statement = TypeVar("Statement", bound=msgspec.Struct)


class ChangeKind(StrEnum):
    """How a range of ids differs from what the last manifest says of it."""

    NEW = "new"  #: no part answered for it
    MERGED = "merged"  #: other parts answer for it, with the same rows
    HEALED = "healed"  #: the same rows, written again; or trades that came to light in its holes
    LOST = "lost"  #: rows that were there are not
    CHANGED = "changed"  #: other rows


#: Changes that no run of ours makes by itself.
WRONG = frozenset({ChangeKind.LOST, ChangeKind.CHANGED})


class Change(msgspec.Struct, frozen=True):
    """One range of ids that differs from the last manifest.

    Args:
        kind: why.
        lo, hi: the inclusive range.
        rows: trades: those that are new, the same, or came to light; of a loss those that are gone,
            or may be, and of a change those that were there.
        detail: what was found, for people.
    """

    kind: ChangeKind
    lo: int
    hi: int
    rows: int
    detail: str = ""


class Entry(msgspec.Struct, frozen=True):
    """One part, as its name, its footer and its rows say.

    Args:
        lo, hi: the inclusive range of its name.
        size_bytes: of its file.
        rows: how many trades it holds.
        digest: their content digest.
        sha256: SHA-256 of its rows as lines (`headrace.lake.digest`).
        holes: runs of absent ids.
        long_holes: those of a page or more.
        holes_proven: whether answers prove them.
        answers: which answers show the long ones.
        fetched_at: when the youngest rows were fetched.
    """

    lo: int
    hi: int
    size_bytes: int
    rows: int
    digest: str
    sha256: str
    holes: int
    long_holes: tuple[Range, ...]
    holes_proven: bool
    answers: tuple[Answer, ...]
    fetched_at: datetime

    @property
    def content(self) -> ContentDigest:
        """The content digest as a value that can be added and compared."""
        return ContentDigest.parse(self.digest)

    @classmethod
    def of(cls, footer: PartFooter, size_bytes: int, sha256: str) -> Entry:
        """The entry of a part whose rows were found to be those of its footer."""
        same = {
            name: getattr(footer, name)
            for name in cls.__struct_fields__
            if name not in ("size_bytes", "sha256")
        }
        return cls(size_bytes=size_bytes, sha256=sha256, **same)

    def is_of(self, footer: PartFooter, size_bytes: int) -> bool:
        """Whether name, size and footer of a part are those of the entry."""
        return self == Entry.of(footer, size_bytes, self.sha256)

    @property
    def name(self) -> str:
        """The part's file name."""
        return str(PartName(self.lo, self.hi))


class PartList(msgspec.Struct, frozen=True):
    """A file that lists parts: how many, and the SHA-256 of its bytes, which is its name."""

    parts: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is stated of one product at one moment.

    Args:
        lake: the lake's id.
        exchange, product: whose trades.
        sequence: 1 for the first manifest of the product, then one more each.
        previous: SHA-256 of the file of the one before; None for the first.
        made_at: when, UTC.
        answered: the ids that parts answer for.
        missing: ids up to the newest that none answers for.
        rows: trades.
        absent_ids: ids answered for that do not exist.
        digest: content digest of all trades.
        newest: the newest id known.
        newest_answer: the newest page that the exchange showed; None if it was not asked.
        parts: how many.
        lists: where they are listed, by rising ids.
        changes: what changed since the manifest before, by kind.
        accepted: why rows that were lost or changed are stated all the same; empty if none are.
    """

    type: str = MANIFEST_TYPE
    lake: str
    exchange: str
    product: str
    sequence: int
    previous: str | None
    made_at: datetime
    answered: tuple[Range, ...]
    missing: tuple[Range, ...]
    rows: int
    absent_ids: int
    digest: str
    newest: int
    newest_answer: Answer | None
    parts: int
    lists: tuple[PartList, ...]
    changes: tuple[Change, ...]
    accepted: str = ""


class Position(msgspec.Struct, frozen=True):
    """Where the chain of a product's manifests ends: number and SHA-256 of the last file."""

    exchange: str
    product: str
    sequence: int
    sha256: str


class LakeHead(msgspec.Struct, frozen=True, kw_only=True):
    """What is stated of a whole lake: where the manifests of each product end.

    It shows that a product, or its last manifests, are gone. Its own numbers and `previous` chain
    it as a manifest is.
    """

    type: str = HEAD_TYPE
    lake: str
    sequence: int
    previous: str | None
    made_at: datetime
    products: tuple[Position, ...]


def encode_lists(entries: Sequence[Entry]) -> list[bytes]:
    """Entries by rising ids as the contents of their lists: a JSON array, an entry a line."""
    return [
        b"[\n" + b",\n".join(map(msgspec.json.encode, entries[at : at + LIST_PARTS])) + b"\n]\n"
        for at in range(0, len(entries), LIST_PARTS)
    ]


#: Fields of a payload that hold ids, or count them: canonical JSON has no numbers as large as
#: they can be, so they are written as text.
_IDS = frozenset(
    {"absent_ids", "after", "answered", "between", "first", "hi", "last", "lo", "missing", "newest"}
)


#: Made here: two threads that meet a type for the first time at once crash in msgspec. It keeps
#: with a type what it learns of it, also for `convert`.
_MET = [msgspec.json.Decoder(kind) for kind in (PartList, Manifest, LakeHead)]


def as_payload(statement: msgspec.Struct) -> dict[str, Any]:
    """A statement as plain values of JSON, its ids as text; `from_payload` reads them."""
    payload: dict[str, Any] = _with_text_ids(msgspec.to_builtins(statement), as_text=False)
    return payload


def from_payload(payload: dict[str, Any], kind: type[Statement]) -> Statement:
    """The statement of a payload.

    Raises:
        msgspec.ValidationError: it lacks a field, or has another value in it.
    """
    return msgspec.convert(payload, kind, strict=False)


def _with_text_ids(value: Any, *, as_text: bool) -> Any:
    if isinstance(value, dict):
        return {key: _with_text_ids(inner, as_text=key in _IDS) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_text_ids(inner, as_text=as_text) for inner in value]
    return str(value) if as_text and type(value) is int else value
