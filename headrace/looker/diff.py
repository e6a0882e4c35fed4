"""What changed in a vault between two sessions: items, and the fields of their bodies.

Elements of an array that have an id are compared with the element of the same id, wherever it
stands; others by position. A number is not a text and not a truth value, even where Python calls
them equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.errors import ConfigurationError
from headrace.looker.vault import Session, Vault


class ChangeKind(StrEnum):
    """What became of an item."""

    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class Difference:
    """One item that is not as it was.

    Attributes:
        type, id, name: which; the name is the present one.
        what: what became of it.
        origin: `server`, or `pack` if the later version is an edit of ours.
        changes: fields that differ; empty unless it changed, and the vault still has both.
    """

    type: str
    id: str
    name: str | None
    what: ChangeKind
    origin: str
    changes: tuple[Change, ...] = ()


def pair_of_sessions(vault: Vault, before: int | None, after: int | None) -> tuple[int, int]:
    """The sessions to compare: those given, else the newest and the one before it.

    Raises:
        NoSuchSession: a session that does not exist.
        ConfigurationError: fewer than two sessions, or an order that makes no sense.
    """
    # A restore stores nothing that could differ.
    sessions: list[Session] = [each for each in vault.sessions.list() if each.kind != "restore"]
    if after is None:
        if not sessions:
            raise ConfigurationError(
                f"the vault {vault.path} has no session yet", hint="Run `headrace looker extract`"
            )
        after = sessions[0].id
    if before is None:
        older = [session.id for session in sessions if session.id < after]
        if not older:
            raise ConfigurationError(
                f"there is no session before {after} to compare it with",
                hint="Extract once more, or name two sessions: headrace looker diff 1 2",
            )
        before = older[0]
    vault.sessions.get(before)
    vault.sessions.get(after)
    if before >= after:
        raise ConfigurationError(
            f"session {before} is not before session {after}",
            hint="Name the older one first: headrace looker diff 1 2",
        )
    return before, after


def differences(
    vault: Vault, before: int, after: int, *, types: Iterable[str] = (), volatile: bool = False
) -> Iterator[Difference]:
    """Items that differ between two sessions, by type and id.

    Args:
        vault: the vault.
        before, after: sessions; the state at the end of each.
        types: only these content types.
        volatile: also items of which only such fields differ as change by being looked at.

    Raises:
        VaultDamaged: a body that does not read.
    """
    for moved in vault.contents.compare_sessions(before, after, types=types):
        there_before = moved.known_before and not moved.deleted_before
        there_after = not moved.deleted_after
        if not there_before and not there_after:
            continue
        origin = moved.origin_after
        if there_before and not there_after:
            what = ChangeKind.DELETED
        elif not there_before:
            what = ChangeKind.RETURNED if moved.known_before else ChangeKind.ADDED
        elif moved.version_before is None:
            what = ChangeKind.CHANGED  # what it was is no longer kept
        else:
            if moved.version_before == moved.version_after:
                continue
            old = vault.contents.body(moved.type, moved.id, version=moved.version_before)
            new = vault.contents.body(moved.type, moved.id, version=moved.version_after)
            found = tuple(changes(old.body, new.body, volatile=volatile))
            if not found and not volatile:
                continue
            yield Difference(moved.type, moved.id, moved.name, ChangeKind.CHANGED, origin, found)
            continue
        yield Difference(moved.type, moved.id, moved.name, what, origin)


#: What changes when people look at content, not when they change it.
VOLATILE = frozenset(
    {
        "can", "content_favorite_id", "favorite_count", "last_accessed_at", "last_run_at",
        "last_viewed_at", "next_run_at", "logged_in_at", "sessions", "updated_at", "usage_count",
        "user_count", "view_count",
    }
)  # fmt: skip


class Missing:
    """The field is not there."""

    def __repr__(self) -> str:
        return "(not there)"


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs.

    Attributes:
        path: as in `dashboard_elements[id=7].query.limit`; empty for the whole body.
        before, after: the values; `MISSING` where there is none.
    """

    path: str
    before: Any
    after: Any


def changes(before: bytes, after: bytes, *, volatile: bool = False) -> list[Change]:
    """What differs between two bodies, in the order of the first.

    Args:
        before, after: bodies as sent.
        volatile: also fields that change without an edit of the item, see `VOLATILE`.
    """
    return list(_compare("", _parsed(before), _parsed(after), volatile))


def _parsed(body: bytes) -> Any:
    return json.loads(body, parse_float=_Exact, parse_constant=_Exact)


class _Exact(float):
    """A number with a fraction, compared and shown as it was written."""

    def __new__(cls, text: str) -> _Exact:
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Exact) and self.text == other.text

    def __ne__(self, other: object) -> bool:
        return not self == other  # float has a comparison of its own for it

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


def _compare(path: str, before: Any, after: Any, volatile: bool) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            if volatile or name not in VOLATILE:
                inner = f"{path}.{name}" if path else name
                yield from _compare(
                    inner, before.get(name, MISSING), after.get(name, MISSING), volatile
                )
    elif isinstance(before, list) and isinstance(after, list):
        yield from _compare_arrays(path, before, after, volatile)
    elif type(before) is not type(after) or before != after:
        yield Change(path, before, after)


def _compare_arrays(
    path: str, before: list[Any], after: list[Any], volatile: bool
) -> Iterator[Change]:
    for name in _IDS:
        old, new = _by_field(before, name), _by_field(after, name)
        if old is not None and new is not None:
            for key in {**old, **new}:
                inner = f"{path}[{name}={key}]"
                yield from _compare(inner, old.get(key, MISSING), new.get(key, MISSING), volatile)
            return
    for at in range(max(len(before), len(after))):
        was = before[at] if at < len(before) else MISSING
        now = after[at] if at < len(after) else MISSING
        yield from _compare(f"{path}[{at}]", was, now, volatile)


#: Fields that name an element of an array; values of users have no id of their own.
_IDS = ("id", "user_attribute_id")


def _by_field(elements: list[Any], name: str) -> dict[str, Any] | None:
    """The elements by their ids, if all have one of their own."""
    found = {
        str(each[name]): each
        for each in elements
        if isinstance(each, dict) and isinstance(each.get(name), str | int)
    }
    return found if len(found) == len(elements) else None
