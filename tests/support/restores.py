"""Vaults filled from a simulated Looker, restores into another, and what should be alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from headrace.looker.client import LookerClient, LookerConnection, open_client
from headrace.looker.content_types import TYPES
from headrace.looker.restore.plan import plan
from headrace.looker.restore.report import RestoreReport
from headrace.looker.restore.restorer import Restorer
from headrace.looker.vault import Status, Vault, item_of
from headrace.quota import QuotaConfig, open_gate, parse_rates
from headrace.sim.looker import SimulatedLooker
from headrace.stopping import StopEvent

#: What is there of a Looker that no user has changed yet.
EMPTY = {
    "user": 0, "group": 0, "permission_set": 0, "model_set": 0, "role": 0, "folder": 1,
    "lookml_model": 0, "explore": 0, "look": 0, "dashboard": 0, "lookml_dashboard": 0, "board": 0,
    "scheduled_plan": 0, "merge_query": 0, "user_attribute": 0, "alert": 0, "connection": 2,
}  # fmt: skip
SMALL = {
    "user": 10, "group": 2, "permission_set": 2, "model_set": 1, "role": 2, "folder": 8,
    "lookml_model": 2, "explore": 1, "look": 4, "dashboard": 6, "lookml_dashboard": 1, "board": 2,
    "scheduled_plan": 2, "user_attribute": 2, "alert": 3, "connection": 2,
}  # fmt: skip
#: What the server works out itself, or assigns again.
_ITS_OWN = frozenset(
    {
        "id", "can", "created_at", "updated_at", "view_count", "label",
        "has_content", "explores", "personal_folder_id", "user_count", "external_group_id",
        "built_in", "all_access", "is_personal", "child_count", "creator_id", "folder", "user",
        "permission_set", "model_set", "dashboard_layouts", "section_order", "deleted",
        "deleted_at", "is_disabled", "board_section_id", "query_slug", "result_maker_id",
        "content_metadata_id", "inheriting_id", "dashboard_element_id",
        "owner_display_name", "followed", "followable", "investigative_content_title",
    }
)  # fmt: skip
_REFERENCES = {
    "user_id": "user", "folder_id": "folder", "parent_id": "folder", "look_id": "look",
    "dashboard_id": "dashboard", "permission_set_id": "permission_set",
    "model_set_id": "model_set", "group_ids": "group", "role_ids": "role",
    "merge_result_id": "merge_query", "query_id": "query", "group_id": "group",
    "parent_group_ids": "group", "user_attribute_id": "user_attribute", "owner_id": "user",
    "investigative_content_id": "dashboard",
}  # fmt: skip


@contextmanager
def client_of(
    sim: SimulatedLooker, folder: Path, stop: StopEvent | None = None, rates: str = "none"
) -> Iterator[LookerClient]:
    name = f"sim-{sim.url.rpartition(':')[2]}"
    quota = QuotaConfig(name=name, rates=parse_rates(rates))
    connection = LookerConnection(sim.url, "headrace", SecretStr("simulated-secret"))
    with (
        open_gate(folder / "quota", quota) as gate,
        open_client(connection, gate, workers=4, stop=stop) as client,
    ):
        yield client


def fill(vault: Vault, sim: SimulatedLooker, without: Sequence[str] = ()) -> int:
    """Store what a perfect extraction would, but for some types."""
    vault.bind(sim.url)
    session = vault.sessions.begin("extract")
    for type_ in (each for each in TYPES if each not in without):
        items = [item_of(type_, body) for body in sim.library.content(type_).values()]
        vault.upsert_many(session, items)
    vault.sessions.end(session, Status.DONE)
    return session


def restore(vault: Vault, client: Any, **options: Any) -> RestoreReport:
    names = ("types", "item_id", "version", "deleted")
    of_plan = {name: options.pop(name) for name in names if name in options}
    parameters = {name: str(value) for name, value in of_plan.items()}
    options.setdefault("enable_schedules", True)  # what is restored is compared with the vault
    return Restorer(vault, client, **options).run(plan(vault, **of_plan), parameters=parameters)


def meaning(body: bytes, new_ids: Mapping[tuple[str, str], str]) -> Any:
    """A body up to ids: references translated, what the server makes itself left out."""
    return _meaning(json.loads(body), new_ids)


def _meaning(value: Any, new_ids: Mapping[tuple[str, str], str]) -> Any:
    if isinstance(value, list):
        return [_meaning(each, new_ids) for each in value]
    if not isinstance(value, dict):
        return value
    if "dialect_name" in value:
        return value["name"]  # a connection is known by its name
    kept: dict[str, Any] = {}
    for name, inner in value.items():
        if name in _ITS_OWN or (name == "slug" and "view" in value):  # that of a query
            continue
        if name == "parent_id" and "inherits" in value:
            continue  # of content metadata
        if name == "query_id" and "merge_fields" not in value:
            continue  # the query itself stands beside it
        type_ = _REFERENCES.get(name)
        if type_ and isinstance(inner, list):
            kept[name] = [new_ids.get((type_, str(each)), str(each)) for each in inner]
        elif type_ and inner is not None:
            kept[name] = new_ids.get((type_, str(inner)), str(inner))
        else:
            kept[name] = _meaning(inner, new_ids)
    return kept
