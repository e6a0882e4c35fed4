"""Permits that are booked together and handed out one by one."""

from __future__ import annotations

from headrace.quota.clock import MS
from headrace.quota.lanes import Lane
from headrace.quota.slot import MOST, Packets, Slot

LANE = Lane.BACKFILL


def packet(weight: int, at: int = 0) -> Slot:
    return Slot(100, 100, at, at + 20 * MS, tight=True, weight=weight, fixed=True)


def test_a_packet_is_handed_out_from_its_end_each_permit_once() -> None:
    packets = Packets()
    first = packets.give(LANE, 0, packet(3))
    second, _ = packets.next(LANE, 1 * MS)
    third, _ = packets.next(LANE, 2 * MS)
    assert second is not None
    assert third is not None
    assert [slot.seq for slot in (first, second, third)] == [100, 99, 98]
    assert {slot.weight for slot in (first, second, third)} == {1}
    assert packets.next(LANE, 3 * MS) == (None, ())


def test_what_is_not_used_within_its_guard_is_void() -> None:
    packets = Packets()
    packets.give(LANE, 0, packet(3))
    slot, void = packets.next(LANE, 11 * MS)
    assert slot is None
    assert [one.seq for one in void] == [99, 98]


def test_only_who_comes_back_at_once_reaches_further() -> None:
    packets = Packets()
    reached = []
    for now in range(6):
        reached.append(packets.reach(LANE, now * MS))
        packets.give(LANE, now * MS, packet(1, now * MS))
    assert reached[-1] == MOST
    assert packets.reach(LANE, 100 * MS) == 1


def test_lanes_keep_their_permits_apart() -> None:
    packets = Packets()
    packets.give(Lane.INGEST, 0, packet(2))
    assert packets.next(LANE, 0) == (None, ())
    assert len(packets.drain()) == 1
    assert packets.next(Lane.INGEST, 0) == (None, ())
