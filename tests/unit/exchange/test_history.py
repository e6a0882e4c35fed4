"""Where history begins, and which id a time means."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.exchange import FakeClient, rows_of

from headrace.exchange.exceptions import Contradiction, StuckPage, ValueRefused
from headrace.exchange.history import History, both_ends, find_first, first_id_since
from headrace.exchange.pages import Outline, Page
from headrace.exchange.proof import unchecked
from headrace.wire.exceptions import BadAnswer, RetriesExhausted, Throttled


def first_of(client, newest):
    shown, lowest = both_ends(client, "X-USD")
    assert shown.last_id == newest
    return find_first(client, "X-USD", shown, lowest)[0]


@pytest.mark.parametrize("first", [1, 2, 734, 1000, 1001, 1002, 2500, 77_777])
@pytest.mark.parametrize("count", [1, 500, 1000, 3000])
def test_the_first_id_is_found_wherever_it_is(first, count):
    client = FakeClient(range(first, first + count))
    assert first_of(client, first + count - 1) == first
    assert all(cursor is None or cursor >= 1 for cursor in client.cursors)


def test_a_history_from_id_1_costs_one_request_beside_the_newest_and_a_late_one_a_bisection():
    client = FakeClient(range(1, 26_001))
    assert first_of(client, 26_000) == 1
    assert client.requests == 2
    late = FakeClient(range(500_000_000, 500_002_000))
    assert first_of(late, 500_001_999) == 500_000_000
    assert late.requests <= 33


@settings(max_examples=50)
@given(st.sets(st.integers(1, 100_000), min_size=1, max_size=60))
def test_the_first_id_of_sparse_histories(ids):
    assert first_of(FakeClient(ids), max(ids)) == min(ids)


@settings(max_examples=60)
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


class Glitching(FakeClient):
    """Answers one request with an empty page, as a cache with a stale answer does."""

    def __init__(self, ids, at):
        super().__init__(ids)
        self.at = at

    def page(self, product, after, *, limit=1000, lane=None, check=unchecked):
        page = super().page(product, after, limit=limit, lane=lane, check=check)
        if self.requests - 1 != self.at or after is None:
            return page
        nothing = Page(product, after, rows_of([]), limit)
        try:
            check(nothing)
        except Contradiction:
            # The client takes no such answer where a trade is known, and asks again.
            return page
        return nothing


@pytest.mark.parametrize("at", range(20))
def test_one_empty_answer_moves_neither_the_beginning_nor_a_time(at):
    ids = range(500_000, 530_000)
    client = Glitching(ids, at)
    lowest = client.page("X-USD", 1001)
    newest = FakeClient(ids).page("X-USD", None)
    assert find_first(client, "X-USD", newest, lowest)[0] == 500_000
    history = History(500_000, 529_999)
    moment = datetime.fromtimestamp(512_345, UTC)
    assert first_id_since(Glitching(ids, at), "X-USD", moment, history) == 512_345


@pytest.mark.parametrize("first", [1, 734])
def test_one_empty_answer_makes_no_product_without_trades(first):
    class Blinking(FakeClient):
        newest_asked = 0

        def page(self, product, after, *, limit=1000, lane=None, check=unchecked):
            page = super().page(product, after, limit=limit, lane=lane, check=check)
            if after is None:
                self.newest_asked += 1
                if self.newest_asked == 1:
                    return Page(product, after, rows_of([]))
            return page

    newest, _ = both_ends(Blinking(range(first, first + 500)), "X-USD")
    assert newest.last_id == first + 499


def test_one_empty_answer_makes_no_first_trade():
    """Ids 1 to 1000 would be proven empty, for good."""
    client = FakeClient(range(1, 3_002))
    nothing = Page("X-USD", 1_001, rows_of([]))
    assert find_first(client, "X-USD", client.page("X-USD", None), nothing)[0] == 1


def test_that_there_is_no_trade_takes_a_dozen_answers():
    client = FakeClient([])
    assert list(map(len, both_ends(client, "X-USD"))) == [0, 0]
    assert client.requests == 12


def test_answers_that_never_agree_where_a_history_begins_are_given_up():
    class Undecided(FakeClient):
        def page(self, product, after, **options):
            page = super().page(product, after, **options)
            # Never short, so that nothing says that it ends.
            return Page(product, after, page.trades, len(page))

    client = Undecided(range(5_000, 9_001))
    with pytest.raises(Contradiction, match="do not agree where its history begins"):
        first_of(client, 9_000)


class WithABadRow(FakeClient):
    """One of its rows cannot be kept; who asks for its page alone hears so, again and again."""

    def __init__(self, ids, bad, cause):
        super().__init__(ids)
        self.bad, self.cause = bad, cause

    def page(self, product, after, *, limit=1000, lane=None, check=unchecked):
        page = super().page(product, after, limit=limit, lane=lane, check=check)
        if self.bad in page.trades.column(0).to_pylist():
            raise RetriesExhausted("given up", product=product, cursor=after) from self.cause
        return page

    def outline(self, product, after, *, lane=None, check=unchecked):
        page = super().page(product, after, lane=lane, check=check)
        return Outline(product, after, page.trades.column(0).to_pylist())


@pytest.mark.parametrize("bad", [734, 900, 1000, 2000, 2600])
def test_a_row_that_cannot_be_kept_hides_neither_end_of_a_history(bad):
    client = WithABadRow(range(734, 2701), bad, ValueRefused("price 'NaN'"))
    assert first_of(client, 2700) == 734


def test_rows_that_could_not_be_kept_and_then_are_gone_prove_nothing():
    class Forgetful(WithABadRow):
        def outline(self, product, after, *, lane=None, check=unchecked):
            return Outline(product, after, [])

    client = Forgetful(range(1, 100), 50, ValueRefused("price 'NaN'"))
    with pytest.raises(RetriesExhausted):
        both_ends(client, "X-USD")


@pytest.mark.parametrize(
    "cause", [BadAnswer("HTML"), StuckPage("stuck"), Contradiction("denied"), Throttled("429")]
)
def test_what_a_look_at_the_ids_would_not_mend_is_raised(cause):
    with pytest.raises(RetriesExhausted):
        both_ends(WithABadRow(range(1, 100), 50, cause), "X-USD")
