"""The arrival log and its windows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sim import most_in_window
from headrace.sim.arrivals import ArrivalLog
from headrace.sim.faults import Subject


@pytest.mark.parametrize(
    ("moments", "window_s", "most"),
    [([], 1.0, 0), ([0.0], 1.0, 1), ([0.0, 1.0], 1.0, 1), ([0.0, 0.5, 0.999, 1.0, 1.2], 1.0, 4)],
)
def test_windows_are_half_open(moments: list[float], window_s: float, most: int) -> None:
    assert most_in_window(moments, window_s) == most


@given(st.lists(st.integers(0, 100), max_size=40), st.integers(1, 30))
def test_the_fullest_window_is_found(moments: list[int], window: int) -> None:
    ordered = sorted(moments)
    brute = max((sum(a <= b < a + window for b in ordered) for a in ordered), default=0)
    assert most_in_window(ordered, window) == brute


def test_the_log_counts_what_was_answered_and_what_is_open() -> None:
    log = ArrivalLog()
    first = log.opened(0.0, "/products/BTC-USD/trades", Subject("trades", "BTC-USD"))
    second = log.opened(0.1, "/products", Subject("products"))
    first.counted_s, second.counted_s = 0.4, 0.5
    log.closed(first, 429)
    stats = log.stats((0.05, 1.0))
    assert stats["requests"] == 2
    assert stats["by_status"] == {"429": 1}
    assert stats["by_product"] == {"BTC-USD": 1}
    assert (stats["throttled"], stats["in_flight"], stats["most_in_flight"]) == (1, 1, 2)
    assert stats["most_in_window"] == {"0.05": 1, "1.0": 2}
    assert [arrival.number for arrival in log.arrivals()] == [1, 2]


def test_an_unanswered_request_has_no_status() -> None:
    log = ArrivalLog()
    log.closed(log.opened(0.0, "/products", Subject("products")), None)
    assert log.stats()["by_status"] == {}
    assert log.stats()["in_flight"] == 0


def test_a_reset_forgets_all_but_the_numbering() -> None:
    log = ArrivalLog()
    log.opened(0.0, "/products", Subject("products"))
    log.reset()
    assert log.stats()["requests"] == 0
    assert log.opened(0.0, "/products", Subject("products")).number == 2
