"""The footer: what a part says of itself, and what is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headrace.lake import PartFooter, open_lake
from headrace.lake.answer_evidence import Answer
from headrace.lake.encoding import FOOTER_KEY, decode_footer
from headrace.lake.exceptions import FooterTooNew, PartUnreadable
from tests.lake_samples import FETCHED_AT, trades

FOOTER = PartFooter(
    lo=1,
    hi=5_000,
    rows=2,
    digest="0" * 31 + "7",
    holes=3,
    long_holes=((10, 4_000),),
    sources=("a.example", "b.example"),
    fetched_at=FETCHED_AT,
)


def changed(**changes: object) -> dict[bytes, bytes]:
    fields = msgspec.json.decode(FOOTER.encode()[FOOTER_KEY])
    return {FOOTER_KEY: msgspec.json.encode({**fields, **changes})}


def test_a_footer_survives_its_encoding() -> None:
    assert decode_footer(FOOTER.encode(), "here") == FOOTER


def test_a_footer_of_an_older_version_proves_no_hole() -> None:
    fields = msgspec.json.decode(FOOTER.encode()[FOOTER_KEY])
    del fields["holes_proven"]
    old = decode_footer({FOOTER_KEY: msgspec.json.encode(fields)}, "here")
    assert old.unproven_holes == old.long_holes == ((10, 4_000),)
    assert decode_footer(changed(holes_proven=True), "here").unproven_holes == ()


def test_a_later_addition_of_the_same_version_is_passed_over() -> None:
    assert decode_footer(changed(note="new"), "here") == FOOTER


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {},
        {FOOTER_KEY: b""},
        {FOOTER_KEY: b"\xff\xfe"},
        {FOOTER_KEY: b"[]"},
        changed(rows=-1),
        changed(rows=5_001),
        changed(rows="2"),
        changed(digest="7"),
        changed(digest=None),
        changed(schema_version=None),
        changed(fetched_at="yesterday"),
    ],
)
def test_a_missing_or_garbled_footer_is_named(metadata: dict[bytes, bytes] | None) -> None:
    with pytest.raises(PartUnreadable, match="the/part") as caught:
        decode_footer(metadata, "the/part")
    assert caught.value.where == "the/part"
    assert caught.value.hint


def test_a_version_with_another_digest_is_refused_and_can_be_healed() -> None:
    with pytest.raises(PartUnreadable, match="old schema version 1") as caught:
        decode_footer(changed(schema_version=1), "the/part")
    assert "audit --heal" in caught.value.hint


def test_a_newer_version_is_refused_even_if_its_fields_are_unknown() -> None:
    newer = {FOOTER_KEY: b'{"schema_version":3,"range":[1,5]}'}

    with pytest.raises(FooterTooNew, match="3; this version reads up to 2") as caught:
        decode_footer(newer, "the/part")
    assert (caught.value.found, caught.value.known) == (3, 2)


def test_answers_that_show_holes_stay_with_a_part_and_with_what_it_is_merged_into(
    tmp_path: Path,
) -> None:
    def shown(left: int, right: int) -> Answer:
        return Answer(right + 1, FETCHED_AT, 2, left, right, (left, right))

    raw = open_lake(tmp_path).raw("coinbase", cell_pages=5)
    hole, elsewhere, contradicted = shown(100, 4_200), shown(8_000, 9_900), shown(4_200, 4_900)
    every = (hole, elsewhere, contradicted, hole)
    low, high = (
        raw.write(
            "BTC-USD",
            *span,
            trades(ids),
            source="localhost",
            fetched_at=FETCHED_AT,
            answers=every,
        ).part
        for span, ids in (((1, 3_000), [100]), ((3_001, 5_000), [4_200, 4_500, 4_900]))
    )
    assert [raw.verify(part).answers for part in (low, high)] == [(hole,), (hole,)]
    assert raw.verify(raw.merge("BTC-USD", [low, high]).part).answers == (hole,)
