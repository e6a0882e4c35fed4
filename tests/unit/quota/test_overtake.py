from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from headrace.quota.lanes import FIXED, Lane, Waiting, find_passable


def queue(*tickets: tuple[int, Lane] | tuple[int, Lane, int]) -> list[Waiting]:
    return [
        Waiting(seq, seq, seq, owner, lane, *(rest or (8,)))
        for seq, (owner, lane, *rest) in enumerate(tickets)
    ]


def owners(waiting: Sequence[Waiting]) -> list[int]:
    return [one.owner for one in waiting]


B, I, R = Lane.BACKFILL, Lane.INGEST, Lane.RETRY  # noqa: E741


def test_without_waiting_no_caller_is_overtaken() -> None:
    assert find_passable([], 1, B) == []


def test_a_better_lane_overtakes_all_of_a_worse_one() -> None:
    assert owners(find_passable(queue((1, B), (2, B), (3, B)), 4, I)) == [1, 2, 3]


def test_a_better_lane_stays_behind_its_own_and_better_ones() -> None:
    assert owners(find_passable(queue((1, B), (2, I), (3, B)), 4, I)) == [3]
    assert find_passable(queue((1, B), (2, R)), 4, I) == []


def test_who_was_overtaken_often_enough_stays() -> None:
    assert owners(find_passable(queue((1, B, 0), (2, B, 1)), 3, I)) == [2]
    assert find_passable(queue((1, B, 3), (2, B, 0)), 3, I) == []


def test_a_fixed_ticket_is_never_overtaken() -> None:
    assert find_passable(queue((1, B, FIXED)), 2, R) == []


def test_processes_of_one_lane_take_turns() -> None:
    greedy = queue((1, B), (1, B), (1, B), (1, B))
    assert len(find_passable(greedy, 2, B)) == 3
    assert len(find_passable([*greedy[:1], *queue((2, B)), *greedy[1:]], 2, B)) == 2


def test_the_first_ticket_of_a_process_is_not_overtaken_within_its_lane() -> None:
    assert find_passable(queue((1, B), (2, B), (3, B)), 4, B) == []


def test_a_process_does_not_overtake_itself() -> None:
    assert find_passable(queue((1, B), (1, B)), 1, B) == []


tickets = st.tuples(st.integers(1, 4), st.sampled_from(Lane), st.integers(-1, 8))


@given(st.lists(tickets, max_size=12), st.integers(1, 4), st.sampled_from(Lane))
def test_only_a_tail_is_overtaken_and_never_a_better_lane_or_oneself(
    waiting: list[tuple[int, Lane, int]], owner: int, lane: Lane
) -> None:
    line = queue(*waiting)
    tail = list(find_passable(line, owner, lane))
    assert tail == line[len(line) - len(tail) :]
    assert all(one.lane >= lane and one.passes != FIXED for one in tail)
    assert all((one.owner, one.lane) != (owner, lane) for one in tail)
    assert all(one.passes > 0 for one in tail if one.lane > lane)
