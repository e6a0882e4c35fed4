"""The metrics of a run of the log: durable records as they come, the shards' own at the end."""

from __future__ import annotations

import pytest

from headrace.metrics import Meter
from headrace.metrics import catalogue as names
from headrace.run.report import Status
from headrace.sot.metrics import LogMetrics, distribution
from headrace.sot.reports import SotReport
from headrace.sot.writing.stats import Histogram, ShardStats

STORE = "/srv/log"


class World:
    def __init__(self) -> None:
        self.meter = Meter()
        self.metrics = LogMetrics(self.meter, source=STORE, flow="sot-write")

    def published(self) -> dict:
        self.meter.sample()
        return {
            (point.metric.name, *(v for k, v in point.labels if k not in ("source", "flow"))): (
                point.value
            )
            for point in self.meter.take()
        }


@pytest.fixture
def world() -> World:
    return World()


def shard(number: int, records: int) -> ShardStats:
    stats = ShardStats(number, records=records, queue_bytes=1_000 * number)
    stats.commit.add(0.004, 3)
    stats.delay.add(0.2, records)
    return stats


def test_records_are_counted_by_shard_while_the_write_goes_on(world: World) -> None:
    world.metrics.stored(0, 500)
    world.metrics.stored(3, 20)
    first = world.published()
    world.metrics.stored(0, 100)
    second = world.published()

    assert (first["log_records", "0"], first["log_records", "3"]) == (500, 20)
    assert (second["log_records", "0"], second["log_records", "3"]) == (100, 0)


def test_the_shards_say_at_the_end_how_long_things_took_and_how_even_they_were(
    world: World,
) -> None:
    world.metrics.written([shard(0, 900), shard(1, 100)])
    found = world.published()

    assert found["log_commit_seconds", "1"].count == 3
    assert found["log_delay_seconds", "0"].count == 900
    assert found["log_queue_bytes", "1"] == 1_000
    assert found["log_skew_ratio",] == pytest.approx(1.8)


def test_a_write_of_nothing_says_nothing_about_skew(world: World) -> None:
    world.metrics.written([shard(0, 0)])

    assert ("log_skew_ratio",) not in world.published()


def test_how_it_ended_and_what_was_wrong(world: World) -> None:
    before = world.published()
    world.metrics.ended(
        SotReport("run", "write", Status.PARTIAL, STORE, "", 1.0, problems=("a", "b", "c", "d"))
    )
    after = world.published()

    assert (before["log_problems",], after["log_problems",]) == (0, 4)
    assert after["runs", "partial"] == 1


def test_every_figure_of_the_log_is_fed(world: World) -> None:
    world.metrics.stored(0, 1)
    world.metrics.written([shard(0, 1)])

    fed = {name for name, *_ in world.published()}
    assert fed == {each.name for each in names.CATALOGUE if each.name.startswith("log_")}


def test_a_histogram_keeps_its_count_and_its_sum_to_a_quarter() -> None:
    histogram = Histogram()
    for seconds in (0.001, 0.03, 0.2, 0.2, 4.0):
        histogram.add(seconds)
    taken = distribution(histogram)

    assert taken.count == 5
    assert taken.most == 4.0
    assert 4.431 <= taken.total <= 4.431 * 1.25
    assert dict(taken.cumulative())[0.3] == 4
