from __future__ import annotations

from headrace.quota.anchor import Anchor

MS = 1_000_000


def settled(way_ms: int) -> Anchor:
    """An anchor that has seen some answers, all with the same way."""
    anchor = Anchor(cap_ms=150)
    for _ in range(8):
        anchor.arrived(0, way_ms * MS)
    return anchor


def test_until_some_answers_have_come_all_of_a_way_counts() -> None:
    assert Anchor(cap_ms=150).arrived(0, 50 * MS) == 50 * MS


def test_the_shortest_way_costs_a_fifth_of_itself() -> None:
    anchor = settled(50)
    assert anchor.arrived(0, 50 * MS) == 10 * MS


def test_what_takes_longer_than_the_shortest_way_moves_the_slot() -> None:
    anchor = settled(50)
    assert anchor.arrived(1000 * MS, 1090 * MS) == 1050 * MS


def test_a_slot_moves_no_further_than_the_cap() -> None:
    anchor = settled(10)
    assert anchor.arrived(0, 900 * MS) == 150 * MS
    assert Anchor(cap_ms=0).arrived(7, 900 * MS) == 7


def test_a_short_way_is_forgotten_in_time() -> None:
    anchor = settled(10)
    moved = [anchor.arrived(0, 100 * MS) for _ in range(200)]
    assert moved[0] == 92 * MS
    assert moved[-1] == 20 * MS
