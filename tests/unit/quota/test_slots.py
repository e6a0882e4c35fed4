"""The book of slots, on a clock that the test moves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headrace.quota import Lane, QuotaConfig
from headrace.quota.bookings import SlotBook
from headrace.quota.slot import Slot

S = 1_000_000_000
MS = 1_000_000
WINDOW = S + 2 * MS  # a second and its margin
GUARD = 20 * MS

Open = Callable[..., SlotBook]


@pytest.fixture
def open_book(tmp_path: Path, clock: Any) -> Iterator[Open]:
    """Opens the same file again and again; every book counts as a process of its own."""
    with ExitStack() as stack:

        def opened(rates: str = "3/s", **settings: Any) -> SlotBook:
            config = QuotaConfig(name="x", rates=rates, **{"burst": 1000, **settings})
            book = SlotBook(tmp_path / "quota.sqlite", config, clock)
            stack.callback(book.close)
            return book

        yield opened


def taken(book: SlotBook, lane: Lane = Lane.BACKFILL, **how: Any) -> Slot:
    slot = book.book(lane, **how)
    assert isinstance(slot, Slot)
    return slot


def left(book: SlotBook, at: int, lane: Lane = Lane.BACKFILL) -> Slot:
    """Book a permit that leaves at once."""
    slot = taken(book, lane)
    assert slot.at == at
    book.settle(slot, at)
    return slot


def test_a_window_is_free_at_first_then_closed_for_its_length(open_book: Open, clock: Any) -> None:
    book, start = open_book(), clock.at
    for _ in range(3):
        left(book, start)
    assert taken(book).at == start + WINDOW


@pytest.mark.parametrize("rates", ["1/h", "2/h", "1/s,2/h", "100/h"])
def test_a_machine_that_has_just_started_gives_permits_at_once(
    open_book: Open, clock: Any, rates: str
) -> None:
    clock.at = 5 * S  # since the boot: a part of the window
    book = open_book(rates, burst=None)
    slot = taken(book)
    assert slot.at == clock.at
    book.give_back(slot)
    assert taken(book).at == clock.at


@pytest.mark.parametrize(("rates", "most"), [("2/s", 2), ("3/s,20/m", 3), ("5/s,100/m", 5)])
def test_a_packet_never_holds_more_than_the_smallest_window(
    open_book: Open, clock: Any, rates: str, most: int
) -> None:
    book = open_book(rates)
    assert taken(book, reach=8).weight <= most
    for _ in range(most):
        taken(book)
    assert taken(book, reach=8).weight <= most


def test_an_unsettled_permit_counts_until_its_guard_ends(open_book: Open, clock: Any) -> None:
    book = open_book("1/s")
    taken(book)
    later = taken(book)
    assert later.at == clock.at + GUARD + WINDOW
    assert not later.tight


def test_tightening_takes_back_what_the_guard_reserved(open_book: Open, clock: Any) -> None:
    book = open_book("1/s")
    first, later = taken(book), taken(book)
    book.settle(first, clock.at + 1 * MS)
    tightened = book.tighten(later)
    assert tightened is not None
    assert tightened.at == clock.at + 1 * MS + WINDOW


def test_every_rate_holds(open_book: Open, clock: Any) -> None:
    book, start = open_book("2/s,3/m"), clock.at
    for _ in range(2):
        left(book, start)
    third = taken(book)
    assert third.at == start + WINDOW
    book.settle(third, third.at)
    assert taken(book).at == start + 60 * S + 2 * MS


def test_weighted_permits_count_as_many(open_book: Open, clock: Any) -> None:
    book, start = open_book(), clock.at
    book.settle(taken(book, weight=2), start)
    assert taken(book, weight=2).at == start + WINDOW
    assert book.status().windows[0].used == 2


def test_a_window_longer_than_the_machine_is_up_counts_what_left(
    open_book: Open, clock: Any
) -> None:
    assert clock.at < 3_600 * S
    book = open_book("3/s,100/h")
    left(book, clock.at)
    assert [window.used for window in book.status().windows] == [1, 1]


def test_half_a_window_goes_at_once_and_the_other_half_later(open_book: Open, clock: Any) -> None:
    book, start = open_book("10/s", burst=None), clock.at
    moments = []
    for _ in range(20):
        slot = taken(book)
        clock.at = slot.at
        book.settle(slot, clock.at)
        moments.append((slot.at - start) / WINDOW)
    halves = [0.0] * 5 + [0.45] * 5 + [1.0] * 5 + [1.45] * 5
    assert moments == pytest.approx(halves, abs=1e-6)


def test_two_groups_fill_a_window_that_cannot_be_halved(open_book: Open, clock: Any) -> None:
    book, start = open_book("15/s", burst=None), clock.at
    moments = []
    for _ in range(60):
        slot = taken(book)
        clock.at = slot.at
        book.settle(slot, clock.at)
        moments.append((slot.at - start) / WINDOW)
    groups = [window + part for window in range(4) for part in [0.0] * 8 + [0.48] * 7]
    assert moments == pytest.approx(groups, abs=1e-6)


def test_who_had_less_than_its_part_may_take_the_odd_permit_of_a_group(
    open_book: Open, clock: Any
) -> None:
    books = [open_book("10/s", burst=None) for _ in range(3)]
    for book in books:  # each has had one, and has seen the others
        left(book, clock.at)
    clock.advance(2)
    even, behind = (book.book(Lane.BACKFILL, reach=5) for book in books[:2])
    assert isinstance(even, Slot)
    assert isinstance(behind, Slot)
    assert (even.weight, behind.weight) == (1, 2)


def test_a_spread_is_by_plan_so_that_lateness_does_not_add_up(open_book: Open, clock: Any) -> None:
    book, start = open_book("10/s", burst=1), clock.at
    for n in range(10):
        slot = taken(book)
        assert (slot.at - start) / WINDOW == pytest.approx(0.09 * n, abs=1e-6)
        clock.at = slot.at + 5 * MS
        book.settle(slot, clock.at)


def test_after_a_pause_a_burst_is_free_again(open_book: Open, clock: Any) -> None:
    book = open_book("10/s", burst=None)
    for _ in range(2):
        clock.advance(2)
        for _ in range(5):
            left(book, clock.at)
        assert taken(book).at > clock.at


def test_a_slot_beyond_the_deadline_is_not_booked(open_book: Open, clock: Any) -> None:
    book, start = open_book("1/s"), clock.at
    left(book, start)
    assert book.book(Lane.BACKFILL, by=start + S) == start + WINDOW
    assert book.book(Lane.BACKFILL, by=0) == start + WINDOW
    assert taken(book).at == start + WINDOW


def test_what_was_given_back_can_be_booked_again(open_book: Open, clock: Any) -> None:
    book, start = open_book("1/s"), clock.at
    left(book, start)
    book.give_back(taken(book))
    assert taken(book).at == start + WINDOW


def test_a_group_that_goes_back_keeps_no_other_waiting(open_book: Open, clock: Any) -> None:
    book, start = open_book("10/s", burst=None), clock.at
    packet = book.book(Lane.BACKFILL, reach=5)
    assert isinstance(packet, Slot)
    assert packet.weight == 5
    *unused, used = packet.singly()
    book.settle(used, start)
    for permit in unused:
        book.settle(permit, 0)
    clock.advance(0.02)
    again = [taken(book) for _ in range(4)]
    assert [slot.at for slot in again] == [clock.at] * 4
    assert taken(book).at > clock.at


def test_who_overslept_moves_to_now_if_no_other_relied_on_the_slot(
    open_book: Open, clock: Any
) -> None:
    book = open_book("2/s")
    slot = taken(book)
    clock.at = slot.until + 5 * MS
    assert slot.late(clock.at)
    delayed = book.delay(slot)
    assert delayed is not None
    assert (delayed.at, delayed.until) == (clock.at, clock.at + GUARD)


def test_who_overslept_books_again_if_another_relied_on_the_slot(
    open_book: Open, clock: Any
) -> None:
    book = open_book("1/s")
    slot, dependent = taken(book), taken(book)
    clock.at = slot.until + 5 * MS
    assert book.delay(slot) is None
    assert taken(book).at == dependent.until + WINDOW


def test_a_better_lane_takes_the_next_slot_and_the_others_move_back(
    open_book: Open, clock: Any
) -> None:
    backfill, ingest = open_book("1/s"), open_book("1/s")
    left(backfill, clock.at)
    waiting = taken(backfill)
    urgent = taken(ingest, Lane.INGEST)
    assert urgent.at == waiting.at
    clock.at = urgent.at
    assert ingest.confirm(urgent) == urgent._replace(fixed=True)
    moved = backfill.confirm(waiting)
    assert moved is not None
    assert moved.at == urgent.until + WINDOW
    clock.at = moved.at
    assert backfill.confirm(moved) == moved._replace(fixed=True)


def test_a_slot_whose_moment_has_come_is_not_taken_from_its_holder(
    open_book: Open, clock: Any
) -> None:
    backfill, ingest = open_book("1/s"), open_book("1/s")
    left(backfill, clock.at)
    waiting = taken(backfill)
    clock.at = waiting.at
    assert taken(ingest, Lane.INGEST).at == waiting.until + WINDOW
    assert backfill.confirm(waiting) == waiting._replace(fixed=True)


@pytest.mark.parametrize(("cap_ms", "moves"), [(150, True), (0, False)])
def test_a_booking_leaves_later_where_an_answer_shows_that_one_before_arrived_late(
    open_book: Open, clock: Any, cap_ms: float, moves: bool
) -> None:
    book = open_book("1/s", anchor_cap_ms=cap_ms)
    first = left(book, clock.at)
    waiting = taken(book)
    assert waiting.tight
    clock.advance(0.6)
    book.settle(first, first.at + 100 * MS)
    book.flush()
    clock.at = waiting.at
    held = book.confirm(waiting)
    assert held is not None
    assert held.fixed
    assert held.at == waiting.at + (100 * MS if moves else 0)


def test_no_caller_is_overtaken_for_ever(open_book: Open, clock: Any) -> None:
    backfill, ingest = open_book("1/s"), open_book("1/s")
    left(backfill, clock.at)
    waiting = taken(backfill)
    before = 0
    while (urgent := taken(ingest, Lane.INGEST)).at < taken_at(backfill, waiting):
        before += 1
        clock.at = urgent.at
        ingest.settle(urgent, urgent.at)
    assert before == 8


def taken_at(book: SlotBook, slot: Slot) -> int:
    held = book.confirm(slot)
    assert held is not None
    return held.at


def test_a_process_with_one_thread_takes_turns_with_a_greedy_one(
    open_book: Open, clock: Any
) -> None:
    greedy, modest = open_book("1/s"), open_book("1/s")
    left(greedy, clock.at)
    slots = [taken(greedy) for _ in range(4)]
    assert taken(modest).at == slots[1].at


def test_a_deadline_is_kept_though_a_better_lane_comes(open_book: Open, clock: Any) -> None:
    backfill, ingest = open_book("1/s"), open_book("1/s")
    left(backfill, clock.at)
    promised = taken(backfill, by=clock.at + 2 * S)
    taken(ingest, Lane.INGEST)
    assert backfill.confirm(promised) == promised


def test_45_refusals_of_one_moment_slow_down_once(open_book: Open, clock: Any) -> None:
    books = [open_book("50/s") for _ in range(3)]
    sent = [left(books[number % 3], clock.at) for number in range(45)]
    clock.advance(0.05)
    for number, slot in enumerate(sent):
        books[number % 3].refused(slot, slot.at)
    assert books[0].status().slowdown == pytest.approx(1.5)
    clock.advance(1)
    books[1].refused(taken(books[1]), clock.at - 1)
    assert books[0].status().slowdown == pytest.approx(2.25)


def answered(book: SlotBook, clock: Any, *statuses: int) -> None:
    """Requests one after the other, each answered before the next one leaves."""
    for status in statuses:
        slot = taken(book)
        clock.at = slot.at + MS
        book.settle(slot, clock.at)
        clock.advance(0.01)
        if status == 429:
            book.refused(slot, clock.at - MS)
        else:
            book.went_well(slot, clock.at - MS)


def test_a_quota_that_rests_after_a_429_rests_longer_each_time_it_is_refused_again(
    open_book: Open, clock: Any
) -> None:
    book = open_book("100/s", refused_pause_s=1, retry_after_cap_s=3)

    def rests_s(*statuses: int) -> float:
        answered(book, clock, *statuses)
        return (taken(book).at - clock.at) / S

    assert rests_s(429) < 0.05  # a lone one
    assert rests_s(429) == pytest.approx(1, abs=0.02)
    assert rests_s(429) == pytest.approx(2, abs=0.02)
    assert rests_s(429) == pytest.approx(3, abs=0.02)  # the most
    assert rests_s(*[200] * 25, 429) < 0.05
    assert rests_s(429) == pytest.approx(1, abs=0.02)
    early = taken(book)
    book.refused(early, clock.at - 2 * S)  # it had left before the rest began
    assert rests_s() == pytest.approx(1, abs=0.05)


def test_a_lone_429_among_answers_that_go_well_hardly_slows_down(
    open_book: Open, clock: Any
) -> None:
    books = [open_book("100/s"), open_book("100/s")]
    for _ in range(3):
        answered(books[0], clock, *[200] * 30)
        answered(books[1], clock, *[200] * 30, 429)
        assert 1 < books[0].status().slowdown <= 1.04
    answered(books[0], clock, *[200] * 250)
    assert books[1].status().slowdown == 1


def test_what_comes_twice_slows_down_more_and_a_wall_fully(open_book: Open, clock: Any) -> None:
    book = open_book("100/s")
    seen = []
    for _ in range(6):
        answered(book, clock, 429)
        seen.append(book.status().slowdown)
    steps = [after / before for before, after in zip([1, *seen], seen, strict=False)]
    assert steps == pytest.approx([1.02, 1.08, 1.18, 1.32, 1.5, 1.5])


def test_a_slow_down_waits_for_evidence_before_it_eases(open_book: Open, clock: Any) -> None:
    book = open_book("100/s")
    answered(book, clock, *[429] * 3)
    slowed = book.status().slowdown
    answered(book, clock, *[200] * 19)
    assert book.status().slowdown == slowed
    answered(book, clock, 200, 200)
    assert book.status().slowdown < slowed


def test_a_limit_that_is_lower_for_good_is_not_run_into_again_and_again(
    open_book: Open, clock: Any
) -> None:
    book = open_book("100/s")
    for _ in range(5):
        answered(book, clock, *[200] * 36, *[429] * 4)
    answered(book, clock, *[200] * 100)
    assert book.status().slowdown >= 1 / (1 - 0.05), "of the last 200, ten were refused at least"
    clock.advance(3600)
    answered(book, clock, *[200] * 30)
    assert book.status().slowdown == 1, "an hour later it may be another one"


def test_a_slow_down_stretches_windows_is_capped_and_eases(open_book: Open, clock: Any) -> None:
    book = open_book("1/s")
    answered(book, clock, *[429] * 20)
    assert book.status().slowdown == 8
    slot = taken(book)
    clock.at = slot.at
    book.settle(slot, clock.at)
    assert taken(book).at == clock.at + 8 * WINDOW
    stale = clock.at - 1000 * S
    for _ in range(60):
        book.went_well(slot, stale)
    assert book.status().slowdown == 8
    answered(book, clock, *[200] * 60)
    clock.advance(3600)
    answered(book, clock, *[200] * 60)
    assert book.status().slowdown == 1


def test_retry_after_holds_for_everybody_and_for_what_is_booked(
    open_book: Open, clock: Any
) -> None:
    one, other = open_book(), open_book()
    for _ in range(3):
        left(one, clock.at)
    booked = taken(other)
    one.pause(5 * S)
    assert taken(one).at == clock.at + 5 * S
    clock.at = booked.at
    assert other.confirm(booked) is None


def test_a_retry_after_beyond_belief_is_capped(open_book: Open, clock: Any) -> None:
    book = open_book(retry_after_cap_s=10)
    book.pause(86_400 * S)
    assert taken(book).at == clock.at + 10 * S


def test_the_book_stays_small(open_book: Open, clock: Any) -> None:
    book = open_book("5/s")
    for _ in range(500):
        slot = taken(book)
        clock.at = max(clock.at, slot.at)
        book.settle(slot, clock.at)
    assert len(book.moments()) < 64


def test_status_shows_windows_lanes_and_processes(open_book: Open, clock: Any) -> None:
    one, other = open_book("2/s,50/m"), open_book("2/s,50/m")
    clock.advance(1)
    for book in (one, other):
        book.settle(taken(book, waiting=(0, 1, 4)), clock.at)
    taken(one, Lane.INGEST, waiting=(0, 0, 4))
    status = one.status()
    assert [window.used for window in status.windows] == [2, 2]
    assert status.waiting == {Lane.RETRY: 0, Lane.INGEST: 3, Lane.BACKFILL: 8}
    assert [process.grants for process in status.processes] == [1, 1]


def test_the_rest_of_a_long_window_is_spread_over_it(open_book: Open, clock: Any) -> None:
    book, start = open_book("120/m", burst=None), clock.at
    moments = []
    for _ in range(240):
        slot = taken(book)
        clock.at = max(clock.at, slot.at)
        book.settle(slot, clock.at)
        moments.append((clock.at - start) / S)
    assert moments[59] == 0
    assert moments[60:62] == pytest.approx([0.45, 0.9], abs=0.01)
    assert moments[119] == pytest.approx(27, abs=0.1)
    assert moments[120] == pytest.approx(60, abs=0.1)
    steps = [later - earlier for earlier, later in itertools.pairwise(moments[120:])]
    assert max(steps) < 1
    assert moments[239] < 120


def test_a_late_report_about_a_lost_file_meets_no_row_of_the_new_one(
    open_book: Open, clock: Any
) -> None:
    book = open_book("1/s")
    slot = taken(book)
    book.path.unlink()
    clock.advance(2)
    fresh = taken(book)
    assert fresh.seq > slot.seq
    book.settle(slot, slot.at)
    assert taken(book).at == fresh.until + WINDOW
