"""Walking a chunk answers for every id of it, whatever the ids are, in as few pages as it takes."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.exchange import FakeClient

from headrace.exchange.exceptions import Contradiction, StuckPage
from headrace.exchange.pages import PAGE_LIMIT
from headrace.exchange.proof import Known
from headrace.exchange.walk import walk
from headrace.stopping import StopEvent, Stopped

id_sets = st.one_of(
    st.integers(1, 6_000).map(lambda n: set(range(1, n + 1))),
    st.sets(st.integers(1, 20_000), min_size=1, max_size=300),
    st.tuples(st.integers(1, 5_000), st.integers(1, 9_000)).map(
        lambda r: set(range(r[0], r[0] + r[1]))
    ),
)


def walked(ids, span, *, seen=(), **other):
    client = FakeClient(ids)
    result = walk(client, "X-USD", span, Known(min(ids), max(ids), seen), **other)
    return client, result


@settings(max_examples=60)
@given(id_sets, st.data())
def test_the_rows_are_exactly_the_ids_of_the_span(ids, data):
    hi = data.draw(st.integers(min(ids), max(ids)))
    lo = data.draw(st.integers(min(ids), hi))
    client, result = walked(ids, (lo, hi))
    assert (result.lo, result.hi) == (lo, hi)
    assert result.trades.column("trade_id").to_pylist() == sorted(i for i in ids if lo <= i <= hi)
    within = len([i for i in ids if lo <= i <= hi])
    # Rows that are shown twice, and the search for the upper end of a hole.
    assert client.requests <= within // (PAGE_LIMIT - 1) + 7


@pytest.mark.parametrize(("n", "pages"), [(1, 1), (999, 1), (1000, 1), (1001, 2), (2000, 2)])
def test_borders_between_pages_cost_and_lose_nothing(n, pages):
    client, result = walked(set(range(1, n + 1)), (1, n))
    assert result.trades.num_rows == n
    assert client.requests == pages


def test_what_a_page_showed_is_not_asked_for_again():
    ids = set(range(1, 3_501))
    seen = [FakeClient(ids).page("X-USD", cursor) for cursor in (None, 1001)]
    client, result = walked(ids, (1, 3_500), seen=seen)
    assert client.cursors == [2501, 1501]
    assert result.trades.column("trade_id").to_pylist() == sorted(ids)


@settings(max_examples=60)
@given(id_sets, st.data())
def test_pages_that_were_seen_change_nothing_but_the_number_of_requests(ids, data):
    hi = data.draw(st.integers(min(ids), max(ids)))
    lo = data.draw(st.integers(min(ids), hi))
    cursors = data.draw(st.lists(st.one_of(st.none(), st.integers(1, 21_000)), max_size=3))
    plain, expected = walked(ids, (lo, hi))
    seen = [FakeClient(ids).page("X-USD", cursor) for cursor in cursors]
    client, result = walked(ids, (lo, hi), seen=seen)
    assert result.trades.equals(expected.trades)
    assert client.requests <= plain.requests
    assert result.pages <= expected.pages


def test_a_trade_that_came_to_light_since_is_not_missed():
    before = FakeClient(set(range(1, 3_002)) - {3_000})
    seen = [before.page("X-USD", cursor) for cursor in (None, 1_001)]
    _, result = walked(set(range(1, 3_002)), (1, 3_001), seen=seen)
    assert result.trades.num_rows == 3_001


def test_an_answer_that_denies_what_was_seen_is_not_taken():
    seen = [FakeClient(range(1, 2_501)).page("X-USD", None)]
    lagging = FakeClient(range(1, 1_701))
    with pytest.raises(Contradiction):
        raise walk(lagging, "X-USD", (1_001, 2_000), Known(1, 2_500, seen)).error


def test_a_server_that_is_stuck_is_found_out_where_the_next_page_is_one_that_was_seen():
    ids = set(range(1, 20_001))
    seen = [FakeClient(ids).page("X-USD", cursor) for cursor in (None, 1_001)]
    stuck = FakeClient(ids, stuck_at=2_001)
    with pytest.raises((StuckPage, Contradiction)):
        raise walk(stuck, "X-USD", (1, 10_000), Known(1, 20_000, seen)).error


@pytest.mark.parametrize("newest", [901, 2_500])
def test_above_its_highest_trade_a_page_that_was_seen_says_nothing(newest):
    """Trades that came after it was answered would be taken for ids that do not exist."""
    old = FakeClient(range(1, 701)).page("X-USD", 1001)
    client, result = walked(set(range(1, newest + 1)), (1, min(newest, 1_000)), seen=[old])
    assert client.requests == 1
    assert result.trades.num_rows == min(newest, 1_000)


def test_chunks_that_meet_share_no_id_and_lack_none():
    ids = set(range(1, 5_001))
    _, low = walked(ids, (1, 2_000))
    _, high = walked(ids, (2_001, 5_000))
    found = [
        *low.trades.column("trade_id").to_pylist(),
        *high.trades.column("trade_id").to_pylist(),
    ]
    assert found == sorted(ids)


def test_a_server_that_answers_the_same_page_for_ever_is_found_out():
    ids = set(range(1, 9_001))
    for span in ((1, 9_000), (6_500, 8_900)):
        client = FakeClient(ids, stuck_at=5_001)
        with pytest.raises((StuckPage, Contradiction)):
            raise walk(client, "X-USD", span, Known(1, 9_000)).error
        assert client.requests <= 3


def test_a_hole_of_pages_is_believed_when_one_answer_shows_both_its_ends():
    ids = {*range(1, 101), *range(50_000, 50_101)}
    client, known = FakeClient(ids), Known(1, 50_100)
    for span in ((10_000, 40_000), (5_000, 9_999), (40_001, 45_000)):
        result = walk(client, "X-USD", span, known)
        assert result.trades.num_rows == 0
        assert (result.lo, result.hi) == span
        # Also the walks that were spared the request can say what shows the hole.
        assert {answer.between for answer in result.answers} == {(100, 50_000)}
    # What the first walk has found, the others need not ask for.
    assert client.requests == 4


def test_an_empty_page_above_known_trades_is_no_end_of_history():
    with pytest.raises(Contradiction):
        raise walk(FakeClient(set()), "X-USD", (1_001, 2_000), Known(1, 2_000)).error


def test_a_stop_on_the_way_keeps_what_was_answered():
    stop = StopEvent()
    pages = []

    def on_page(page):
        pages.append(page)
        if len(pages) == 2:
            stop.set()

    _, result = walked(set(range(1, 5_001)), (1, 5_000), stop=stop, on_page=on_page)
    assert (result.lo, result.hi) == (3_001, 5_000)
    assert result.trades.num_rows == 2_000


def test_a_stop_before_the_first_page_is_nothing():
    stop = StopEvent()
    stop.set()
    _, result = walked({1, 2, 3}, (1, 3), stop=stop)
    assert (result.lo, result.hi) == (4, 3)
    assert isinstance(result.error, Stopped)


def test_a_page_that_the_next_answers_deny_is_not_kept():
    """The first answer is another product's; what follows lacks the row that it ended with."""

    class Mistaken(FakeClient):
        def page(self, product, after, **options):
            if self.cursors:
                return super().page(product, after, **options)
            self.cursors.append(after)
            others = [*range(2, 4_000, 5), *range(19_002, 30_000, 5)]
            return FakeClient(others).page(product, after, **options)

    ids = range(1, 30_000, 5)
    result = walk(Mistaken(ids), "X-USD", (1, 19_997), Known(1, ids[-1]))
    assert isinstance(result.error, Contradiction)
    assert (result.lo, result.trades.num_rows) == (19_998, 0)
    assert result.answers == ()


