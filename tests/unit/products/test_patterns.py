"""Patterns match whole ids, in any case; what is no pattern is refused with an example."""

from __future__ import annotations

import pytest

from headrace.errors import ConfigurationError
from headrace.products.listing import matching

IDS = ["1INCH-USD", "BTC-EUR", "BTC-USD", "BTC-USDC", "ETH-USD", "XBT.F"]


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["*-USD"], ["1INCH-USD", "BTC-USD", "ETH-USD"]),
        (["*-usd"], ["1INCH-USD", "BTC-USD", "ETH-USD"]),
        (["BTC-???"], ["BTC-EUR", "BTC-USD"]),
        (["[BE]T[CH]-USD"], ["BTC-USD", "ETH-USD"]),
        (["BTC"], []),
        (["xbt.f"], ["XBT.F"]),
        (["XBT?F", " ETH-* "], ["ETH-USD", "XBT.F"]),
        (["re:(btc|eth)-usd"], ["BTC-USD", "ETH-USD"]),
        (["re:BTC"], []),
        (["re:.{4,5}-USD"], ["1INCH-USD"]),
        ([], []),
    ],
)
def test_a_pattern_matches_whole_ids(patterns: list[str], found: list[str]) -> None:
    assert matching(patterns, IDS) == found


@pytest.mark.parametrize("pattern", ["", "  ", "re:", "re:(", "re:a{99999999999999}", "re:*"])
def test_what_is_no_pattern_is_named(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="-USD") as refused:
        matching([pattern], IDS)
    assert repr(pattern) in str(refused.value)
