"""Bodies that several answers make up, and what never gets into one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from headrace.looker.client import NotFound
from headrace.looker.combined_bodies import put_together
from headrace.looker.content_types import CONNECTION_FIELDS, content_of
from headrace.looker.vault import item_of
from headrace.wire.exceptions import BadAnswer


def serving(answers: Mapping[str, bytes]) -> Callable[[str, Mapping[str, str]], bytes]:
    def ask(path: str, query: Mapping[str, str]) -> bytes:
        if path not in answers:
            raise NotFound("nothing there", product=path, status=404)
        return answers[path]

    return ask


def test_what_an_answer_holds_is_kept_to_the_byte() -> None:
    metadata = b'{ "id": 12, "inherits" : false, "x": 1.50,"folder_id":5}\n'
    answers = {
        "/content_metadata/12": metadata,
        "/content_metadata_access": b'[ {"id": 1, "group_id":2 },\n {"id":3}]',
    }
    body = put_together(content_of("folder_access"), "12", serving(answers))
    assert body == (
        b'{"id":"12","content_metadata":' + metadata.strip() + b',"access":'
        b'[{"id": 1, "group_id":2 },{"id":3}]}'
    )
    item = item_of("folder_access", body, item_id="12")
    assert (item.id, item.folder, item.body) == ("12", "5", body)


def test_access_is_asked_for_only_where_it_is_not_inherited() -> None:
    answers = {"/content_metadata/1": b'{"id":"1","inherits":true}'}
    body = put_together(content_of("folder_access"), "1", serving(answers))
    assert json.loads(body)["access"] == []


def test_values_that_come_from_elsewhere_are_not_the_user_s() -> None:
    sources = ["User", "Group", "Default", "group: Sales", "SYSTEM DEFAULT", None, "tomorrow"]
    values = json.dumps([{"source": source} for source in sources]).encode()
    body = put_together(
        content_of("user_attribute_value"), "5", serving({"/users/5/attribute_values": values})
    )
    assert [v["source"] for v in json.loads(body)["values"]] == ["User", None, "tomorrow"]


def test_an_empty_search_for_a_group_proves_nothing_and_a_404_does() -> None:
    hierarchy = content_of("group_hierarchy")
    search = {"/groups/search/with_hierarchy": b"[]"}
    with pytest.raises(NotFound):
        put_together(hierarchy, "5", serving(search))
    with pytest.raises(BadAnswer, match="0 groups have the id '5'"):
        put_together(hierarchy, "5", serving({**search, "/groups/5": b'{"id":"5"}'}))
    found = {"/groups/search/with_hierarchy": b'[ {"id": 5, "role_ids": []} ]'}
    assert put_together(hierarchy, "5", serving(found)) == b'{"id": 5, "role_ids": []}'


@pytest.mark.parametrize("answer", [b"null", b"{}", b"<html>", b"", b"[1]", b"[", b'"x"'])
def test_an_answer_of_another_shape_is_an_error_and_no_item(answer: bytes) -> None:
    with pytest.raises(BadAnswer):
        put_together(
            content_of("user_attribute_value"), "5", serving({"/users/5/attribute_values": answer})
        )


def test_secrets_are_taken_out_from_every_source() -> None:
    connection = {"name": "c", "host": "h", "password": "p", "certificate": "x", "tomorrow": "y"}
    kept = json.loads(item_of("connection", json.dumps(connection).encode()).body)
    assert kept == {"name": "c", "host": "h"}
    assert not {"username", "password", "certificate", "jdbc_additional_params"} & set(
        CONNECTION_FIELDS
    )
    hidden = {"id": "1", "name": "a", "value_is_hidden": True, "default_value": "s"}
    kept = json.loads(item_of("user_attribute", json.dumps(hidden).encode()).body)
    assert "default_value" not in kept
    values = {"id": "1", "values": [{"value": "s", "value_is_hidden": True}, {"value": "t"}]}
    kept = json.loads(item_of("user_attribute_value", json.dumps(values).encode()).body)
    assert kept["values"] == [{"value_is_hidden": True}, {"value": "t"}]


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        ("connection", b'{ "name" : "c",\n"host":"h" }'),
        ("user_attribute", b'{"id": 1, "value_is_hidden": true, "default_value": null }'),
        ("user_attribute", b'{"id": 1, "value_is_hidden": false, "default_value": "d" }'),
        ("group_attribute_value", b'{"id": "1", "group_values": [ {"value": "v"} ] }'),
        ("user_attribute_value", b'{"id": "1", "values": null }'),
    ],
)
def test_a_body_without_a_secret_stays_to_the_byte(type_: str, body: bytes) -> None:
    assert item_of(type_, body).body == body
