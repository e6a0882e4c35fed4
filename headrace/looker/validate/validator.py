"""What Looker's content validation says, and what comes of running the queries.

The validation knows every field that is not in the LookML any more. It does not ask the database:
a query that is right by the LookML and wrong in SQL is found only by running it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError
from headrace.looker.client import Call, NotFound
from headrace.looker.content_types import content_of
from headrace.looker.elements import objects
from headrace.looker.merged_query_ids import merged_query_of
from headrace.looker.validate.report import Broken
from headrace.looker.vault import id_text
from headrace.quota import OutageError
from headrace.stopping import StopEvent, Stopped
from headrace.wire.exceptions import BadAnswer, PermanentError, RequestRefused

if TYPE_CHECKING:
    from headrace.looker.client import LookerClient

Fields = dict[str, Any]

#: Elements of a page of dashboards, which bring their tiles along.
_PAGE = 100
#: The pieces of content that an error may be about, the part before its whole.
_WHOLES = ("dashboard", "look", "lookml_dashboard", "scheduled_plan", "alert")
_PARTS = ("dashboard_element", "dashboard_filter", "lookml_dashboard_element")
_TOTALS = {
    "looks": "total_looks_validated",
    "tiles": "total_dashboard_elements_validated",
    "filters": "total_dashboard_filters_validated",
    "schedules": "total_scheduled_plans_validated",
    "alerts": "total_alerts_validated",
    "explores": "total_explores_validated",
}
_TILE = (
    "id,title,title_text,query_id,look_id,merge_result_id,result_maker(query_id,merge_result_id)"
)
_LISTED = {
    "dashboard": f"id,title,folder(id,name),dashboard_elements({_TILE})",
    "look": "id,title,query_id,folder(id,name)",
}


def validation(
    client: LookerClient, folders: Sequence[str] = (), projects: Sequence[str] = ()
) -> tuple[dict[str, int], list[Broken]]:
    """What Looker's own validation says: how much it looked at, and what is wrong.

    Raises:
        AccessRefused: the caller may not validate content.
        RequestError: no answer.
    """
    query = {"space_ids": ",".join(folders), "project_names": ",".join(projects)}
    given = {name: value for name, value in query.items() if value}
    call = Call("the content validation", "content_validation")
    answer = _object(client.ask("/content_validation", given, call), call.about)
    totals = {kind: int(answer.get(name) or 0) for kind, name in _TOTALS.items()}
    found = [broken for each in objects(answer.get("content_with_errors")) for broken in _of(each)]
    return totals, found


def _of(error: Fields) -> Iterator[Broken]:
    """One element of `content_with_errors`: a piece of content with its errors."""
    parts = [error[kind] for kind in _PARTS if isinstance(error.get(kind), dict)]
    part = parts[0] if parts else {}
    whole_kind = next((kind for kind in _WHOLES if isinstance(error.get(kind), dict)), "")
    whole: Fields = error.get(whole_kind) or {}
    if not whole and part:
        whole_kind, whole = "dashboard", {"id": part.get("dashboard_id")}
    folder = whole.get("folder")
    piece = Broken(
        type=whole_kind or "content",
        id=id_text(whole.get("id")) or id_text(error.get("id")) or "",
        title=_text(whole, "title", "name", "custom_title"),
        part=_text(part, "title", "title_text", "name", "id", "lookml_link_id"),
        folder=_text(folder, "name") if isinstance(folder, dict) else "",
        message="",
    )
    for each in objects(error.get("errors")):
        yield replace(
            piece,
            message=str(each.get("message") or "it is broken"),
            model=str(each.get("model_name") or ""),
            explore=str(each.get("explore_name") or ""),
            field=str(each.get("field_name") or ""),
        )


@dataclass(slots=True)
class Query:
    """A query to run, and the content that depends on it.

    Args:
        path: that runs it, below /api/4.0.
        about: the content, with no message yet.
    """

    path: str
    about: list[Broken] = field(default_factory=list)


@dataclass(slots=True)
class QueryOutcome:
    """What came of a query.

    Args:
        broken: a message for each piece of content that depends on it.
        unsure: why nothing can be said; empty if something can.
    """

    broken: list[Broken] = field(default_factory=list)
    unsure: str = ""


class Queries:
    """The queries of looks and dashboards, each once, whatever depends on it.

    Args:
        client: of the Looker.
        folders: only those in these folders; empty for all.
        stop: looked at before each page.

    Attributes:
        broken: tiles of which the merged query is gone.
    """

    def __init__(self, client: LookerClient, folders: Sequence[str], stop: StopEvent) -> None:
        self._client, self._folders, self._stop = client, folders, stop
        self.broken: list[Broken] = []
        self._merged: dict[str, list[str]] = {}

    def all(self) -> list[Query]:
        """Every query, as far as listings show them.

        Raises:
            RequestError: a listing, or a merged query, cannot be read.
        """
        found: dict[str, Query] = {}
        for type_ in _LISTED:
            for body in self._listed(type_):
                for query_id, about in self._of(type_, body):
                    path = f"/queries/{query_id}/run/json"
                    found.setdefault(query_id, Query(path)).about.append(about)
        return list(found.values())

    def _of(self, type_: str, body: Fields) -> Iterator[tuple[str, Broken]]:
        folder = body.get("folder")
        piece = Broken(
            type=type_,
            id=id_text(body.get("id")) or "",
            title=str(body.get("title") or ""),
            folder=_text(folder, "name") if isinstance(folder, dict) else "",
            message="",
            found_by="query",
        )
        if type_ == "look":
            if (query_id := id_text(body.get("query_id"))) is not None:
                yield query_id, piece
            return
        for tile in objects(body.get("dashboard_elements")):
            about = replace(piece, part=_text(tile, "title", "title_text", "id"))
            try:
                query_ids = self._of_tile(tile)
            except NotFound as gone:
                self.broken.append(replace(about, message=str(gone)))
                continue
            for query_id in query_ids:
                yield query_id, about

    def _of_tile(self, tile: Fields) -> list[str]:
        merged = merged_query_of(tile)
        if merged is not None:
            if merged not in self._merged:
                body = _object(self._client.item("merge_query", merged), f"merge_query {merged}")
                sources = objects(body.get("source_queries"))
                ids = [id_text(source.get("query_id")) for source in sources]
                self._merged[merged] = [query_id for query_id in ids if query_id is not None]
            return self._merged[merged]
        if tile.get("look_id") is not None:
            return []  # the look says it
        maker = tile.get("result_maker")
        inner = maker.get("query_id") if isinstance(maker, dict) else None
        query_id = id_text(tile.get("query_id")) or id_text(inner)
        return [] if query_id is None else [query_id]

    def _listed(self, type_: str) -> Iterator[Fields]:
        listing = content_of(type_).listings[0]
        for folder in self._folders or ("",):
            narrowed = {"folder_id": folder} if folder else {}
            start = 0
            while True:
                self._stop.check()
                page = self._client.page(
                    listing,
                    start=start,
                    size=_PAGE,
                    fields=_LISTED[type_],
                    params={"deleted": "false", **narrowed},
                )
                bodies = objects(json.loads(page))
                yield from bodies
                start += len(bodies)
                # A server may give less than it is asked for: only nothing is the end.
                if not bodies:
                    break


def run_query(client: LookerClient, query: Query, *, row_limit: int) -> QueryOutcome:
    """Run one query, from the database and not from a cache.

    A refusal of Looker's (400, 404, 422) and an error in the place of rows mean that it is broken.
    What the server or the way to it are to blame for means nothing.

    Raises:
        Stopped: the process was asked to stop.
        OutageError: the Looker was away for too long; so it is for all queries.
    """
    limits = {"limit": str(row_limit), "cache": "false"}
    call = Call(f"the query of {query.about[0].type} {query.about[0].id}", "query")
    try:
        message = _error_in(client.ask(query.path, limits, call))
    except (Stopped, OutageError):
        raise
    except (NotFound, RequestRefused) as refusal:
        message = str(refusal)
    except PermanentError as refusal:
        return QueryOutcome(unsure=str(refusal))
    except HeadraceError as error:
        return QueryOutcome(unsure=f"{call.about}: {error}")
    if not message:
        return QueryOutcome()
    return QueryOutcome([replace(about, message=message) for about in query.about])


def _error_in(answer: bytes) -> str:
    """What a result says in the place of rows; empty if it has rows, or none."""
    try:
        rows = json.loads(answer)
    except ValueError as error:
        raise BadAnswer("the result is no JSON", product="a query", status=200) from error
    errors = [row["looker_error"] for row in objects(rows) if "looker_error" in row]
    return str(errors[0]) if errors else ""


def _object(body: bytes, about: str) -> Fields:
    try:
        found = json.loads(body)
    except ValueError as error:
        raise BadAnswer("the answer is no JSON", product=about, status=200) from error
    if not isinstance(found, dict):
        raise BadAnswer("the answer is no object", product=about, status=200)
    return found


def _text(fields: Mapping[str, Any], *names: str) -> str:
    return next((str(fields[name]) for name in names if fields.get(name)), "")
