"""The metrics of a pull: sampled from counters that are there, never asked of the run."""

from datetime import UTC, datetime

import pytest

from headrace.coverage import IntervalSet
from headrace.lake import NewestTrade
from headrace.lake.exceptions import StoreUnavailable
from headrace.metrics import Meter
from headrace.metrics import catalogue as names
from headrace.metrics.requests import ClientStats, RequestMetrics
from headrace.pull.metrics import PullMetrics
from headrace.pull.report import ProductReceipt, Summary
from headrace.quota import BreakerChange, Phase
from headrace.run.report import Costs, QuotaUse, Status

SOURCE = "api.example.com"


class Lake:
    def __init__(self):
        self.asked = []
        self.failing = False

    def newest(self, product):
        self.asked.append(product)
        if self.failing:
            raise StoreUnavailable("ListObjectsV2", "s3://b", "away", attempts=1, elapsed_s=1.0)
        return NewestTrade(7, datetime.fromtimestamp(500, UTC)) if product != "NEW-USD" else None


class World:
    def __init__(self):
        self.now = 0.0
        self.stats = ClientStats()
        self.lake = Lake()
        self.rows = {}
        self.meter = Meter()
        self.requests = RequestMetrics(
            self.meter,
            source=SOURCE,
            flow="ingest",
            stats=self.stats,
            per_s=10.0,
            clock=lambda: self.now,
        )
        self.metrics = PullMetrics(
            self.meter,
            source=SOURCE,
            requests=self.requests,
            lake=self.lake,
            new_rows=lambda: self.rows,
        )

    def published(self):
        self.meter.sample()
        return {
            (point.metric.name, *(v for k, v in point.labels if k not in ("source", "flow"))): (
                getattr(point.value, "count", point.value)
            )
            for point in self.meter.take()
        }


@pytest.fixture
def world():
    return World()


def summary(*receipts, stopped=False, status=Status.DONE):
    return Summary(
        run="r1",
        status=status,
        ui_url=None,
        costs=Costs(1, 0, 0, 1.0, QuotaUse(SOURCE, "10/s")),
        products=receipts,
        stopped=stopped,
    )


def test_requests_answers_and_rows_are_counted_from_totals(world):
    for status in (200, 200, 429, 503):
        world.stats.sent("BTC-USD")
        world.stats.answered(status, 0.2)
    world.stats.sent("ETH-USD")
    world.stats.sent("")  # a listing
    world.stats.failed()
    world.stats.retried()
    world.rows = {"BTC-USD": 2_000}
    first = world.published()
    world.rows = {"BTC-USD": 2_500}
    second = world.published()

    assert first["requests", "BTC-USD"] == 4
    assert first["requests", "ETH-USD"] == first["requests", "_none"] == 1
    assert (first["errors",], first["throttled",], first["retries",]) == (2, 1, 1)
    assert first["response_seconds",] == 4
    assert (first["rows", "BTC-USD"], second["rows", "BTC-USD"]) == (2_000, 500)
    assert second["requests", "BTC-USD"] == second["errors",] == second["response_seconds",] == 0


def test_a_breaker_that_never_opened_is_a_zero(world):
    assert world.published()["breaker_opens",] == 0


def test_every_opening_counts_and_nothing_else_of_a_breaker(world):
    for before, after in (
        (Phase.CLOSED, Phase.OPEN),
        (Phase.OPEN, Phase.HALF_OPEN),
        (Phase.HALF_OPEN, Phase.OPEN),
        (Phase.HALF_OPEN, Phase.CLOSED),
    ):
        world.requests.breaker_changed(BreakerChange(SOURCE, before, after, 5, 1.0))

    assert world.published()["breaker_opens",] == 2


def test_the_newest_trade_is_asked_for_once_per_publication_after_a_commit(world):
    for _ in range(50):
        world.metrics.on_event("committed", {"product": "BTC-USD"})
    world.metrics.on_event("gap", {"product": "ETH-USD"})
    world.metrics.on_event("committed", {"product": "NEW-USD"})
    metrics = world.published()

    assert metrics["newest_timestamp_seconds", "BTC-USD"] == 500.0
    assert ("newest_timestamp_seconds", "NEW-USD") not in metrics
    assert world.lake.asked == ["BTC-USD", "NEW-USD"]
    world.published()
    assert len(world.lake.asked) == 2


def test_the_newest_trade_of_an_unchanged_product_is_not_asked_for(world):
    newest = datetime.fromtimestamp(700, UTC)
    world.metrics.on_event("unchanged", {"product": "BTC-USD", "newest_at": newest})
    world.metrics.on_event("unchanged", {"product": "NEW-USD", "newest_at": None})
    metrics = world.published()

    assert metrics["newest_timestamp_seconds", "BTC-USD"] == 700.0
    assert ("newest_timestamp_seconds", "NEW-USD") not in metrics
    assert world.lake.asked == []


def test_a_lake_that_fails_costs_the_age_alone(world):
    world.lake.failing = True
    world.metrics.on_event("committed", {"product": "BTC-USD"})
    world.stats.sent("BTC-USD")

    assert world.published()["requests", "BTC-USD"] == 1


def test_quota_use_is_that_of_the_last_interval_and_nothing_after_the_end(world):
    def send(requests, seconds):
        world.now += seconds
        for _ in range(requests):
            world.stats.sent("BTC-USD")
        return world.published()["quota_used_ratio",]

    assert send(100, 20.0) == pytest.approx(0.5)
    assert send(90, 10.0) == pytest.approx(0.9)
    world.metrics.ended(summary())
    assert send(10, 10.0) == 0.0


def test_the_end_says_what_is_missing_and_how_it_ended(world):
    done = ProductReceipt("BTC-USD", Status.DONE, range=(1, 9))
    torn = ProductReceipt("ETH-USD", Status.FAILED, range=(1, 9), missing=IntervalSet.of((3, 7)))
    none = ProductReceipt("LTC-USD", Status.FAILED)
    world.metrics.ended(summary(done, torn, none, status=Status.PARTIAL))
    metrics = world.published()

    assert (metrics["missing_ids", "BTC-USD"], metrics["missing_ids", "ETH-USD"]) == (0, 5)
    assert ("missing_ids", "LTC-USD") not in metrics
    assert metrics["runs", "partial"] == 1


def test_a_run_that_was_stopped_ended_as_that(world):
    world.metrics.ended(summary(stopped=True))

    assert world.published()["runs", "stopped"] == 1


def test_every_figure_of_the_catalogue_is_fed(world):
    world.metrics.ended(summary(ProductReceipt("BTC-USD", Status.DONE, range=(1, 2))))
    world.metrics.on_event("committed", {"product": "BTC-USD"})
    world.stats.sent("BTC-USD")
    world.rows = {"BTC-USD": 1}

    of_pulls = {each.name for each in names.CATALOGUE if not each.name.startswith("log_")}
    assert {name for name, *_ in world.published()} == of_pulls
