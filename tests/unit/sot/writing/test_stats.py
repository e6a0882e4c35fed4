"""Durations in buckets, and skew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sot.writing.stats import Histogram, ShardStats, skew


@given(st.lists(st.floats(0.0001, 100), min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_quantile_is_right_to_a_quarter(values: list[float], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(0, -(-len(values) * share // 1).__int__() - 1)]
    assert exact / 1.26 <= histogram.quantile(share) <= exact * 1.26


def test_histograms_add_up() -> None:
    one, two = Histogram(), Histogram()
    one.add(0.001, 99)
    two.add(1.0)
    one.merge(two)
    assert one.total == 100
    assert one.quantile(0.5) == pytest.approx(0.001, rel=0.25)
    assert one.quantile(1.0) == 1.0
    assert Histogram().quantile(0.99) == 0.0


def test_skew_is_one_for_even_shards_and_their_number_for_one_hot() -> None:
    assert skew([ShardStats(0, records=5), ShardStats(1, records=5)]) == 1.0
    assert skew([ShardStats(0, records=9), *map(ShardStats, range(1, 4))]) == 4.0
    assert skew([ShardStats(0)]) == 0.0
