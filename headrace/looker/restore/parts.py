"""What stands inside of dashboards and boards: tiles, filters, sections, and how they are made.

Each is made by a request of its own, in the order in which they are shown, so that no request is
needed to sort them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.looker.elements import objects
from headrace.looker.merged_query_ids import merged_query_of
from headrace.looker.restore.api import Api, id_from_answer
from headrace.looker.restore.fields import LEFT_OUT, Fields, components, ordered, places, to_send
from headrace.looker.restore.state import Ids

_LISTENING = ("model", "view", "name", "listen")


class Parts:
    """Makes what stands inside of an item.

    Args:
        api: of the target.
        ids: which id is which there.
        leave_out: called with each part that cannot be carried over, in words.
    """

    def __init__(self, api: Api, ids: Ids, leave_out: Callable[[str], object]) -> None:
        self._api = api
        self._ids = ids
        self._leave_out = leave_out

    def check(self, body: Fields) -> None:
        """Look for what tiles and items of a board need, before anything is made.

        Raises:
            NeedsAnother: it is not there.
        """
        tiles = objects(body.get("dashboard_elements"))
        sections = objects(body.get("board_sections"))
        items = [item for section in sections for item in objects(section.get("board_items"))]
        for part in (*tiles, *items):
            for name, type_ in (("look_id", "look"), ("dashboard_id", "dashboard")):
                # A tile names the dashboard that it is of, which is about to be made.
                if part.get(name) is not None and not (part in tiles and name == "dashboard_id"):
                    self._ids.new(type_, part[name])

    def query(self, body: Mapping[str, Any]) -> str:
        """Make a query; its id. A query cannot be changed, so that a new one does no harm."""
        answer = self._api.write("POST", "/queries", "query", to_send("query", body))
        return id_from_answer(answer, "a query")

    def of_dashboard(self, new_id: str, body: Fields, *, fresh: bool) -> None:
        """Filters, tiles, and where the tiles stand.

        Args:
            new_id: of the dashboard at the target.
            body: of the vault.
            fresh: it was made just now and has no parts yet.
        """
        if not fresh:
            there = self._api.get(f"/dashboards/{new_id}")
            for kind in ("dashboard_elements", "dashboard_filters"):
                for part in objects(there.get(kind)):
                    self._api.delete(f"/{kind}/{part['id']}")
        filters: dict[str, str] = {}
        for part in objects(body.get("dashboard_filters")):
            fields = {**to_send("dashboard_filter", part), "dashboard_id": new_id}
            made = self._api.write("POST", "/dashboard_filters", "dashboard_filter", fields)
            filters[str(part.get("id"))] = id_from_answer(made, "a filter")
        tiles: dict[str, str] = {}
        for part in objects(body.get("dashboard_elements")):
            if (why := self._cannot_be_made(part)) is not None:
                self._leave_out(f"tile {_title(part)!r} depends on {why}")
            else:
                tile = tiles[str(part.get("id"))] = self._element(new_id, part, filters)
                self._ids.note_tile(str(part.get("id")), tile)
        where = places(body)
        if where:
            self._place(new_id, {tiles[tile]: p for tile, p in where.items() if tile in tiles})

    def of_board(self, new_id: str, body: Fields, *, fresh: bool) -> None:
        """Sections, and what stands in them."""
        if not fresh:
            there = self._api.get(f"/boards/{new_id}")
            for section in objects(there.get("board_sections")):
                self._api.delete(f"/board_sections/{section['id']}")
        for section in ordered(body.get("board_sections"), body.get("section_order")):
            fields = {**to_send("board_section", section), "board_id": new_id}
            made = self._api.write("POST", "/board_sections", "board_section", fields)
            section_id = id_from_answer(made, "a section of a board")
            for item in ordered(section.get("board_items"), section.get("item_order")):
                sent = self._ids.translated(to_send("board_item", item), self._leave_out)
                sent["board_section_id"] = section_id
                self._api.write("POST", "/board_items", "board_item", sent)

    def _cannot_be_made(self, part: Fields) -> str | None:
        """What a tile depends on that only the Looker that it comes from knows; None if nothing."""
        if self._ids.same:
            return None
        maker = part.get("result_maker") or {}
        merged = merged_query_of(part)
        if merged is not None:
            known = self._ids.known("merge_query", merged)
            return None if known else f"the merged query {merged}, which is not there"
        for name, what in LEFT_OUT["dashboard_element"].items():
            if part.get(name) is not None or maker.get(name) is not None:
                return what
        if part.get("query") or maker.get("query"):
            return None
        if part.get("query_id") is not None or maker.get("query_id") is not None:
            return "a query, which is in no body"
        return "a query of the SQL Runner" if maker.get("sql_query_id") is not None else None

    def _element(self, dashboard: str, part: Fields, filters: Mapping[str, str]) -> str:
        fields = to_send("dashboard_element", part)
        for name in ("query_id", "dashboard_id", "filter_id"):
            fields.pop(name, None)
        if (merged := merged_query_of(part)) is not None:
            fields["merge_result_id"] = merged
        fields = self._ids.translated(fields, self._leave_out)
        fields["dashboard_id"] = dashboard
        old = part.get("filter_id")
        if str(old) in filters:
            fields["filter_id"] = filters[str(old)]
        elif old is not None:
            self._leave_out(f"the filter {old} of tile {_title(part)!r}, which is in no body")
        if self._ids.same:
            fields |= {k: part[k] for k in LEFT_OUT["dashboard_element"] if part.get(k) is not None}
        maker = part.get("result_maker") or {}
        query = part.get("query") or maker.get("query")
        if query:
            fields["query_id"] = self.query(query)
        elif part.get("query_id") is not None:
            fields["query_id"] = part["query_id"]  # the same Looker: see `_cannot_be_made`
        if "result_maker" in fields:
            listening = [
                {name: each[name] for name in _LISTENING if name in each}
                for each in objects(maker.get("filterables"))
            ]
            fields["result_maker"] = {"filterables": listening}
        answer = self._api.write("POST", "/dashboard_elements", "dashboard_element", fields)
        return id_from_answer(answer, "a tile")

    def _place(self, dashboard: str, where: Mapping[str, Fields]) -> None:
        """Looker gave each tile a place of its own choice; put it where it was."""
        there = self._api.get(f"/dashboards/{dashboard}")
        for component in components(there):
            place = where.get(str(component.get("dashboard_element_id")))
            if place and any(component.get(name) != value for name, value in place.items()):
                self._api.put("PATCH", f"/dashboard_layout_components/{component['id']}", place)


def _title(part: Fields) -> str:
    return str(part.get("title") or part.get("title_text") or part.get("id"))
