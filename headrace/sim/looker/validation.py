"""What a simulated Looker says of its content: the content validation, and results of queries.

A query is broken whose model or explore is not there, or that names a field which was taken out of
the LookML (`Library.unknown_fields`). The database refuses those that name one of
`Library.failing_fields`, which the validation does not find.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headrace.sim.http import Reply, Request
from headrace.sim.looker.library import Library
from headrace.sim.looker.routes import number_of
from headrace.sim.looker.tokens import error_reply

Fields = dict[str, Any]


class ValidationApi:
    """The routes that look at queries, over a library."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def read(self, request: Request, pieces: list[str]) -> Reply | None:
        """The answer to a GET; None if it is about something else."""
        match pieces:
            case ["content_validation"]:
                return self._validation(request)
            case ["queries", query_id, "run", "json"]:
                return self._result(self._query(query_id), request, "queries")
            case ["looks", look_id, "run", "json"]:
                look = self._library.body("look", look_id)
                query = json.loads(look).get("query") if look is not None else None
                return self._result(query, request, "looks")
            case _:
                return None

    def _validation(self, request: Request) -> Reply:
        spaces = {each for each in request.query.get("space_ids", "").split(",") if each}
        totals = {"looks": 0, "dashboard_elements": 0, "dashboard_filters": 0}
        found: list[Fields] = []
        for look in self._listed("look", spaces):
            totals["looks"] += 1
            piece = {"look": {**_named(look), "short_url": f"/looks/{look['id']}"}}
            found += self._errors(piece, [look.get("query") or {}])
        for dashboard in self._listed("dashboard", spaces):
            piece = {"dashboard": {**_named(dashboard), "url": f"/dashboards/{dashboard['id']}"}}
            for tile in dashboard.get("dashboard_elements") or ():
                totals["dashboard_elements"] += 1
                element = {name: tile.get(name) for name in ("id", "dashboard_id", "title")}
                queries = list(self._of_tile(tile))
                found += self._errors({**piece, "dashboard_element": element}, queries)
            totals["dashboard_filters"] += len(dashboard.get("dashboard_filters") or ())
        answer: Fields = {
            "content_with_errors": found,
            "computation_time": 0.1,
            "total_scheduled_plans_validated": 0,
            "total_alerts_validated": 0,
            "total_explores_validated": len(self._library.ids("explore")),
        }
        answer |= {f"total_{kind}_validated": count for kind, count in totals.items()}
        return _json(answer)

    def _listed(self, kind: str, spaces: set[str]) -> Iterator[Fields]:
        for item_id in self._library.ids(kind):
            body: Fields = json.loads(self._library.body(kind, item_id) or b"{}")
            if not spaces or str(body.get("folder_id")) in spaces:
                yield body

    def _of_tile(self, tile: Fields) -> Iterator[Fields]:
        if tile.get("query"):
            yield tile["query"]
        merged = self._library.body("merge_query", str(tile.get("merge_result_id")))
        for source in json.loads(merged)["source_queries"] if merged else ():
            yield self._query(str(source["query_id"])) or {}

    def _errors(self, piece: Fields, queries: list[Fields]) -> list[Fields]:
        errors = [problem for query in queries for problem in self._problems(query)]
        return [{**piece, "errors": errors, "id": str(id(piece))}] if errors else []

    def _problems(self, query: Fields) -> Iterator[Fields]:
        model, explore = str(query.get("model")), str(query.get("view"))
        where = {"model_name": model, "explore_name": explore, "field_name": None}
        if self._library.body("lookml_model", model) is None:
            yield {**where, "message": f'Unknown model "{model}"', "removable": False}
        elif self._library.body("explore", f"{model}::{explore}") is None:
            yield {**where, "message": f'Unknown explore "{explore}"', "removable": False}
        else:
            for name in self._library.unknown_fields.intersection(query.get("fields") or ()):
                said = f'Unknown field "{name}".'
                yield {**where, "field_name": name, "message": said, "removable": True}

    def _query(self, query_id: str) -> Fields | None:
        made = self._library.loose("queries").get(query_id)
        if made is not None:
            return made
        for kind in ("look", "dashboard"):
            for body in self._listed(kind, set()):
                holders = [body] if kind == "look" else body.get("dashboard_elements") or ()
                for holder in holders:
                    if str(holder.get("query_id")) == query_id:
                        found: Fields | None = holder.get("query")
                        return found
        return None

    def _result(self, query: Fields | None, request: Request, plural: str) -> Reply:
        """Rows; or an error in their place, as Looker answers, with status 200."""
        if query is None:
            return error_reply(404, "Not found", "get", f"{plural}/:id/run/json")
        problem = next(self._problems(query), None)
        failing = self._library.failing_fields.intersection(query.get("fields") or ())
        if problem is not None or failing:
            said = problem["message"] if problem else f"SQL Error: {sorted(failing)[0]} not found"
            return _json([{"looker_error": said}])
        limit = number_of(request.query.get("limit")) or 500
        names = query.get("fields") or ()
        return _json([dict.fromkeys(names, at) for at in range(min(limit, 3))])


def _named(body: Fields) -> Fields:
    folder = body.get("folder") or {}
    return {
        "id": body.get("id"),
        "title": body.get("title"),
        "folder": {"id": folder.get("id"), "name": folder.get("name", "")},
    }


def _json(value: Any) -> Reply:
    return Reply(200, json.dumps(value, separators=(",", ":")).encode())
