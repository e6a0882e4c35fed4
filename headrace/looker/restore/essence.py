"""What a restore would write of a body, ids of parts left aside: two alike need no writing.

When a dashboard is restored, its tiles are made anew and have new ids; compared byte by byte it
would be restored again and again.
"""

from __future__ import annotations

from typing import Any

from headrace.looker.restore.fields import Fields, to_send
from headrace.looker.restore.parts import objects, ordered, places

_OF_PART = frozenset({"dashboard_id", "query_id", "board_id", "board_section_id", "result_maker"})
_OF_DESTINATION = frozenset({"id", "scheduled_plan_id", "looker_recipient"})


def alike(type_: str, there: Fields, wanted: Fields) -> bool:
    """Whether a restore of `wanted` over `there` would change nothing that it can change."""
    found, told = essence(type_, there), essence(type_, wanted)
    # Whoever restores what was in the trash wants it out of there.
    told["deleted"] = False
    if not told["fields"].get("slug"):
        # Looker gives one to a dashboard that has none.
        for fields in (found["fields"], told["fields"]):
            fields.pop("slug", None)
    if not any(told.get("places") or ()):
        # The vault does not know where the tiles stood; wherever they are will do.
        found.pop("places", None)
        told.pop("places", None)
    return found == told


def essence(type_: str, body: Fields) -> Fields:
    """What makes the item what it is."""
    deleted = bool(body.get("deleted") or body.get("deleted_at"))
    told: Fields = {"fields": to_send(type_, body), "deleted": deleted}
    match type_:
        case "dashboard":
            told["filters"] = [
                _part("dashboard_filter", each) for each in objects(body.get("dashboard_filters"))
            ]
            told["tiles"] = [_tile(each) for each in objects(body.get("dashboard_elements"))]
            tiles = [str(e.get("id")) for e in objects(body.get("dashboard_elements"))]
            where = places(body)
            told["places"] = [where.get(tile) for tile in tiles]
        case "board":
            told["sections"] = [
                {
                    "fields": _part("board_section", section),
                    "items": [
                        _part("board_item", item)
                        for item in ordered(section.get("board_items"), section.get("item_order"))
                    ],
                }
                for section in ordered(body.get("board_sections"), body.get("section_order"))
            ]
        case "look":
            told["query"] = to_send("query", body.get("query") or {})
            told["fields"].pop("query_id", None)
        case "scheduled_plan":
            told["fields"]["scheduled_plan_destination"] = [
                {k: v for k, v in each.items() if k not in _OF_DESTINATION}
                for each in objects(body.get("scheduled_plan_destination"))
            ]
        case "user":
            told["email"] = body.get("email")
            for name in ("group_ids", "role_ids"):
                told[name] = sorted(str(each) for each in body.get(name) or ())
    return told


def _tile(part: Fields) -> Any:
    maker = part.get("result_maker") or {}
    return {
        "fields": _part("dashboard_element", part),
        "query": to_send("query", part.get("query") or maker.get("query") or {}),
        "listening": maker.get("filterables") or [],
    }


def _part(kind: str, part: Fields) -> Fields:
    return {k: v for k, v in to_send(kind, part).items() if k not in _OF_PART}
