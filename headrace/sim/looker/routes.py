"""The addresses of a simulated Looker, below `/api/4.0`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from headrace.sim.http import Request
from headrace.sim.looker.faults import Ask, LookerSubject
from headrace.sim.looker.library import kind_of

PREFIX = "/api/4.0/"


@dataclass(frozen=True, slots=True)
class ListRoute:
    """A listing: which kind, whether it takes limit and offset, what it leaves out of bodies."""

    kind: str
    paged: bool = True
    without: tuple[str, ...] = ()


#: Listings by path. Looks come without their query, as Looker's do.
LISTS: Mapping[str, ListRoute] = {
    "users": ListRoute("user"),
    "users/search": ListRoute("user"),
    "groups": ListRoute("group"),
    "groups/search": ListRoute("group"),
    "groups/search/with_hierarchy": ListRoute("group_hierarchy"),
    "user_attributes": ListRoute("user_attribute", paged=False),
    "alerts/search": ListRoute("alert"),
    "connections": ListRoute("connection", paged=False),
    "permission_sets": ListRoute("permission_set", paged=False),
    "permission_sets/search": ListRoute("permission_set"),
    "model_sets": ListRoute("model_set", paged=False),
    "model_sets/search": ListRoute("model_set"),
    "roles": ListRoute("role", paged=False),
    "roles/search": ListRoute("role"),
    "folders": ListRoute("folder", paged=False),
    "folders/search": ListRoute("folder"),
    "lookml_models": ListRoute("lookml_model"),
    "looks": ListRoute("look", paged=False, without=("query",)),
    "looks/search": ListRoute("look", without=("query",)),
    "dashboards": ListRoute("dashboard", paged=False, without=("dashboard_elements",)),
    "dashboards/search": ListRoute("dashboard"),
    "dashboards/lookml/search": ListRoute("lookml_dashboard"),
    "boards": ListRoute("board", paged=False),
    "boards/search": ListRoute("board"),
    "scheduled_plans": ListRoute("scheduled_plan", paged=False),
}

#: Content types by the first segment of their items' paths.
PLURALS: Mapping[str, str] = {
    "users": "user",
    "groups": "group",
    "permission_sets": "permission_set",
    "model_sets": "model_set",
    "roles": "role",
    "folders": "folder",
    "lookml_models": "lookml_model",
    "looks": "look",
    "dashboards": "dashboard",
    "boards": "board",
    "scheduled_plans": "scheduled_plan",
    "user_attributes": "user_attribute",
    "alerts": "alert",
    "connections": "connection",
}


def segments(request: Request) -> list[str]:
    """The path below the prefix, piece by piece, escapes undone; empty if it is elsewhere."""
    if not request.path.startswith(PREFIX):
        return []
    return [
        unquote(piece, errors="surrogatepass")
        for piece in request.path.removeprefix(PREFIX).rstrip("/").split("/")
    ]


def item_key(pieces: list[str]) -> tuple[str, str] | None:
    """(kind, id) of a path of one item, or None."""
    match pieces:
        case ["lookml_models", model, "explores", name]:
            return "explore", f"{model}::{name}"
        case ["dashboards", "lookml", item_id]:
            return "lookml_dashboard", item_id
        case ["queries", item_id]:
            return "query", item_id
        case ["merge_queries", item_id]:
            return "merge_query", item_id
        case [plural, item_id] if plural in PLURALS:
            return kind_of(PLURALS[plural], item_id), item_id
        case _:
            return None


def access_key(pieces: list[str]) -> tuple[str, str | None] | None:
    """(kind, id) of a path of who belongs where or may see what, or None."""
    match pieces:
        case ["users", user, "attribute_values", *_]:
            return "user_attribute_value", user
        case ["user_attributes", attribute, "group_values"]:
            return "group_attribute_value", attribute
        case ["content_metadata", metadata]:
            return "folder_access", metadata
        case ["content_metadata_access", *_]:
            return "folder_access", None
        case _:
            return None


def subject_of(request: Request) -> LookerSubject:
    """What a request is about, for faults and statistics; never raises."""
    pieces = segments(request)
    path = "/".join(pieces)
    if path == "login":
        return LookerSubject("login")
    if request.method == "GET" and path in LISTS:
        route = LISTS[path]
        if not route.paged:
            return LookerSubject("list", route.kind, offset=0)
        offset, limit = (number_of(request.query.get(name)) for name in ("offset", "limit"))
        return LookerSubject("list", route.kind, offset=offset or 0, limit=limit)
    key = item_key(pieces) or access_key(pieces)
    first = pieces[0] if pieces else None
    kind, item_id = key or (PLURALS.get(first, first) if first else None, None)
    ask: Ask = "write" if request.method != "GET" else "item" if key else "any"
    return LookerSubject(ask, kind, item_id)


def number_of(text: str | None) -> int | None:
    """A whole number that is not negative; None for anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 12 else None
