from __future__ import annotations

import threading
import time

import pytest

from headrace.quota import Lane
from headrace.quota.queue import ThreadQueue
from headrace.stopping import StopEvent, Stopped

B, I, R = Lane.BACKFILL, Lane.INGEST, Lane.RETRY  # noqa: E741
NEVER = StopEvent()


class Queue:
    """Threads that queue one after the other, and the order in which they got through."""

    def __init__(self) -> None:
        self.now = 0
        self.queue = ThreadQueue(lambda: self.now, ahead=50)
        self.passed: list[tuple[Lane, int]] = []
        self._threads: list[threading.Thread] = []

    def join_in(self, *lanes: Lane) -> None:
        for number, lane in enumerate(lanes):
            thread = threading.Thread(target=self._go, args=(lane, number))
            before = sum(self.queue.waiting())
            thread.start()
            self._threads.append(thread)
            while sum(self.queue.waiting()) == before:
                time.sleep(0.001)

    def _go(self, lane: Lane, number: int) -> None:
        self.queue.enter(lane, NEVER.sleep, NEVER.check)
        self.passed.append((lane, number))
        self.queue.leave(lane, 0)

    def finish(self) -> list[tuple[Lane, int]]:
        for thread in self._threads:
            thread.join(10)
        return self.passed


@pytest.fixture
def queue() -> Queue:
    made = Queue()
    assert made.queue.try_enter(B), "one is inside, so the others queue"
    return made


def test_first_in_first_out_within_a_lane(queue: Queue) -> None:
    queue.join_in(B, B, B)
    queue.queue.leave(B, 0)
    assert queue.finish() == [(B, 0), (B, 1), (B, 2)]


def test_a_better_lane_goes_first(queue: Queue) -> None:
    queue.join_in(B, I, R, B, R)
    queue.queue.leave(B, 0)
    assert [lane for lane, _ in queue.finish()] == [R, R, I, B, B]


def test_no_queued_thread_is_passed_over_more_than_eight_times(queue: Queue) -> None:
    queue.join_in(B, *[R] * 12, I)
    queue.queue.leave(B, 0)
    order = [lane for lane, _ in queue.finish()]
    assert order.index(I) == 8
    assert order.index(B) == 9


def test_only_one_gets_through_without_waiting(queue: Queue) -> None:
    assert not queue.queue.try_enter(R)
    queue.queue.leave(B, 0)
    assert queue.queue.try_enter(R)


def test_a_lane_that_has_booked_far_ahead_waits_and_others_do_not(queue: Queue) -> None:
    queue.queue.leave(B, booked_to=1000)
    assert not queue.queue.try_enter(B)
    assert queue.queue.try_enter(I)
    queue.queue.leave(I, 0)
    queue.now = 950
    assert queue.queue.try_enter(B)


@pytest.mark.parametrize("position", ["head", "further back"])
def test_a_stop_ends_the_wait_and_leaves_no_trace(queue: Queue, position: str) -> None:
    if position == "further back":
        queue.join_in(B)
    stop, raised = StopEvent(), []

    def give_up() -> None:
        try:
            queue.queue.enter(B, stop.sleep, stop.check)
        except Stopped as error:
            raised.append(error)

    waiting = sum(queue.queue.waiting())
    thread = threading.Thread(target=give_up)
    thread.start()
    while sum(queue.queue.waiting()) == waiting:
        time.sleep(0.001)
    stop.set()
    thread.join(10)
    assert len(raised) == 1
    assert sum(queue.queue.waiting()) == waiting
    queue.queue.leave(B, 0)
    assert queue.finish() == [(B, 0)] * waiting
