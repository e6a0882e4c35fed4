"""The bodies of a simulated Looker, each a function of (seed, kind, number).

A body is a ready-made text with a few places to fill in, so that making one costs a formatting of
bytes and a server of 50,000 dashboards is not what a bench measures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from headrace.sim.randomness import key_of, mix

_EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
_WORDS = (
    "orders", "revenue", "users", "sessions", "churn", "margin", "events", "funnel", "returns",
    "growth", "retention", "invoices", "leads", "tickets", "latency", "costs", "forecast", "cohort",
)  # fmt: skip


class Template:
    """A JSON object with places to fill in.

    Args:
        shape: the object; what `place("name")` returned stands where a value or text goes.
    """

    def __init__(self, shape: Mapping[str, Any]) -> None:
        text = json.dumps(shape, separators=(",", ":"))
        # `"\\u0001!name\\u0001"` is a whole value, `\\u0001name\\u0001` a piece of a text.
        text = text.replace("%", "%%")
        parts: list[str] = []
        while text:
            before, mark, rest = text.partition("\\u0001")
            if not mark:
                parts.append(before)
                break
            name, _, text = rest.partition("\\u0001")
            if name.startswith("!"):
                parts.append(before[:-1] + f"%({name[1:]})b")
                text = text[1:]
            else:
                parts.append(before + f"%({name})b")
        self._format = "".join(parts).encode()

    def fill(self, values: Mapping[bytes, bytes]) -> bytes:
        """The body."""
        return self._format % values


def place(name: str) -> str:
    """A piece of a text, to be filled in."""
    return f"\x01{name}\x01"


def value(name: str) -> str:
    """A whole JSON value, to be filled in."""
    return f"\x01!{name}\x01"


def moment(number: int) -> str:
    """When item `number` was made, as Looker writes times."""
    return (_EPOCH + timedelta(minutes=number)).strftime("%Y-%m-%dT%H:%M:%S.000+00:00")


def body_of(
    seed: int, kind: str, item_id: str, *, dashboard_bytes: int = 4000, explores: int = 0
) -> bytes:
    """The body of a generated item, as its own endpoint serves it.

    Args:
        seed, kind: of the instance; the kind may be `lookml_dashboard` or `explore`.
        item_id: one that the kind's numbering has.
        dashboard_bytes: how long dashboards are.
        explores: how many a model has.
    """
    number = _number(item_id)
    mixed = mix(key_of(seed, kind), number)
    values = {
        b"id": item_id.encode(),
        b"n": b"%d" % number,
        b"created": moment(number).encode(),
        b"updated": moment(number + mixed % 100_000).encode(),
        b"word": _WORDS[mixed % len(_WORDS)].encode(),
        b"other": _WORDS[(mixed >> 8) % len(_WORDS)].encode(),
        b"owner": b"%d" % (1 + (mixed >> 16) % 10),
        b"folder": b"%d" % (1 + (mixed >> 24) % 8),
        b"views": b"%d" % ((mixed >> 32) % 10_000),
        b"model": (item_id.partition("::")[0] or "model_1").encode(),
        b"name": item_id.partition("::")[2].encode(),
        # Folders make a binary tree below the first.
        b"parent": b'"%d"' % (number // 2) if number > 1 else b"null",
        b"explores": _explores(explores) if kind == "lookml_model" else b"[]",
    }
    return _template(kind, dashboard_bytes).fill(values)


def padded(body: bytes, size_bytes: int, seed: int) -> bytes:
    """The body with a field more, so that it has `size_bytes` if it was shorter."""
    missing = size_bytes - len(body) - len(_PADDING) - 1
    if missing <= 0:
        return body
    filler = _filler(seed)
    text = (filler * (missing // len(filler) + 1))[:missing]
    return body[:-1] + _PADDING + text + b'"}'


_PADDING = b',"padding":"'


@lru_cache(maxsize=4)
def _filler(seed: int) -> bytes:
    return hashlib.shake_256(f"filler {seed}".encode()).hexdigest(128 * 1024).encode()


@lru_cache(maxsize=64)
def _explores(count: int) -> bytes:
    listed = [{"name": f"explore_{number + 1}", "hidden": False} for number in range(count)]
    return json.dumps(listed, separators=(",", ":")).encode()


def _number(item_id: str) -> int:
    digits = item_id.rpartition("_")[2].rpartition("::")[2]
    return int(digits) if digits.isdecimal() else sum(item_id.encode())


@lru_cache(maxsize=64)
def _template(kind: str, dashboard_bytes: int) -> Template:
    if kind == "dashboard":
        return Template(_dashboard(dashboard_bytes))
    return Template(_SHAPES[kind]())


#: Places are longer than what fills them, and the text has no blanks between its parts.
_FILLED_SHARE = 0.72
_CAN = {"index": True, "show": True, "update": True, "destroy": False}


def _folder_base() -> dict[str, Any]:
    return {"id": place("folder"), "name": f"Folder {place('folder')}", "parent_id": None}


def _query(number: str) -> dict[str, Any]:
    return {
        "id": number,
        "model": "model_1",
        "view": "explore_1",
        "fields": [f"{place('word')}.id", f"{place('other')}.count"],
        "filters": {f"{place('other')}.created_date": "90 days"},
        "sorts": [f"{place('other')}.count desc"],
        "limit": "500",
        "vis_config": {"type": "looker_column", "stacking": "", "show_null_labels": False},
        "total": None,
    }


def _element(at: int) -> dict[str, Any]:
    return {
        "id": f"{place('id')}{at:03}",
        "dashboard_id": place("id"),
        "title": f"{place('word')} by {place('other')} ({at})",
        "type": "vis",
        "look_id": None,
        "note_text": None,
        "query_id": f"{place('id')}{at:03}",
        "query": _query(f"{place('id')}{at:03}"),
        "refresh_interval": None,
    }


def _dashboard(size_bytes: int) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "id": place("id"),
        "title": f"Dashboard {place('n')}: {place('word')} and {place('other')}",
        "description": f"What {place('word')} does to {place('other')}",
        "hidden": False,
        "user_id": place("owner"),
        "folder": _folder_base(),
        "folder_id": place("folder"),
        "created_at": place("created"),
        "updated_at": place("updated"),
        "deleted": False,
        "deleted_at": None,
        "slug": f"slug{place('n')}",
        "query_timezone": None,
        "refresh_interval": None,
        "load_configuration": "prefetch_cache_run",
        "view_count": value("views"),
        "a_field_of_tomorrow": {"kept": True},
        "can": _CAN,
        "dashboard_filters": [
            {"id": f"{place('id')}1", "dashboard_id": place("id"), "name": "Date",
             "type": "date_filter", "default_value": "7 days", "row": 0}
        ],
        "dashboard_layouts": [
            {"id": place("id"), "dashboard_id": place("id"), "type": "newspaper", "active": True,
             "dashboard_layout_components": []}
        ],
        "dashboard_elements": [],
    }  # fmt: skip
    elements: list[dict[str, Any]] = shape["dashboard_elements"]
    bare, each = (len(json.dumps(part)) * _FILLED_SHARE for part in (shape, _element(100)))
    elements += [_element(at) for at in range(max(0, round((size_bytes - bare) / each)))]
    return shape


def _look() -> dict[str, Any]:
    return {
        "id": place("id"),
        "title": f"Look {place('n')}: {place('word')}",
        "description": None,
        "user_id": place("owner"),
        "folder": _folder_base(),
        "folder_id": place("folder"),
        "query_id": f"{place('id')}7",
        "created_at": place("created"),
        "updated_at": place("updated"),
        "deleted": False,
        "deleted_at": None,
        "is_run_on_load": True,
        "public": False,
        "view_count": value("views"),
        "can": _CAN,
        "query": _query(f"{place('id')}7"),
    }


_SHAPES: Mapping[str, Callable[[], dict[str, Any]]] = {
    "look": _look,
    "lookml_dashboard": lambda: {
        "dashboard_id": place("id"),
        "id": place("id"),
        "title": f"LookML {place('name')}",
        "folder_id": "lookml",
        "user_id": None,
        "created_at": None,
        "updated_at": place("updated"),
        "lookml": f"- dashboard: {place('name')}\n  title: {place('word')}\n  elements: []\n",
    },
    "user": lambda: {
        "id": place("id"),
        "display_name": f"Person {place('n')}",
        "first_name": "Person",
        "last_name": place("n"),
        "email": f"person{place('n')}@example.com",
        "is_disabled": False,
        "locale": "en",
        "personal_folder_id": place("folder"),
        "group_ids": ["1"],
        "role_ids": ["1"],
        "credentials_email": {"email": f"person{place('n')}@example.com", "is_disabled": False},
    },
    "group": lambda: {
        "id": place("id"),
        "name": f"Group {place('n')}",
        "user_count": 3,
        "external_group_id": None,
        "can_add_to_content_metadata": True,
    },
    "permission_set": lambda: {
        "id": place("id"),
        "name": f"Permissions {place('n')}",
        "permissions": ["access_data", "see_looks", f"see_{place('word')}"],
        "built_in": False,
        "all_access": False,
    },
    "model_set": lambda: {
        "id": place("id"),
        "name": f"Models {place('n')}",
        "models": ["model_1"],
        "built_in": False,
        "all_access": False,
    },
    "role": lambda: {
        "id": place("id"),
        "name": f"Role {place('n')}",
        "permission_set_id": "1",
        "model_set_id": "1",
        "permission_set": {"id": "1", "name": "Permissions 1"},
        "model_set": {"id": "1", "name": "Models 1"},
    },
    "folder": lambda: {
        "id": place("id"),
        "name": f"Folder {place('n')}",
        "parent_id": value("parent"),
        "creator_id": place("owner"),
        "created_at": place("created"),
        "is_personal": False,
        "child_count": 0,
        "content_metadata_id": f"9{place('id')}",
    },
    "lookml_model": lambda: {
        "name": place("id"),
        "label": f"Model {place('n')}",
        "project_name": "project",
        "allowed_db_connection_names": ["warehouse"],
        "unlimited_db_connections": False,
        "has_content": True,
        "explores": value("explores"),
    },
    "explore": lambda: {
        "id": place("id"),
        "name": place("name"),
        "model_name": place("model"),
        "label": place("word"),
        "connection_name": "warehouse",
        "fields": {"dimensions": [{"name": f"{place('word')}.id", "type": "number"}]},
        "joins": [],
    },
    "user_attribute": lambda: {
        "id": place("id"),
        "name": f"attribute_{place('n')}",
        "label": f"Attribute {place('n')}",
        "type": "string",
        "default_value": place("word"),
        "is_system": False,
        "is_permanent": False,
        "value_is_hidden": False,
        "user_can_view": True,
        "user_can_edit": False,
        "hidden_value_domain_whitelist": None,
        "can": _CAN,
    },
    # In the order in which an extraction asks for the fields; the rest is what it must not keep.
    "connection": lambda: {
        "name": place("id"),
        "dialect_name": "bigquery_standard_sql",
        "host": "warehouse.example.com",
        "port": "443",
        "database": place("word"),
        "schema": place("other"),
        "max_connections": 10,
        "ssl": True,
        "uses_oauth": False,
        "has_password": True,
        "created_at": place("created"),
        "user_id": "1",
        "username": "simulated-user",
        "jdbc_additional_params": "token=simulated-secret",
        "after_connect_statements": "SET ROLE simulated_secret",
    },
    "alert": lambda: {
        "id": place("id"),
        "custom_title": f"Alert {place('n')}",
        "description": None,
        "comparison_type": "GREATER_THAN",
        "cron": "0 6 * * *",
        "threshold": 100.0,
        "field": {"title": place("word"), "name": f"{place('word')}.count", "filter": None},
        "destinations": [
            {"destination_type": "EMAIL", "email_address": "x@example.com",
             "action_hub_integration_id": None, "action_hub_form_params_json": None}
        ],
        "applied_dashboard_filters": [],
        "dashboard_element_id": "1000",
        "lookml_dashboard_id": None,
        "lookml_link_id": None,
        "owner_id": place("owner"),
        "owner_display_name": f"Person {place('owner')}",
        "is_disabled": False,
        "disabled_reason": None,
        "is_public": True,
        "followed": False,
        "followable": True,
        "investigative_content_type": "dashboard",
        "investigative_content_id": "1",
        "investigative_content_title": "Dashboard 1",
    },
    "board": lambda: {
        "id": place("id"),
        "title": f"Board {place('n')}",
        "description": place("word"),
        "user_id": place("owner"),
        "created_at": place("created"),
        "updated_at": place("updated"),
        "deleted_at": None,
        "section_order": [f"{place('id')}1"],
        "board_sections": [
            {"id": f"{place('id')}1", "board_id": place("id"), "title": "First",
             "board_items": [{"id": f"{place('id')}11", "dashboard_id": "1", "look_id": None}]}
        ],
    },
    "scheduled_plan": lambda: {
        "id": place("id"),
        "name": f"Plan {place('n')}",
        "title": f"Plan {place('n')}",
        "user_id": place("owner"),
        "user": {"id": place("owner"), "first_name": "Person"},
        "enabled": True,
        "dashboard_id": "1",
        "look_id": None,
        "crontab": "0 6 * * *",
        "timezone": "UTC",
        "created_at": place("created"),
        "updated_at": place("updated"),
        "scheduled_plan_destination": [
            {"id": f"{place('id')}1", "format": "wysiwyg_pdf", "address": "x@example.com",
             "type": "email"}
        ],
    },
}  # fmt: skip
