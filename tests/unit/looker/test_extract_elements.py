"""The elements of a listing, byte for byte, however odd they are."""

import json

import pytest

from headrace.looker.content_types import content_of
from headrace.looker.elements import elements_of
from headrace.looker.extract.pages import explore_ids, id_of, listed_elements
from headrace.wire.exceptions import BadAnswer


def test_elements_keep_every_byte_between_the_commas():
    body = b'[ {"id":1 , "a":[1, 2]},\n{"id":"2","b":1.0e+2, "b":"\\u00e9"} ,{} ]'
    assert elements_of(body, "x") == [
        b'{"id":1 , "a":[1, 2]}',
        b'{"id":"2","b":1.0e+2, "b":"\\u00e9"}',
        b"{}",
    ]
    assert elements_of(b" [] ", "x") == []


def test_bytes_that_are_no_utf_8_pass_as_they_are():
    body = b'[{"id":"1","t":"\xff\xfe"}, {"id":"2","t":"\\ud83d"}]'
    assert elements_of(body, "x") == [
        b'{"id":"1","t":"\xff\xfe"}',
        b'{"id":"2","t":"\\ud83d"}',
    ]


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"{}", b"<html>", b"[", b"[1", b"[1,", b"[1 2]", b"[1] 2", b'["\xff"', b"1"],
)
def test_what_is_no_list_is_refused(body):
    with pytest.raises(BadAnswer, match="no list"):
        elements_of(body, "x")
    with pytest.raises(BadAnswer, match="no list"):
        listed_elements(body, "x")


def test_names_are_read_whatever_the_form_of_the_id():
    dashboards = content_of("dashboard")
    found = listed_elements(b'[{"id":5},{"id":"5"},{"dashboard_id":"m::n"},{"id":null},{}]', "x")
    ids = [id_of(dashboards, named, dashboards.listings[0]) for named in found]
    assert ids == ["5", "5", "m::n", None, None]
    [model] = listed_elements(
        json.dumps([{"name": "m", "explores": [{"name": "a"}, {}]}]).encode(), "x"
    )
    assert explore_ids(model) == ["m::a"]
    [odd] = listed_elements(b'[{"id":"1","title":"\\ud83d"}]', "x")
    assert odd.id == "1"
