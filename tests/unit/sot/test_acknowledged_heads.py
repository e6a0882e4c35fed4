"""Heads as a document: exact, merged forwards only, refused where they cannot be used."""

from datetime import UTC, datetime

import pytest

from headrace.sot.acknowledged_heads import HeadsUnreadable, KeptHead, KeptHeads, read_heads
from headrace.sot.chain import Position, genesis

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAR = Position(2**64, 2**64 - 1, bytes(range(32)))


def kept(**heads: Position) -> KeptHeads:
    found = {int(name[1:]): position for name, position in heads.items()}
    return KeptHeads(store="here", updated_at=NOW).with_heads(found, run_id="r", now=NOW)


def test_positions_come_back_exactly():
    stored = kept(s0=genesis(0), s4294967295=FAR).model_dump(mode="json")
    assert read_heads(stored, store="here").positions == {0: genesis(0), 2**32 - 1: FAR}


def test_a_head_never_goes_back():
    further = Position(9, 1, bytes(32))
    heads = kept(s7=further).with_heads({7: genesis(7), 8: further}, run_id="q", now=NOW)
    assert heads.positions == {7: further, 8: further}
    assert heads.run_id == "q"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"schema_version": 2}, "newer"),
        ({"schema_version": None}, "no schema version"),
        ({"schema_version": True}, "no schema version"),
        ({"store": "elsewhere"}, "elsewhere"),
        ({"heads": {"7": {"next_seq": "-1", "hash": "0" * 16, "digest": "0" * 64}}}, "next_seq"),
        ({"heads": {"x": KeptHead.of(FAR).model_dump()}}, "heads"),
        ({"heads": {"7": {"next_seq": "1", "hash": "0" * 16}}}, "digest"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_cannot_be_used_is_never_read_as_nothing(change, word):
    stored = kept(s7=FAR).model_dump(mode="json") | change
    with pytest.raises(HeadsUnreadable, match=word):
        read_heads(stored, store="here")
