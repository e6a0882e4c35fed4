"""From the bytes of one body to the row that stands for it.

The body is kept as it came, to the byte, unless it holds a secret. What is read out of it here only
serves to find and show it. Text that SQLite cannot keep (a lone surrogate, which JSON can carry) is
shown in a marked form, `\\ud83d`; the body keeps the real one. An id of that kind is refused, since
it is a key. Times are kept in one form, whatever form Looker writes them in.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from headrace.looker.content_types import SEPARATOR, Content, content_of
from headrace.looker.exceptions import ItemRefused
from headrace.looker.vault.secrets import without_secrets


class Item(NamedTuple):
    """One body with what the vault's row says about it.

    Attributes:
        type, id: the key; the id is text.
        body: as the server sent it.
        hash: SHA-256 of the body.
        name, owner, folder: for people and filters; ids of owner and folder as text.
        created_at, updated_at, deleted_at: see `headrace.looker.vault.items`; None if the body
            does not say.
        deleted: the body says that it is in the trash.
    """

    type: str
    id: str
    body: bytes
    hash: bytes
    name: str | None = None
    owner: str | None = None
    folder: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    deleted_at: str | None = None
    deleted: bool = False


class _Head(msgspec.Struct):
    """Everything that any type needs of a body; the rest is skipped, not parsed."""

    id: Any = None
    dashboard_id: Any = None
    model_name: Any = None
    name: Any = None
    title: Any = None
    display_name: Any = None
    email: Any = None
    last_name: Any = None
    user_id: Any = None
    creator_id: Any = None
    user: Any = None
    folder_id: Any = None
    parent_id: Any = None
    personal_folder_id: Any = None
    folder: Any = None
    space: Any = None
    owner_id: Any = None
    custom_title: Any = None
    content_metadata: Any = None
    user_attribute: Any = None
    created_at: Any = None
    updated_at: Any = None
    deleted_at: Any = None
    deleted: Any = None


_DECODER = msgspec.json.Decoder(_Head)
_FIELDS = _Head.__struct_fields__


def item_of(type_: str, body: bytes, *, item_id: str | None = None) -> Item:
    """The item that `body` is, without secrets (`headrace.looker.vault.secrets`).

    Args:
        type_: content type.
        body: the JSON object as the server sent it.
        item_id: what was asked for, if the body came from a request for one item. A body that
            names another id is refused: it would land on the wrong row.

    Raises:
        UnknownType: no such content type.
        ItemRefused: no object, unreadable, or without an id.
    """
    content = content_of(type_)
    body = without_secrets(type_, bytes(body))
    head = _head(type_, body)
    found = _id(content, head)
    if found is None and item_id is None:
        raise ItemRefused(type_, "it has no id", body)
    if found is not None and item_id is not None and found != item_id:
        raise ItemRefused(type_, f"it is {found!r}, while {item_id!r} was asked for", body)
    key = item_id if found is None else found
    assert key is not None
    if not key.isascii() and shown(key) != key:
        raise ItemRefused(type_, "its id holds a lone surrogate", body)
    return Item(
        type_,
        key,
        body,
        digest(body),
        name=_first(content.name_fields, head, numbers=False) or key,
        owner=_first(content.owner_fields, head),
        folder=_first(content.folder_fields, head),
        created_at=_time(head.created_at),
        updated_at=_time(head.updated_at),
        deleted_at=_time(head.deleted_at),
        deleted=head.deleted is True or isinstance(head.deleted_at, str),
    )


def shown(text: str) -> str:
    """`text`, with lone surrogates in the marked form `\\ud83d`."""
    return text.encode("utf-8", "backslashreplace").decode()


def id_text(value: object) -> str | None:
    """An id as text: 5 and "5" are the same; None if it is no id."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def _head(type_: str, body: bytes) -> _Head:
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # text that is not Unicode, or no JSON at all: the slower parser distinguishes them
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ItemRefused(type_, f"it is not readable JSON ({error})", body) from error
    if not isinstance(parsed, dict):
        raise ItemRefused(type_, f"a JSON {type(parsed).__name__} instead of an object", body)
    return _Head(**{name: parsed[name] for name in _FIELDS if name in parsed})


def _id(content: Content, head: _Head) -> str | None:
    if content.plain_id and isinstance(head.id, str) and head.id:
        return head.id
    for names in content.id_fields:
        parts = [id_text(getattr(head, name)) for name in names.split(SEPARATOR)]
        if all(parts):
            return SEPARATOR.join(part for part in parts if part)
    return None


def _first(paths: tuple[str, ...], head: _Head, *, numbers: bool = True) -> str | None:
    for path in paths:
        if "." in path:
            name, _, inner = path.partition(".")
            value = getattr(head, name)
            value = value.get(inner) if isinstance(value, dict) else None
        else:
            value = getattr(head, path)
        text = id_text(value) if numbers or isinstance(value, str) else None
        if text is not None:
            return text if text.isascii() else shown(text)
    return None


def _time(value: object) -> str | None:
    return server_time(value) if isinstance(value, str) else None


def digest(body: bytes) -> bytes:
    """SHA-256, which `sha256sum` of an unpacked file shows as well."""
    return hashlib.sha256(body).digest()


# 2018-02-05 20:33:54 +0000 and 2018-02-05 20:33:54 UTC are in old bodies; neither is ISO 8601.
_LOOSE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T]+(\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?\s*(Z|UTC|[+-]\d\d:?\d\d)?"
)


def utc_text(moment: datetime) -> str:
    """As in 2018-02-05T20:33:54.000000Z, which sorts as text."""
    naive = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{naive.isoformat(timespec='microseconds')}Z"


@lru_cache(maxsize=4096)
def server_time(text: str) -> str | None:
    """A time of a body in the vault's form, or None if it is no time that can be read.

    A time without a zone is UTC, which is what Looker means by it.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        found = _LOOSE.fullmatch(text.strip())
        if found is None:
            return None
        day, clock, zone = found.groups()
        zone = "+00:00" if zone in (None, "UTC", "Z") else zone
        try:
            moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone}")
        except ValueError:
            return None
    if moment.tzinfo is UTC:  # the common case, at a third of the cost
        return f"{moment.isoformat(timespec='microseconds')[:26]}Z"
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return utc_text(moment)
    except OverflowError:
        return None
