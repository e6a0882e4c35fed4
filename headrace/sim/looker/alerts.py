"""What alerts have to do with the tiles that they watch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.sim.looker.library import Library


def alert_problems(
    library: Library, verb: str, fields: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """A tile that is not here, or no tile at all: field, code, message."""
    tile = fields.get("dashboard_element_id")
    named = verb == "post" or "dashboard_element_id" in fields
    if named and (tile is None or not _has_tile(library, str(tile))):
        return [("dashboard_element_id", "invalid", f"tile {tile} does not exist")]
    return []


def _has_tile(library: Library, tile: str) -> bool:
    wanted = f'"{tile}"'.encode()
    for dashboard in library.ids("dashboard"):
        body = library.body("dashboard", dashboard) or b""
        if wanted in body:
            tiles = json.loads(body).get("dashboard_elements") or []
            if any(str(each.get("id")) == tile for each in tiles):
                return True
    return False


def remove_alerts(library: Library, tile: str) -> None:
    """An alert goes with the tile that it watches."""
    where = (("dashboard_element_id", tile),)
    for alert in list(library.page("alert", 0, None, where=where)):
        library.remove("alert", alert)
