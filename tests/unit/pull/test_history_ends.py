"""Another history under the ids that are stored is refused; an old answer is not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.run.report import Status
from tests.lake_samples import trades
from tests.support.pull_world import PRODUCT, Exchange, World


class Reset(Exchange):
    """The exchange after its numbering began again: other trades under the same ids."""

    def below(self, cursor: int | None, limit: int) -> pa.RecordBatch:
        rows = super().below(cursor, limit)
        price = pa.array(["7.77"] * len(rows), pa.string())
        columns = [price if name == "price" else rows[name] for name in rows.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


class Glitch(Reset):
    """Answers with these numbers, counted from 0, are of another history."""

    wrong: range
    asked = -1

    def below(self, cursor: int | None, limit: int) -> pa.RecordBatch:
        self.asked += 1
        of = super() if self.asked in self.wrong else super(Reset, self)
        return of.below(cursor, limit)


def dense(kind: type[Exchange], size: int) -> Exchange:
    return kind(size, there=lambda _n: True, rows_per_answer=1_000)


@pytest.fixture
def world() -> World:
    """A lake that holds 4,300 trades of an exchange."""
    world = World(dense(Exchange, 4_300))
    assert run(world, "backfill").status is Status.DONE
    return world


def run(world: World, planner: str, **options: object):
    process = world.start(planner, **options)
    process.troubled = True
    process.advance()
    return process.receipt


@pytest.mark.parametrize("size", [300, 4_200, 4_300, 4_900, 9_000])
@pytest.mark.parametrize("planner", ["backfill", "ingest"])
def test_another_history_is_refused_and_nothing_is_written(
    world: World, size: int, planner: str
) -> None:
    before, checkpoint = dict(world.objects.objects), world.checkpoint
    world.exchange = dense(Reset, size)
    world.deleted = world.listing.coverage  # What the lake holds is not there any more.
    receipt = run(world, planner)
    assert receipt.status is Status.FAILED
    assert f"{PRODUCT}: another history: trade " in receipt.error
    assert "another lake (--lake)" in receipt.error
    assert (world.objects.objects, world.checkpoint) == (before, checkpoint)


@pytest.mark.parametrize(("size", "wrong"), [(4_900, range(2)), (9_000, range(1, 3))])
def test_a_wrong_answer_or_two_are_asked_for_again(world: World, size: int, wrong: range) -> None:
    world.exchange = dense(Glitch, size)
    world.exchange.wrong = wrong
    assert run(world, "ingest").status is Status.DONE
    assert world.lake.read(PRODUCT).equals(trades(range(1, size + 1)))


def test_an_old_answer_of_the_same_history_takes_nothing_back(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.exchange.stale_by = 2_500
    receipt = run(world, "ingest")
    assert (receipt.status, receipt.newest, receipt.requests) == (Status.DONE, 4_300, 1)
    assert "shows trades up to 1800, and the lake holds 4300" in caplog.text


def test_a_full_refresh_takes_over_what_was_corrected(world: World) -> None:
    world.exchange = dense(Reset, 4_300)
    assert run(world, "backfill", full_refresh=True).status is Status.DONE
    assert set(world.lake.read(PRODUCT)["price"].to_pylist()) == {"7.77"}


@pytest.mark.parametrize(("size", "requests"), [(4_300, 1), (4_301, 1), (5_300, 2), (9_000, 5)])
def test_that_it_is_the_same_history_costs_no_request(
    world: World, size: int, requests: int
) -> None:
    world.exchange = dense(Exchange, size)
    receipt = run(world, "ingest")
    assert (receipt.status, receipt.new_rows) == (Status.DONE, size - 4_300)
    assert receipt.requests == requests


def test_a_lake_that_ends_with_a_page_costs_one_request_more() -> None:
    world = World(dense(Exchange, 4_000))
    assert run(world, "backfill").requests == 4
    world.exchange = dense(Exchange, 8_000)
    assert run(world, "ingest").requests == 5


def test_a_trade_that_an_earlier_run_was_shown_and_no_run_stored_may_be_denied(
    world: World,
) -> None:
    """A newest page of another product must not fail the product for ever."""
    world.checkpoint = {**world.checkpoint, "newest": 50_000}
    receipt = run(world, "backfill")
    assert (receipt.status, receipt.newest) == (Status.DONE, 4_300)
