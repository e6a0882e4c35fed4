"""Publishing: periods, sinks that fail or hang, and the end."""

import logging
import threading
import time

import pytest

from headrace.metrics import Meter, Publisher, SinkError
from headrace.metrics.catalogue import THROTTLED


class Recorded:
    interval_s = 60.0

    def __init__(self):
        self.calls = []
        self.failing = False

    def publish(self, points, at):
        if self.failing:
            raise SinkError("somewhere", "it is away")
        self.calls.append((at, sum(point.value for point in points)))


class Wall:
    now = 6_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def wall():
    return Wall()


@pytest.fixture
def sink():
    return Recorded()


@pytest.fixture
def meter():
    return Meter()


def test_a_period_is_published_under_the_time_at_which_it_began(meter, sink, wall):
    wall.now = 6_030.0
    publisher = Publisher(meter, sink, wall=wall)
    meter.count(THROTTLED, 1, source="x")
    publisher.publish()
    meter.count(THROTTLED, 2, source="x")
    wall.now = 6_060.4  # the thread woke late
    publisher.publish()
    meter.count(THROTTLED, 4, source="x")
    wall.now = 6_075.0  # the run is over
    publisher.publish()

    assert sink.calls == [(6_000, 1), (6_000, 2), (6_060, 4)]


def test_what_was_not_taken_is_offered_again_and_reported_once(meter, sink, wall, caplog):
    publisher = Publisher(meter, sink, wall=wall)
    sink.failing = True
    with caplog.at_level(logging.WARNING):
        for minute in range(5):
            wall.now = 6_000.0 + 60 * minute
            meter.count(THROTTLED, 1, source="x")
            publisher.publish()
        sink.failing = False
        publisher.publish()

    assert [count for _, count in sink.calls] == [1, 1, 1, 1, 1, 0]
    assert [at for at, _ in sink.calls] == [6_000, 6_000, 6_060, 6_120, 6_180, 6_240]
    assert len(caplog.records) == 1
    assert "somewhere" in caplog.text


def test_a_sink_that_is_away_for_long_costs_bounded_memory(meter, sink, wall):
    publisher = Publisher(meter, sink, wall=wall)
    sink.failing = True
    for _ in range(1_000):
        publisher.publish()
    sink.failing = False
    publisher.publish()

    assert len(sink.calls) == 30


def test_a_sampler_that_fails_costs_the_others_nothing(meter, sink, wall, caplog):
    def broken():
        raise RuntimeError("a bug")

    meter.sampled(broken)
    meter.count(THROTTLED, 3, source="x")
    publisher = Publisher(meter, sink, wall=wall)
    publisher.publish()

    assert sink.calls == [(6_000, 3)]
    assert "a bug" in caplog.text


def test_the_end_publishes_what_is_left(meter, sink):
    publisher = Publisher(meter, sink)
    publisher.start()
    meter.count(THROTTLED, 9, source="x")
    publisher.close(patience_s=5)

    assert sum(count for _, count in sink.calls) == 9


def test_a_sink_that_hangs_does_not_hold_up_the_end(meter, caplog):
    hung = threading.Event()

    class Hanging:
        interval_s = 60.0

        def publish(self, points, at):
            hung.wait(60)

    publisher = Publisher(meter, Hanging())
    publisher.start()
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        publisher.close(patience_s=0.2)
    took = time.monotonic() - began
    hung.set()

    assert took < 30
    assert "lost" in caplog.text
