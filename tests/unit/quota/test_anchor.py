from __future__ import annotations

from headrace.quota.anchor import Anchor

MS = 1_000_000


def test_the_shortest_way_costs_a_fifth_of_itself() -> None:
    anchor = Anchor(cap_ms=150)
    assert anchor.arrived(0, 50 * MS) == 10 * MS


def test_what_takes_longer_than_the_shortest_way_moves_the_slot() -> None:
    anchor = Anchor(cap_ms=150)
    anchor.arrived(0, 50 * MS)
    assert anchor.arrived(1000 * MS, 1090 * MS) == 1050 * MS


def test_a_slot_moves_no_further_than_the_cap() -> None:
    anchor = Anchor(cap_ms=150)
    anchor.arrived(0, 10 * MS)
    assert anchor.arrived(0, 900 * MS) == 150 * MS
    assert Anchor(cap_ms=0).arrived(7, 900 * MS) == 7


def test_a_short_way_is_forgotten_in_time() -> None:
    anchor = Anchor(cap_ms=150)
    anchor.arrived(0, 10 * MS)
    moved = [anchor.arrived(0, 100 * MS) for _ in range(200)]
    assert moved[0] == 92 * MS
    assert moved[-1] == 20 * MS