def test_a_walk_ends_where_there_is_no_room_and_keeps_what_it_has():
    asked = []

    def room(rows_bytes, lo):
        asked.append((rows_bytes, lo))
        return lo > 7_001

    ids = set(range(1, 10_001))
    client, result = walked(ids, (1, 10_000), room=room)
    assert [lo for _, lo in asked] == [9_001, 8_001, 7_001]
    assert [held // asked[0][0] for held, _ in asked] == [1, 2, 3]
    assert (result.lo, result.hi, result.error) == (7_001, 10_000, None)
    assert result.trades.column("trade_id").to_pylist() == list(range(7_001, 10_001))
    assert client.requests == 3


@pytest.mark.parametrize("pages", [64, 65, 66, 130])
def test_a_walk_of_any_number_of_pages_is_one_table_in_order(pages):
    ids = range(1, pages * 1000 + 1)
    client, result = walked(set(ids), (1, ids[-1]))
    assert result.trades.column("trade_id").to_pylist() == list(ids)
    assert all(column.num_chunks == 1 for column in result.trades.columns)
    assert client.requests == pages


def test_the_page_above_a_contradiction_is_dropped_alone_however_many_were_joined():
    class Denying(FakeClient):
        def page(self, product, after, **options):
            if self.requests == 65:
                raise Contradiction("denied", product=product, cursor=after)
            return super().page(product, after, **options)

    result = walk(Denying(range(1, 80_001)), "X-USD", (1, 80_000), Known(1, 80_000))
    assert isinstance(result.error, Contradiction)
    assert result.lo == 80_000 - 64_000 + 1
    assert result.trades.num_rows == 64_000


@settings(max_examples=40)
@given(st.sets(st.integers(1, 40_000), min_size=2, max_size=60))
def test_for_each_hole_of_a_page_there_is_an_answer_that_shows_it(ids):
    first, newest = min(ids), max(ids)
    _, result = walked(ids, (1, newest))
    ordered = sorted(ids)
    long = {(a, b) for a, b in pairwise(ordered) if b - a > PAGE_LIMIT}
    beginning = {(0, first)} if first > 1 else set()
    assert {answer.between for answer in result.answers} == long | beginning
    for answer in result.answers:
        assert answer.first <= max(answer.between[0], first) < answer.after
        assert answer.rows == len([i for i in ids if answer.first <= i < answer.after])
