"""The simulated Looker's answers to what reads: listings and single items, as in API 4.0."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from headrace.sim.http import Reply, Request
from headrace.sim.looker.access_api import AccessApi
from headrace.sim.looker.library import Library, sort_key
from headrace.sim.looker.routes import LISTS, PLURALS, ListRoute, item_key, number_of, segments
from headrace.sim.looker.tokens import error_reply
from headrace.sim.looker.validation import ValidationApi
from headrace.sim.looker.writes import WriteApi

_FILTERS = ("folder_id", "user_id", "title", "name", "parent_id", "slug", "email")


#: Who is logged in.
_CALLER = "1"


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, and which whole bodies it holds (kind and id): some of them may be slow."""

    reply: Reply
    holds: tuple[tuple[str, str], ...] = ()


class LookerApi:
    """Routes over a library; no clock, no wire, no faults.

    Args:
        library: the content.
        page_most: the most that `limit` is taken for.
    """

    def __init__(self, library: Library, page_most: int | None = None) -> None:
        self._library = library
        self._page_most = page_most
        self._access = AccessApi(library)
        self._writes = WriteApi(library, self._access)
        self._validation = ValidationApi(library)

    def answer(self, request: Request) -> Answer:
        """The answer to a request that nothing went wrong with."""
        pieces = segments(request)
        path = "/".join(pieces)
        if request.method != "GET":
            return Answer(self._writes.answer(request, pieces))
        if path in LISTS:
            return self._list(LISTS[path], request)
        if path == "user":
            return self._one("user", _CALLER, request)
        key = item_key(pieces)
        if key is not None:
            return self._one(*key, request)
        of_access = self._access.answer(request, pieces, None)
        other = of_access or self._validation.read(request, pieces)
        return Answer(other or _missing(pieces))

    def _list(self, route: ListRoute, request: Request) -> Answer:
        query = request.query
        start, size = number_of(query.get("offset")) or 0, number_of(query.get("limit"))
        if not route.paged:
            start, size = 0, None
        elif self._page_most is not None:
            size = self._page_most if size is None else min(size, self._page_most)
        where = tuple((name, query[name]) for name in _FILTERS if name in query)
        if route.kind == "scheduled_plan" and query.get("all_users") != "true":
            where = (("user_id", query.get("user_id", _CALLER)),)
        if route.kind == "alert" and query.get("all_owners") != "true":
            where = (("owner_id", _CALLER),)
        ids = self._library.page(
            route.kind,
            start,
            size,
            ordered=not route.paged or "sorts" in query,
            trash=query.get("deleted") == "true",
            where=where,
        )
        if "id" in query:
            wanted = query["id"].split(",")
            ids = [item_id for item_id in wanted if self._library.body(route.kind, item_id)]
        if query.get("sorts", "").endswith(" desc"):
            ids = sorted(ids, key=sort_key, reverse=True)
        bodies = (self._library.body(route.kind, item_id) for item_id in ids)
        fields = query.get("fields")
        present = [body for body in bodies if body is not None]
        if fields or route.without:
            present = [_trimmed(body, fields, route.without) for body in present]
        whole = () if fields else tuple((route.kind, item_id) for item_id in ids)
        return Answer(Reply(200, b"[" + b",".join(present) + b"]"), whole)

    def _one(self, kind: str, item_id: str, request: Request) -> Answer:
        body = self._library.body(kind, item_id)
        if body is None:
            plural = next((p for p, type_ in PLURALS.items() if type_ == kind), f"{kind}s")
            return Answer(error_reply(404, "Not found", "get", f"{plural}/:{kind}_id"))
        fields = request.query.get("fields")
        if fields:
            return Answer(Reply(200, _trimmed(body, fields, ())))
        return Answer(Reply(200, body), ((kind, item_id),))


def _trimmed(body: bytes, fields: str | None, without: tuple[str, ...]) -> bytes:
    """The body with some fields only; `folder(id,name)` keeps some of an object's own."""
    item: dict[str, Any] = json.loads(body)
    if fields:
        item = _kept(item, _wanted(fields))
    for name in without:
        item.pop(name, None)
    try:
        return msgspec.json.encode(item)
    except UnicodeEncodeError:  # a lone surrogate: only an escape can carry it
        return json.dumps(item, separators=(",", ":")).encode()


def _kept(item: Mapping[str, Any], wanted: Mapping[str, str]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, inner in wanted.items():
        if name in item:
            found = item[name]
            if inner and isinstance(found, dict):
                found = _kept(found, _wanted(inner))
            elif inner and isinstance(found, list):
                found = [_kept(each, _wanted(inner)) for each in found if isinstance(each, dict)]
            kept[name] = found
    return kept


def _wanted(fields: str) -> dict[str, str]:
    """Names, each with what stands in its parentheses."""
    wanted: dict[str, str] = {}
    depth, name, inner = 0, "", ""
    for character in fields + ",":
        if character == "(" and not depth:
            depth = 1
        elif character == ")" and depth == 1:
            depth = 0
        elif character == "," and not depth:
            if name.strip():
                wanted[name.strip()] = inner
            name = inner = ""
        elif depth:
            depth += (character == "(") - (character == ")")
            inner += character
        else:
            name += character
    return wanted


def _missing(pieces: list[str]) -> Reply:
    return error_reply(404, "Not found", "get", "/".join(pieces[:1]) or "nothing")
