"""Statements have one text, and nothing that could be read in two ways."""

from __future__ import annotations

import json

import pytest

from headrace.evidence.exceptions import BadStatement
from headrace.evidence.statements import canonical, read_envelope

PAYLOAD = {"type": "t", "b": [1, None, True], "a": 'é"\\\n\x01', "é".encode().hex(): {}}


def test_the_text_of_a_value_is_known_to_the_byte() -> None:
    assert canonical(PAYLOAD) == (
        '{"a":"é\\"\\\\\\n\\u0001","b":[1,null,true],"c3a9":{},"type":"t"}'.encode()
    )
    assert canonical(json.loads(canonical(PAYLOAD))) == canonical(PAYLOAD)


@pytest.mark.parametrize(
    "value", [1.5, 2**53, -(2**53), {"é": 1}, {1: 1}, b"x", {"a": [object()]}, "\ud800"]
)
def test_what_has_two_texts_has_none(value: object) -> None:
    with pytest.raises(ValueError):
        canonical({"x": value})


@pytest.mark.parametrize(
    ("stored", "named"),
    [
        ("{", "Expecting"),
        ("[]", "no object"),
        ('{"payload": {"type": "t"}, "key_id": "k"}', "no object"),
        ('{"payload": {}, "key_id": "k", "signature": ""}', "type"),
        ('{"payload": {"type": "t"}, "key_id": 1, "signature": ""}', "no text"),
        ('{"payload": {"type": "t"}, "key_id": "k", "signature": "??"}', "base64"),
        ('{"payload": {"type": "t", "type": "u"}, "key_id": "k", "signature": ""}', "twice"),
        ('{"payload": {"type": "t", "n": 1.0}, "key_id": "k", "signature": ""}', "whole number"),
        ('{"payload": {"type": "t", "n": NaN}, "key_id": "k", "signature": ""}', "float"),
        (
            '{"payload": {"type": "t", "n": 9007199254740992}, "key_id": "k", "signature": ""}',
            "text",
        ),
        ("[" * 100_000, None),
        ("\ud800", None),
    ],
)
def test_what_is_no_envelope_is_named(stored: str, named: str | None) -> None:
    with pytest.raises(BadStatement, match=named) as caught:
        read_envelope(stored, where="here.json")
    assert "here.json" in str(caught.value)
