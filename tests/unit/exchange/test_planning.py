"""Chunks cover what is missing exactly, within cells, on the page grid, smaller ones last."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coverage import EMPTY, IntervalSet
from headrace.exchange.pages import PAGE_LIMIT
from headrace.exchange.planning import (
    Sizing,
    page_count,
    plan_chunks,
    plan_pages,
    whole_pages,
)

ranges = st.lists(
    st.tuples(st.integers(1, 400_000), st.integers(0, 150_000)).map(lambda r: (r[0], r[0] + r[1])),
    min_size=1,
    max_size=5,
).map(IntervalSet.from_ranges)
sizings = st.builds(
    Sizing,
    cell_pages=st.sampled_from([1, 7, 128]),
    in_flight=st.integers(1, 200),
    pool=st.integers(1, 50),
    pages_per_s=st.one_of(st.none(), st.floats(0.1, 500)),
    pages_per_chunk=st.sampled_from([0, 0, 1, 3, 500]),
)


@given(ranges, sizings)
def test_chunks_cover_what_is_missing_once_each_in_order(missing, sizing):
    chunks = list(plan_chunks(missing, sizing))
    assert IntervalSet.from_ranges(chunk.span for chunk in chunks) == missing
    assert sum(chunk.hi - chunk.lo + 1 for chunk in chunks) == missing.count
    assert [chunk.lo for chunk in chunks] == sorted(chunk.lo for chunk in chunks)


@given(ranges, sizings)
def test_no_chunk_crosses_a_cell_and_borders_between_chunks_lie_on_the_page_grid(missing, sizing):
    cell = sizing.cell_pages * PAGE_LIMIT
    ends = {hi for _lo, hi in missing}
    for chunk in plan_chunks(missing, sizing):
        assert (chunk.lo - 1) // cell == (chunk.hi - 1) // cell
        assert chunk.hi % PAGE_LIMIT == 0 or chunk.hi in ends
        assert chunk.pages == page_count(chunk.lo, chunk.hi) <= sizing.most


@given(ranges, sizings)
def test_the_pages_of_the_chunks_are_those_of_the_plan(missing, sizing):
    # No border costs a request: the sum over chunks is the number of grid pages touched.
    assert sum(chunk.pages for chunk in plan_chunks(missing, sizing)) == plan_pages(missing)


@given(sizings)
def test_chunks_in_flight_are_bounded_in_memory_unless_their_size_was_asked_for(sizing):
    if sizing.pages_per_chunk:
        assert sizing.most == min(sizing.pages_per_chunk, sizing.cell_pages)
    else:
        assert sizing.in_flight * sizing.most <= max(sizing.pages_in_memory, sizing.in_flight)


@pytest.mark.parametrize(("in_flight", "most"), [(1, 128), (4, 128), (8, 70), (200, 2)])
def test_the_more_chunks_are_in_flight_the_smaller_each_is(in_flight, most):
    sizing = Sizing(cell_pages=128, in_flight=in_flight, pool=in_flight, pages_per_s=1e6)
    assert sizing.most == most
    largest = max(chunk.pages for chunk in plan_chunks(IntervalSet.of((1, 3_000_000)), sizing))
    assert most / 2 < largest <= most


@given(ranges, ranges, sizings, sizings, st.integers(1, 600_000))
def test_chunks_of_any_two_plans_lie_in_each_other_or_apart(one, other, sizing, likewise, newest):
    likewise = replace(likewise, cell_pages=sizing.cell_pages)
    cut = [
        chunk.span
        for missing, how in ((one, sizing), (other, likewise))
        for chunk in plan_chunks(whole_pages(missing & IntervalSet.of((1, newest)), newest), how)
    ]
    for (a_lo, a_hi), (b_lo, b_hi) in itertools.combinations(cut[:60] + cut[-60:], 2):
        apart = a_hi < b_lo or b_hi < a_lo
        nested = (a_lo <= b_lo and b_hi <= a_hi) or (b_lo <= a_lo and a_hi <= b_hi)
        assert apart or nested


def test_nothing_missing_is_no_chunk():
    assert list(plan_chunks(EMPTY, Sizing(cell_pages=128))) == []


def test_a_small_job_is_not_one_chunk():
    sizing = Sizing(cell_pages=128, in_flight=15, pool=5, pages_per_s=10)
    assert len(list(plan_chunks(IntervalSet.of((1, 26_000)), sizing))) >= 10


def test_pieces_shrink_towards_the_end():
    sizing = Sizing(cell_pages=1280, in_flight=60, pool=12, pages_per_s=15)
    pages = [chunk.pages for chunk in plan_chunks(IntervalSet.of((1, 270_000)), sizing)]
    assert pages[-1] == 1
    assert max(pages) == 4
    assert sum(pages[-24:]) <= 30 < sum(pages[:24])


def test_steady_state_causes_few_task_runs_a_second():
    for pages_per_s in (10, 15, 100, None):
        # So many pages come without a quota only from a server that answers at once.
        latency_s = 1.0 if pages_per_s else 0.01
        sizing = Sizing(128, in_flight=15, pool=5, pages_per_s=pages_per_s, latency_s=latency_s)
        chunks = list(plan_chunks(IntervalSet.of((1, 5_000_000)), sizing))
        seconds = 5_000 / (pages_per_s or 600)
        assert len(chunks) / seconds <= 10


@pytest.mark.parametrize(
    ("pages_per_s", "in_flight", "latency_s", "total_pages"),
    [(15, 60, 3.1, 1_350), (10, 15, 0.2, 500), (10, 15, 3.0, 1_000_000), (None, 15, 0.01, 5_000)],
)
def test_a_kill_costs_seconds_of_work_in_a_short_run_and_two_minutes_in_a_long_one(
    pages_per_s, in_flight, latency_s, total_pages
):
    sizing = Sizing(128, in_flight, in_flight, pages_per_s, latency_s)
    largest = sizing.largest(total_pages)
    rate = pages_per_s or 600
    chunk_s = largest * max(latency_s, in_flight / rate)
    assert chunk_s <= (120 if total_pages > 20_000 else 20) or largest == sizing.smallest
    assert rate / largest <= 10


def test_whole_cells_where_nothing_limits_the_rate():
    sizing = Sizing(cell_pages=128, in_flight=5, pool=5, latency_s=0.01)
    chunks = list(plan_chunks(IntervalSet.of((1, 2_560_000)), sizing))
    assert [chunk.span for chunk in chunks[:2]] == [(1, 128_000), (128_001, 256_000)]
    assert len(chunks) == 20


def test_without_a_quota_a_wide_pool_gets_whole_cells_if_answers_come_at_once():
    missing = IntervalSet.of((1, 1_280_000))
    wide = Sizing(cell_pages=128, in_flight=200, pool=20, latency_s=0.005)
    assert {chunk.pages for chunk in plan_chunks(missing, wide)} == {128}
    # Answers that take their time have to be waited for together.
    slow = replace(wide, latency_s=2.0)
    assert slow.in_flight * slow.most <= slow.pages_in_memory
    # With a quota a pool is as wide as latency makes it, so all of it is of use.
    assert replace(wide, pages_per_s=50).most == slow.most
