"""Two bodies of one item, field by field.

Elements of an array that have an id are compared with the element of the same id, wherever it
stands; others by position. A number is not a text and not a truth value, even where Python calls
them equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
        volatile: also fields that change without anybody editing the item, see `VOLATILE`.
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
    old, new = _by_id(before), _by_id(after)
    if old is None or new is None:
        for at in range(max(len(before), len(after))):
            was = before[at] if at < len(before) else MISSING
            now = after[at] if at < len(after) else MISSING
            yield from _compare(f"{path}[{at}]", was, now, volatile)
        return
    for key in {**old, **new}:
        inner = f"{path}[id={key}]"
        yield from _compare(inner, old.get(key, MISSING), new.get(key, MISSING), volatile)


def _by_id(elements: list[Any]) -> dict[str, Any] | None:
    """The elements by their ids, if all have one of their own."""
    found = {
        str(each["id"]): each
        for each in elements
        if isinstance(each, dict) and isinstance(each.get("id"), str | int)
    }
    return found if len(found) == len(elements) else None
