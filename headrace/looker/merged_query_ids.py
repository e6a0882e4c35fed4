"""Ids that bodies name: merged queries in the tiles of a dashboard, queries in a merged query."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from headrace.looker.content_types import CONTENT
from headrace.looker.elements import objects
from headrace.looker.vault import Vault
from headrace.looker.vault.items import id_text


class _Namer(msgspec.Struct):
    """What may name others, in a body of either type; the rest is skipped, not parsed."""

    dashboard_elements: Any = None
    source_queries: Any = None


_DECODER = msgspec.json.Decoder(_Namer)


def named_in(body: bytes) -> list[str]:
    """Ids of the merged queries that a dashboard names, or of the queries of a merged query."""
    try:
        namer = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            parsed = json.loads(body)  # text that is not Unicode
        except (ValueError, RecursionError):
            return []
        fields = parsed if isinstance(parsed, dict) else {}
        namer = _Namer(fields.get("dashboard_elements"), fields.get("source_queries"))
    tiles = merged_queries_of({"dashboard_elements": namer.dashboard_elements})
    sources = [id_text(source.get("query_id")) for source in objects(namer.source_queries)]
    return [item_id for item_id in dict.fromkeys((*tiles, *sources)) if item_id is not None]


def merged_queries_of(dashboard: dict[str, Any]) -> list[str]:
    """Ids of the merged queries that the tiles of a dashboard show, each once."""
    tiles = [merged_query_of(tile) for tile in objects(dashboard.get("dashboard_elements"))]
    return [item_id for item_id in dict.fromkeys(tiles) if item_id is not None]


def merged_query_of(tile: dict[str, Any]) -> str | None:
    """The id of the merged query that a tile shows; None if it shows none."""
    maker = tile.get("result_maker")
    inner = maker.get("merge_result_id") if isinstance(maker, dict) else None
    return id_text(tile.get("merge_result_id")) or id_text(inner)


def named_ids(vault: Vault, type_: str) -> Iterator[str]:
    """Ids of items of a type that the bodies in a vault name, each once."""
    namers = CONTENT[type_].named_by
    shown: set[str] = set()
    for row in vault.contents.rows(namers):
        for item_id in named_in(vault.contents.body(namers, row.id).body):
            if item_id not in shown:
                shown.add(item_id)
                yield item_id
