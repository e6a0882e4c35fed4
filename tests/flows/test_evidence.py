"""Signing keys in blocks of a real Prefect server."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from blocks.resolve import signing_key_of
from blocks.signing import BlockKey, SigningKeyBlock
from headrace.evidence.exceptions import KeyMissing
from headrace.evidence.keys import make_key, rotate_key, signing_key

pytestmark = pytest.mark.flows


def test_a_key_lives_in_a_block(prefect_api: object) -> None:
    place = signing_key_of("block:evidence-test")
    assert isinstance(place, BlockKey)
    with pytest.raises(KeyMissing, match="block:evidence-test"):
        signing_key(place)
    first = make_key(place, now=datetime.now(UTC))
    statement = signing_key(place).sign({"type": "test"})
    second = rotate_key(place, now=datetime.now(UTC))
    assert signing_key(place).key_id == second.key_id
    place.public().trusted(first.key_id).check(statement, where="here")
    shown = SigningKeyBlock.load("evidence-test")
    assert "PRIVATE KEY" in shown.private_key.get_secret_value()
    assert "PRIVATE KEY" not in f"{shown!r} {shown}"
