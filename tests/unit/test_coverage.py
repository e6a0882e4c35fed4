"""Coverage arithmetic against plain Python sets of ids."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coverage import EMPTY, IntervalSet

ids = st.sets(st.integers(1, 60))


def as_set(coverage: IntervalSet) -> set[int]:
    return {i for lo, hi in coverage for i in range(lo, hi + 1)}


def of_ids(members: set[int]) -> IntervalSet:
    return IntervalSet.from_ranges((i, i) for i in members)


@given(ids, ids)
def test_the_operators_are_those_of_sets(a, b):
    assert as_set(of_ids(a) | of_ids(b)) == a | b
    assert as_set(of_ids(a) & of_ids(b)) == a & b
    assert as_set(of_ids(a) - of_ids(b)) == a - b
    assert of_ids(a).count == len(a)


@given(ids, st.integers(1, 60), st.integers(0, 60))
def test_gaps_are_what_a_range_lacks(a, lo, length):
    hi = lo + length - 1
    assert as_set(of_ids(a).gaps(lo, hi)) == set(range(lo, hi + 1)) - a


@given(ids, st.integers(1, 60), st.integers(1, 60))
def test_contains_means_every_id(a, lo, length):
    hi = lo + length - 1
    assert of_ids(a).contains(lo, hi) == set(range(lo, hi + 1)).issubset(a)


@given(ids, st.integers(1, 60))
def test_the_watermark_never_passes_a_missing_id(a, first):
    mark = of_ids(a).watermark(first)
    assert set(range(first, mark + 1)) <= a
    assert mark + 1 not in a or mark + 1 < first


@given(ids, ids)
def test_equal_ids_are_equal_sets_whatever_the_order(a, b):
    assert of_ids(a | b) == of_ids(b) | of_ids(a)
    normal = of_ids(a).ranges
    assert all(left[1] + 1 < right[0] for left, right in pairwise(normal))


def test_a_range_that_ends_before_it_begins_is_refused():
    with pytest.raises(ValueError, match=r"\[5, 4\]"):
        IntervalSet.of((5, 4))


def test_ids_are_64_bit_and_the_empty_set_is_false():
    big = IntervalSet.of((2**53, 2**53 + 1))
    assert big.contains(2**53 + 1)
    assert not EMPTY
    assert EMPTY.first is None
    assert EMPTY.watermark() == 0
    assert big.as_lists() == [[2**53, 2**53 + 1]]
