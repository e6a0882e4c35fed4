"""The parts of dashboards and boards, each made by a request of its own.

They are made in the order in which they are shown, so that no request is needed to sort them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.looker.restore.api import Api, made_id
from headrace.looker.restore.fields import Fields, to_send
from headrace.looker.restore.ids import Ids

_PLACE = ("row", "column", "width", "height")
_FINE_PLACE = ("granular_row", "granular_column", "granular_width", "granular_height")
_LISTENING = ("model", "view", "name", "listen")


class Parts:
    """Makes what stands inside of an item.

    Args:
        api: of the target.
        ids: which id is which there.
    """

    def __init__(self, api: Api, ids: Ids) -> None:
        self._api = api
        self._ids = ids

    def query(self, body: Mapping[str, Any]) -> str:
        """Make a query; its id. A query cannot be changed, so that a new one harms nobody."""
        answer = self._api.write("POST", "/queries", "query", to_send("query", body))
        return made_id(answer, "a query")

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
        for part in objects(body.get("dashboard_filters")):
            fields = {**to_send("dashboard_filter", part), "dashboard_id": new_id}
            self._api.write("POST", "/dashboard_filters", "dashboard_filter", fields)
        tiles = {
            str(part.get("id")): self._element(new_id, part)
            for part in objects(body.get("dashboard_elements"))
        }
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
            section_id = made_id(made, "a section of a board")
            for item in ordered(section.get("board_items"), section.get("item_order")):
                sent = self._ids.translated(to_send("board_item", item))
                sent["board_section_id"] = section_id
                self._api.write("POST", "/board_items", "board_item", sent)

    def _element(self, dashboard: str, part: Fields) -> str:
        fields = {k: v for k, v in to_send("dashboard_element", part).items() if k != "query_id"}
        fields = self._ids.translated({k: v for k, v in fields.items() if k != "dashboard_id"})
        fields["dashboard_id"] = dashboard
        maker = part.get("result_maker") or {}
        query = part.get("query") or maker.get("query")
        if query:
            fields["query_id"] = self.query(query)
        elif part.get("query_id") is not None and self._ids.same:
            fields["query_id"] = part["query_id"]
        if "result_maker" in fields:
            listening = [
                {name: each[name] for name in _LISTENING if name in each}
                for each in objects(maker.get("filterables"))
            ]
            fields["result_maker"] = {"filterables": listening}
        answer = self._api.write("POST", "/dashboard_elements", "dashboard_element", fields)
        return made_id(answer, "a tile")

    def _place(self, dashboard: str, where: Mapping[str, Fields]) -> None:
        """Looker gave each tile a place of its own choice; put it where it was."""
        there = self._api.get(f"/dashboards/{dashboard}")
        for component in _components(there):
            place = where.get(str(component.get("dashboard_element_id")))
            if place and any(component.get(name) != value for name, value in place.items()):
                self._api.put("PATCH", f"/dashboard_layout_components/{component['id']}", place)


def places(dashboard: Fields) -> dict[str, Fields]:
    """Where tiles stand, by their ids."""
    return {
        str(component.get("dashboard_element_id")): {
            name: component[name]
            for name in (*_PLACE, *_FINE_PLACE)
            if component.get(name) is not None
        }
        for component in _components(dashboard)
        if not component.get("deleted")
    }


def _components(dashboard: Fields) -> list[Fields]:
    layouts = objects(dashboard.get("dashboard_layouts"))
    active = [layout for layout in layouts if layout.get("active")] or layouts[:1]
    return [c for layout in active for c in objects(layout.get("dashboard_layout_components"))]


def ordered(parts: Any, order: Any) -> list[Fields]:
    """The parts that are not deleted, in the order of their ids in `order`."""
    found = [part for part in objects(parts) if not part.get("deleted_at")]
    rank = {str(part_id): at for at, part_id in enumerate(order or ())}
    return sorted(found, key=lambda part: rank.get(str(part.get("id")), len(rank)))


def objects(value: Any) -> list[Fields]:
    """The objects of an array; nothing if it is none."""
    elements: Iterable[Any] = value if isinstance(value, list) else ()
    return [each for each in elements if isinstance(each, dict)]
