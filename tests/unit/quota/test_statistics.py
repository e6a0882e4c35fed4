"""How well a quota was used, from moments alone."""

from __future__ import annotations

import math

import pytest

from headrace.quota.selftest import used_share

S = 1_000_000_000


def in_groups(seconds: int, sizes: tuple[int, ...]) -> list[int]:
    """So many permits at equal distances within every second."""
    step = S // len(sizes)
    return [
        second * S + number * step + place
        for second in range(seconds)
        for number, size in enumerate(sizes)
        for place in range(size)
    ]


@pytest.mark.parametrize("sizes", [(1,) * 10, (5, 5), (10,)])
def test_a_quota_that_is_used_up_counts_as_whole_however_it_is_grouped(sizes) -> None:
    assert used_share(in_groups(10, sizes), 10, S) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("lost", range(20, 80, 7))
def test_one_permit_lost_counts_as_one_wherever_it_was(lost: int) -> None:
    grants = in_groups(10, (5, 5))
    del grants[lost]
    assert used_share(grants, 10, S) == pytest.approx(1 - 1 / 60, abs=0.02)


def test_half_of_it_is_half() -> None:
    assert used_share(in_groups(10, (3, 2)), 10, S) == pytest.approx(0.5, abs=1e-6)


def test_a_short_time_says_nothing() -> None:
    assert math.isnan(used_share(in_groups(3, (5, 5)), 10, S))
