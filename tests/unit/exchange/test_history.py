"""Where history begins, and which id a time means."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.exchange import FakeClient

from headrace.exchange.history import History, first_id, first_id_since, newest_id


@pytest.mark.parametrize("first", [1, 2, 734, 1000, 1001, 1002, 2500, 77_777])
@pytest.mark.parametrize("count", [1, 500, 1000, 3000])
def test_the_first_id_is_found_wherever_it_is(first, count):
    client = FakeClient(range(first, first + count))
    assert first_id(client, "X-USD", first + count - 1) == first
    assert all(cursor >= 1 for cursor in client.cursors)


def test_a_history_from_id_1_costs_one_request_and_a_late_one_a_bisection():
    client = FakeClient(range(1, 26_001))
    assert first_id(client, "X-USD", 26_000) == 1
    assert client.requests == 1
    late = FakeClient(range(500_000_000, 500_002_000))
    assert first_id(late, "X-USD", 500_001_999) == 500_000_000
    assert late.requests <= 32


@settings(deadline=None, max_examples=50)
@given(st.sets(st.integers(1, 100_000), min_size=1, max_size=60))
def test_the_first_id_of_sparse_histories(ids):
    assert first_id(FakeClient(ids), "X-USD", max(ids)) == min(ids)


def test_the_newest_of_nothing_is_none():
    assert newest_id(FakeClient([]), "X-USD") is None
    assert newest_id(FakeClient([3, 9]), "X-USD") == 9


@settings(deadline=None, max_examples=60)
@given(
    st.one_of(
        st.sets(st.integers(1, 50_000), min_size=1, max_size=200),
        st.integers(1, 30_000).map(lambda n: set(range(1, n + 1))),
    ),
    st.integers(0, 51_000),
)
def test_a_time_means_the_first_trade_at_or_after_it(ids, second):
    # A trade's time is its id in seconds.
    history = History(min(ids), max(ids))
    moment = datetime.fromtimestamp(second, UTC)
    expected = min((i for i in ids if i >= second), default=max(ids) + 1)
    assert first_id_since(FakeClient(ids), "X-USD", moment, history) == expected
