"""Every field of every content type is decided, against the models of the SDK."""

from __future__ import annotations

from collections import Counter

import attr
import pytest
from looker_sdk.sdk.api40 import models

from headrace.looker.restore import fields

#: The model that is written and the one that is read, by kind.
_MODELS = {
    "user": (models.WriteUser, models.User),
    "group": (models.WriteGroup, models.Group),
    "permission_set": (models.WritePermissionSet, models.PermissionSet),
    "model_set": (models.WriteModelSet, models.ModelSet),
    "role": (models.WriteRole, models.Role),
    "folder": (models.CreateFolder, models.Folder),
    "lookml_model": (models.WriteLookmlModel, models.LookmlModel),
    "look": (models.WriteLookWithQuery, models.LookWithQuery),
    "dashboard": (models.WriteDashboard, models.Dashboard),
    "board": (models.WriteBoard, models.Board),
    "scheduled_plan": (models.WriteScheduledPlan, models.ScheduledPlan),
    "user_attribute": (models.WriteUserAttribute, models.UserAttribute),
    "alert": (models.WriteAlert, models.Alert),
    "query": (models.WriteQuery, models.Query),
    "merge_query": (models.WriteMergeQuery, models.MergeQuery),
    "dashboard_filter": (models.WriteCreateDashboardFilter, models.DashboardFilter),
    "dashboard_element": (models.WriteDashboardElement, models.DashboardElement),
    "board_section": (models.WriteBoardSection, models.BoardSection),
    "board_item": (models.WriteBoardItem, models.BoardItem),
}
#: Writable by the models, and yet the server's: it names a query by what is in it.
_THE_SERVER_S = {("query", "client_id")}


def _names(model: type) -> set[str]:
    return {field.name.rstrip("_") for field in attr.fields(model)}


def _decisions(kind: str, name: str) -> Counter[str]:
    by_others = fields.BY_OTHERS.get(kind, frozenset())
    left_out = fields.LEFT_OUT.get(kind, {})
    tables = {
        "writable": name in fields.WRITABLE[kind],
        "by others": name in by_others,
        "left out": name in left_out,
        "read-only": name in fields.READ_ONLY[kind],
    }
    found = Counter(table for table, holds in tables.items() if holds)
    if not found and name in fields.READ_ONLY_EVERYWHERE:
        found["read-only"] += 1
    return found


def test_every_kind_that_is_written_is_compared_with_a_model() -> None:
    assert set(_MODELS) == set(fields.WRITABLE) == set(fields.READ_ONLY)


@pytest.mark.parametrize("kind", _MODELS)
def test_each_field_has_one_decision_and_what_can_be_written_is_not_called_read_only(
    kind: str,
) -> None:
    written, read = map(_names, _MODELS[kind])
    decided = {name: _decisions(kind, name) for name in written | read}
    assert {name: found for name, found in decided.items() if found.total() != 1} == {}
    ignored = {n for n in written if decided[n]["read-only"] and (kind, n) not in _THE_SERVER_S}
    assert ignored == set()


@pytest.mark.parametrize("kind", _MODELS)
def test_nothing_is_sent_that_the_model_does_not_write(kind: str) -> None:
    assert fields.WRITABLE[kind] <= _names(_MODELS[kind][0])
