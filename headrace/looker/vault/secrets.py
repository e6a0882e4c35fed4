"""What a vault never holds, from whichever caller: what Looker itself treats as a secret.

Looker does not serve passwords and certificates, and blanks values of hidden user attributes. This
is the second lock on the same door: a body is kept to the byte unless there is something to remove.
A removed field is absent, so that a restore can tell it from one that is empty.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from headrace.looker.content_types import CONNECTION_FIELDS

_Body = dict[str, Any]


def without_secrets(type_: str, body: bytes) -> bytes:
    """`body`, byte for byte; encoded again without them if it holds secrets."""
    remove = _REMOVERS.get(type_)
    if remove is None:
        return body
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return body  # refused as unreadable by who called
    if not isinstance(parsed, dict) or not remove(parsed):
        return body
    return json.dumps(parsed, separators=(",", ":")).encode()


def _of_connection(body: _Body) -> bool:
    more = body.keys() - set(CONNECTION_FIELDS)
    for name in more:
        del body[name]
    return bool(more)


def _of_hidden(body: _Body, *names: str) -> bool:
    found = [n for n in names if body.get("value_is_hidden") and body.get(n) is not None]
    for name in found:
        del body[name]
    return bool(found)


def _of_definition(body: _Body) -> bool:
    return _of_hidden(body, "default_value", "value_for_ci_run")


def _of_values(name: str) -> Callable[[_Body], bool]:
    def remove(body: _Body) -> bool:
        values = body.get(name)
        found = [v for v in values if isinstance(v, dict)] if isinstance(values, list) else []
        return sum(_of_hidden(value, "value") for value in found) > 0

    return remove


_REMOVERS: dict[str, Callable[[_Body], bool]] = {
    "connection": _of_connection,
    "user_attribute": _of_definition,
    "group_attribute_value": _of_values("group_values"),
    "user_attribute_value": _of_values("values"),
}
