"""Counts in words agree with their nouns and verbs."""

from __future__ import annotations

import pytest

from headrace.amounts import counted


@pytest.mark.parametrize(
    ("count", "words", "said"),
    [
        (0, ["trade"], "0 trades"),
        (1, ["trade"], "1 trade"),
        (2, ["trade"], "2 trades"),
        (1_200, ["new trade"], "1,200 new trades"),
        (1, ["breach"], "1 breach"),
        (2, ["breach"], "2 breaches"),
        (3, ["process"], "3 processes"),
        (1, ["id is", "ids are"], "1 id is"),
        (2, ["id is", "ids are"], "2 ids are"),
    ],
)
def test_a_count_agrees_with_its_noun(count: int, words: list[str], said: str) -> None:
    assert counted(count, *words) == said
