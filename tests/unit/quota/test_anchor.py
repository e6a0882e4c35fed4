from __future__ import annotations

import pytest

from headrace.quota.clock import Anchor

MS = 1_000_000


def settled(way_ms: int) -> Anchor:
    """An anchor that has seen some answers, all with the same way."""
    anchor = Anchor(cap_ms=150)
    for _ in range(8):
        anchor.arrived(0, way_ms * MS)
    return anchor


def test_until_some_answers_have_come_all_of_a_way_counts() -> None:
    assert Anchor(cap_ms=150).arrived(0, 50 * MS) == 50 * MS


def test_answers_that_take_equally_long_move_no_slot() -> None:
    anchor = settled(600)
    assert anchor.arrived(0, 600 * MS) == 0


def test_where_answers_differ_up_to_a_fifth_of_the_shortest_is_not_trusted() -> None:
    anchor = Anchor(cap_ms=150)
    for _ in range(100):
        anchor.arrived(0, 20 * MS)
        moved_ms = anchor.arrived(0, 24 * MS) / MS
    # Some 2 ms more than the shortest usually: so much, and a fifth of it, may be due to the way.
    assert moved_ms == pytest.approx(4 + 2 + 0.4, abs=0.3)


def test_what_takes_longer_than_the_shortest_way_moves_the_slot() -> None:
    anchor = settled(50)
    assert anchor.arrived(1000 * MS, 1090 * MS) == 1042.5 * MS


def test_a_slot_moves_no_further_than_the_cap() -> None:
    anchor = settled(10)
    assert anchor.arrived(0, 900 * MS) == 150 * MS
    assert Anchor(cap_ms=0).arrived(7, 900 * MS) == 7


def test_a_short_way_is_forgotten_in_time() -> None:
    anchor = settled(10)
    moved = [anchor.arrived(0, 100 * MS) for _ in range(200)]
    assert moved[0] == 92 * MS
    assert moved[-1] / MS < 2


def test_where_ways_differ_the_shortest_seen_is_taken_for_a_lucky_one() -> None:
    anchor = Anchor(cap_ms=150)
    for _ in range(100):
        anchor.arrived(0, 20 * MS)
        anchor.arrived(0, 60 * MS)
    moved_ms = anchor.arrived(0, 20 * MS) / MS
    # The usual way takes some 20 ms more than the shortest: a fifth of that is 4 ms.
    assert moved_ms == pytest.approx(20 - 0.8 * (20 - 4), abs=0.5)


def test_where_most_answers_take_long_it_is_the_servers_work_and_not_the_way() -> None:
    anchor = Anchor(cap_ms=150)
    anchor.arrived(0, 50 * MS)
    for _ in range(60):
        anchor.arrived(0, 350 * MS)
    assert anchor.arrived(0, 350 * MS) / MS == pytest.approx(150 / 8, rel=0.1)


def test_a_spike_among_quick_answers_moves_its_slot_by_the_whole_cap() -> None:
    anchor = settled(50)
    for _ in range(60):
        anchor.arrived(0, 60 * MS)
    assert anchor.arrived(0, 900 * MS) == 150 * MS
