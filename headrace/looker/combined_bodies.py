"""Bodies that no single answer of Looker's holds, put together from several.

The envelope is ours, what stands in it is the server's, byte for byte:

======================  =====================================================================
type                    body
======================  =====================================================================
group_hierarchy         the element of `/groups/search/with_hierarchy` itself
group_attribute_value   `{"id", "user_attribute": {id, name, label}, "group_values": [...]}`
user_attribute_value    `{"id", "values": [...]}`: the values that are the user's own
folder_access           `{"id", "content_metadata": {...}, "access": [...]}`
======================  =====================================================================

The id is that of the group, the attribute, the user, the folder's content metadata. The first
answer decides whether there is such an item: a 404 for it is a 404 for the item.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from headrace.looker.content_types import Content
from headrace.looker.elements import elements_of
from headrace.wire.exceptions import BadAnswer

Ask = Callable[[str, Mapping[str, str]], bytes]

#: How `source` begins where a value is not the user's own (API 4.0 has no list of its values).
_INHERITED = ("group", "default", "system")


def put_together(content: Content, item_id: str, ask: Ask) -> bytes:
    """The body of one item.

    Args:
        content: its type, one with `parts`.
        item_id: which.
        ask: GET of a path below /api/4.0 with a query.

    Raises:
        NotFound: there is none.
        BadAnswer: an answer of another shape.
    """
    return _READERS[content.type](content.item_path(item_id), item_id, ask)


def _group_hierarchy(path: str, item_id: str, ask: Ask) -> bytes:
    search = "/groups/search/with_hierarchy"
    found = elements_of(ask(search, {"id": item_id}), search)
    if len(found) == 1:
        return found[0]
    ask(path, {"fields": "id"})  # an empty search proves nothing, a 404 does
    raise BadAnswer(f"{len(found)} groups have the id {item_id!r}", product=search, status=200)


def _group_values(path: str, item_id: str, ask: Ask) -> bytes:
    values = elements_of(ask(path, {}), path)
    definition = path.removesuffix("/group_values")
    attribute = _object(ask(definition, {"fields": "id,name,label"}), definition)[0]
    return _envelope(item_id, user_attribute=attribute, group_values=values)


def _user_values(path: str, item_id: str, ask: Ask) -> bytes:
    values = elements_of(ask(path, {}), path)
    return _envelope(item_id, values=[v for v in values if not _is_inherited(v, path)])


def _is_inherited(value: bytes, about: str) -> bool:
    return str(_object(value, about)[1].get("source")).casefold().startswith(_INHERITED)


def _folder_access(path: str, item_id: str, ask: Ask) -> bytes:
    metadata, parsed = _object(ask(path, {}), path)
    access: list[bytes] = []
    if parsed.get("inherits") is False:
        about = "/content_metadata_access"
        access = elements_of(ask(about, {"content_metadata_id": item_id}), about)
    return _envelope(item_id, content_metadata=metadata, access=access)


_READERS: Mapping[str, Callable[[str, str, Ask], bytes]] = {
    "group_hierarchy": _group_hierarchy,
    "group_attribute_value": _group_values,
    "user_attribute_value": _user_values,
    "folder_access": _folder_access,
}


def _object(body: bytes, about: str) -> tuple[bytes, dict[str, Any]]:
    """The bytes of an object without blanks around it, and what it says."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"the body is no JSON ({error})", product=about, status=200) from error
    if not isinstance(parsed, dict):
        raise BadAnswer("the body is no object", product=about, status=200)
    return body.strip(), parsed


def _envelope(item_id: str, **parts: bytes | list[bytes]) -> bytes:
    written = [b'"id":' + json.dumps(item_id).encode()]
    for name, part in parts.items():
        inner = part if isinstance(part, bytes) else b"[" + b",".join(part) + b"]"
        written.append(b'"%b":%b' % (name.encode(), inner))
    return b"{" + b",".join(written) + b"}"
