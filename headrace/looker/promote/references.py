"""What content depends on that does not come with it, and whether the other Looker has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from headrace.looker.client import AccessRefused, NotFound
from headrace.looker.content_types import content_of
from headrace.looker.elements import objects
from headrace.looker.merged_query_ids import merged_queries_of
from headrace.looker.restore.api import Api
from headrace.looker.restore.fields import Fields
from headrace.looker.vault import NotInVault, Vault, id_text

#: A model and an explore of it.
Explore = tuple[str, str]


@dataclass(slots=True)
class Missing:
    """What the other Looker does not have, and which items depend on it.

    Args:
        kind: folder, model, explore, connection, look or user.
        name: of it, as people know it.
        needed_by: items as `TYPE ID`; empty where everything depends on it.
        blocks: whether these items cannot be promoted without it.
    """

    kind: str
    name: str
    needed_by: list[str] = field(default_factory=list)
    blocks: bool = True


def queries_of(vault: Vault, type_: str, body: Fields) -> Iterator[Fields]:
    """The queries of a look, or of the tiles of a dashboard, those of merged ones included."""
    if type_ == "look":
        yield body.get("query") or {}
    for tile in objects(body.get("dashboard_elements")):
        maker = tile.get("result_maker") or {}
        query = tile.get("query") or maker.get("query")
        if query:
            yield query
    for merged in merged_queries_of(body):
        yield from _merged(vault, merged)


def _merged(vault: Vault, merged: str) -> Iterator[Fields]:
    try:
        body = json.loads(vault.contents.body("merge_query", merged).body)
        for source in objects(body.get("source_queries")):
            query_id = id_text(source.get("query_id")) or ""
            yield json.loads(vault.contents.body("query", query_id).body)
    except NotInVault:
        return  # it did not come: the restore names the tile


def explores_of(vault: Vault, type_: str, body: Fields) -> list[Explore]:
    """The explores that an item asks, each once."""
    asked = [(q.get("model"), q.get("view")) for q in queries_of(vault, type_, body)]
    filters = objects(body.get("dashboard_filters"))
    asked += [(each.get("model"), each.get("explore")) for each in filters]
    whole = [(str(model), str(view)) for model, view in asked if model and view]
    return list(dict.fromkeys(whole))


def looks_of(body: Fields) -> list[str]:
    """Ids of the looks that tiles of a dashboard show."""
    ids = [id_text(tile.get("look_id")) for tile in objects(body.get("dashboard_elements"))]
    return [look for look in dict.fromkeys(ids) if look is not None]


class Explores:
    """The explores of a Looker, each asked for once.

    Attributes:
        unchecked: what could not be looked at, since the caller may not see it.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[Explore, Missing | None] = {}
        self._connections: dict[str, bool] = {}
        self.unchecked: list[str] = []

    def missing(self, explore: Explore) -> Missing | None:
        """What of an explore is not there: its model, itself, its connection; None if it can be
        asked.

        Raises:
            RequestError: the Looker does not answer.
        """
        if explore not in self._known:
            self._known[explore] = self._looked_up(*explore)
        return self._known[explore]

    def _looked_up(self, model: str, name: str) -> Missing | None:
        path = content_of("explore").item_path(f"{model}::{name}")
        try:
            found = self._api.get(path, {"fields": "name,connection_name"})
        except NotFound:
            there = self._is_there(content_of("lookml_model").item_path(model))
            return Missing("explore", f"{model}::{name}") if there else Missing("model", model)
        connection = found.get("connection_name") if isinstance(found, dict) else None
        if connection and not self._connected(str(connection)):
            return Missing("connection", str(connection))
        return None

    def _connected(self, name: str) -> bool:
        if name not in self._connections:
            try:
                self._connections[name] = self._is_there(f"/connections/{quote(name, safe='')}")
            except AccessRefused:
                # Only administrators may see connections.
                self._connections[name] = True
                self.unchecked.append(f"connection {name}")
        return self._connections[name]

    def _is_there(self, path: str) -> bool:
        try:
            self._api.get(path, {"fields": "name"})
        except NotFound:
            return False
        return True


class Owners:
    """Users of one Looker in another one, by their email address."""

    def __init__(self, source: Api, target: Api) -> None:
        self._source, self._target = source, target
        self._known: dict[str, tuple[str | None, str]] = {}

    def there(self, user: str) -> tuple[str | None, str]:
        """The id of a user there, None if there is none of the address; and who it is."""
        if user not in self._known:
            self._known[user] = self._looked_up(user)
        return self._known[user]

    def _looked_up(self, user: str) -> tuple[str | None, str]:
        fields = {"fields": "id,email,display_name"}
        try:
            body = self._source.get(content_of("user").item_path(user), fields)
        except (NotFound, AccessRefused):
            return None, f"user {user}"
        email = str(body.get("email") or "")
        if not email:
            return None, str(body.get("display_name") or f"user {user}")
        found: Any = self._target.get("/users/search", {"email": email, "fields": "id,email"})
        for each in objects(found):
            if str(each.get("email") or "").casefold() == email.casefold():
                return id_text(each.get("id")), email
        return None, email
