"""Exchanges that answer wrongly at random: what is called complete is complete.

Every seed is one world: a history (dense, thin, with holes, late, growing), kinds of wrong answers,
and how often they come. Backfills, ingests, refreshes and healings follow each other, over the real
job, walk, lake and audit; after each of them the lake is held against the exchange.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from headrace.audit.auditor import run_audit
from headrace.audit.healing import Healer
from headrace.errors import HeadraceError
from headrace.run.report import Status
from headrace.trades import RAW_SCHEMA
from tests.lake_samples import trades
from tests.support.audits import FakeLease
from tests.support.pull_world import PRODUCT, Client, Desk, Exchange, SteppedRenewal, World, exists
from tests.support.steps import InlineExecutor

Answer = pa.RecordBatch
NOW = datetime(2026, 3, 1, tzinfo=UTC)
#: Runs after which a world with at most a fifth of wrong answers has to have succeeded.
RUNS = 12


class Wrong(Exchange):
    """An exchange of which a share of the answers is wrong, in the given ways."""

    def __init__(self, seed: int, size: int, **options: object) -> None:
        super().__init__(size, **options)
        self.random = random.Random(seed)
        self.share = 0.0
        self.kinds: list[str] = []
        self.growth = 0
        self.products = 0

    def below(self, cursor: int | None, limit: int) -> Answer:
        if self.growth:
            self.grow(self.random.randrange(self.growth))
        if self.random.random() < self.share:
            return KINDS[self.random.choice(self.kinds)](self, cursor, limit)
        return self.right(cursor, limit)

    def right(self, cursor: int | None, limit: int) -> Answer:
        return super().below(cursor, limit)


def empty(exchange: Wrong, cursor: int | None, limit: int) -> Answer:
    return exchange.right(cursor, limit).slice(0, 0)


def empty_newest(exchange: Wrong, cursor: int | None, limit: int) -> Answer:
    answer = exchange.right(cursor, limit)
    return answer.slice(0, 0) if cursor is None else answer


def short(exchange: Wrong, cursor: int | None, limit: int) -> Answer:
    """Without its oldest rows."""
    answer = exchange.right(cursor, limit)
    return answer.slice(exchange.random.randint(0, len(answer)))


def cut_at_the_front(exchange: Wrong, cursor: int | None, limit: int) -> Answer:
    """Without its newest rows."""
    answer = exchange.right(cursor, limit)
    return answer.slice(0, exchange.random.randint(0, len(answer)))


def begins_lower(exchange: Wrong, cursor: int | None, limit: int) -> Answer:
    """A full page, of an older cursor."""
    answer = exchange.right(cursor, limit)
    if not len(answer):
        return answer
    ids = answer.column(0)
    return exchange.right(ids[exchange.random.randrange(len(ids))].as_py() + 1, limit)


def thinned(exchange: Wrong, cursor: int | None, limit: int) -> Answer:
    """Rows are missing anywhere in it, and none are there in their place.

    The page in which a history begins is spared: it may be short.
    """
    answer = exchange.right(cursor, limit)
    if not len(answer) or not len(exchange.right(answer.column(0)[0].as_py(), 1)):
        return answer
    kept = [at for at in range(len(answer)) if exchange.random.random() < 0.9]
    return answer.take(pa.array(kept, pa.int64()))


def stale(exchange: Wrong, cursor: int | None, limit: int) -> Answer:
    """From a replica that lags behind."""
    newest = exchange.newest - exchange.random.randrange(exchange.newest)
    return exchange.right(min(newest + 1, cursor or newest + 1), limit)


def another_product(exchange: Wrong, cursor: int | None, limit: int) -> Answer:
    """From a product with few trades, whose ids begin at 2: never the same one twice."""
    exchange.products += 1
    newest = exchange.random.randint(300, 600)
    top = min(newest, (cursor or newest + 1) - 1)
    ids = range(max(1, top - min(limit, exchange.rows_per_answer)) + 1, top + 1)
    rows = trades(ids)
    price = pa.array([f"7.{exchange.products}1"] * len(ids), pa.string())
    return pa.RecordBatch.from_arrays(
        [price if name == "price" else rows[name].combine_chunks() for name in rows.column_names],
        schema=RAW_SCHEMA,
    )


KINDS: dict[str, Callable[[Wrong, int | None, int], Answer]] = {
    each.__name__: each
    for each in (
        empty,
        empty_newest,
        short,
        cut_at_the_front,
        begins_lower,
        thinned,
        stale,
        another_product,
    )
}

#: What there is: its size, which ids exist, rows of a full answer, new ids at each request.
HISTORIES: dict[str, tuple[int, Callable[[int], bool], int, int]] = {
    "dense": (9_300, lambda _n: True, 1_000, 0),
    "dense and late": (9_300, lambda n: n > 3_456, 1_000, 0),
    "dense with holes": (9_300, lambda n: n % 701 > 2 and not 3_000 < n < 5_400, 500, 0),
    "few": (700, lambda _n: True, 1_000, 0),
    "thin": (15_000, exists, 25, 0),
    "thinner": (30_000, lambda n: n > 7_000 and n * 7_919 % 997 == 1, 10, 0),
    "half": (6_000, lambda n: n * 7_919 % 13 < 6, 200, 0),
    "growing": (4_000, lambda _n: True, 1_000, 60),
    "growing and thin": (8_000, exists, 25, 300),
}


def played(seed: int) -> tuple[int, int]:
    """One world, from an empty lake to the end: runs that succeeded under fire, and all of them."""
    rng = random.Random(seed)
    size, there, rows_per_answer, growth = HISTORIES[rng.choice(list(HISTORIES))]
    exchange = Wrong(seed, size, there=there, rows_per_answer=rows_per_answer)
    exchange.growth = growth
    exchange.kinds = rng.choice([[each] for each in KINDS] + 3 * [list(KINDS)])
    exchange.share = rng.uniform(0.05, 0.5)
    world = World(exchange)
    done = runs = 0
    backfilled = False
    while runs < RUNS and not (done >= 2 and backfilled):
        runs += 1
        step = rng.choice(["backfill", "backfill", "ingest", "refresh", "heal", "lose"])
        if runs > RUNS // 2:
            step = "backfill"
        if step == "lose" and world.listing.parts:
            world.objects.delete(rng.choice(world.listing.parts).key)
            world.checkpoint = rng.choice([None, world.checkpoint])
        if step == "heal":
            heal(world)
        elif step == "refresh":
            done += pull(world, "backfill", rng, full_refresh=True) is Status.DONE
        elif pull(world, "ingest" if step == "ingest" else "backfill", rng) is Status.DONE:
            done += 1
            backfilled |= step != "ingest"
    if exchange.share <= 0.2:
        assert backfilled, f"no backfill succeeded in {runs} runs"
    exchange.share = exchange.growth = 0
    for _ in range(2):
        # The first may have to find out that what an earlier run was shown is not there.
        clean = pull(world, "backfill", rng)
    assert clean is Status.DONE
    assert world.lake.read(PRODUCT).equals(exchange.rows(1, exchange.newest))
    assert audit(world) is Status.DONE
    return done, runs


def pull(world: World, planner: str, rng: random.Random, **options: object) -> Status:
    stored = world.lake.newest(PRODUCT)
    shape = {"pages_per_chunk": rng.choice([0, 1, 3]), "width": rng.randint(1, 4)}
    process = world.start(planner, order=rng.randrange(10), **shape, **options)
    process.troubled = True
    process.advance()
    receipt = process.receipt
    assert receipt is not None
    hold_against_exchange(world)
    if receipt.status is Status.DONE:
        assert stored is None or receipt.newest >= stored.trade_id
        if receipt.range is not None:
            assert world.listing.coverage.contains(*receipt.range)
        if planner == "backfill" and receipt.newest:
            assert complete_to(world, receipt.newest)
    return receipt.status


def heal(world: World) -> None:
    """What `headrace audit --heal` does, without Prefect."""
    try:
        for _ in Healer(world.lake, Desk(world), "heal").heal(PRODUCT, FakeLease(), now=NOW):
            pass
    except HeadraceError:
        return
    audit(world)


def audit(world: World) -> Status:
    before = world.listing.coverage.last or 0
    client = Client(world, lambda _operation: None)
    found = run_audit(world.lake, PRODUCT, checkpoints=Desk(world), client=client)
    if found.status is Status.DONE and world.listing.parts:
        assert found.newest >= before
        assert complete_to(world, found.newest)
    return found.status


def complete_to(world: World, newest: int) -> bool:
    covered = world.listing.coverage.contains(1, newest)
    return covered and world.lake.read(PRODUCT, 1, newest).equals(world.exchange.rows(1, newest))


def hold_against_exchange(world: World) -> None:
    """Every part holds what the exchange has in its range, at any time."""
    for part in world.listing.parts:
        rows, _ = world.lake.read_part(part)
        assert rows.equals(world.exchange.rows(part.lo, part.hi)), part.name


@pytest.fixture(autouse=True, scope="module")
def _one_thread_at_a_time():
    logging.disable(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("lake.raw", "exchange.history", "audit.inspection"):
            patch.setattr(f"headrace.{module}.ThreadPoolExecutor", InlineExecutor)
        patch.setattr("headrace.leases.holding.Renewal", SteppedRenewal)
        yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("pages", [135, pytest.param(1_350, marks=pytest.mark.long)])
def test_an_exchange_without_a_fault_is_asked_for_each_page_once(pages: int) -> None:
    world = World(Exchange(1_000 * pages, there=lambda _n: True, rows_per_answer=1_000))
    process = world.start("backfill")
    process.advance()
    assert process.receipt.requests == process.receipt.pages == pages
    assert process.receipt.rows == 1_000 * pages


@pytest.mark.parametrize("tens", range(10))
def test_wrong_answers_lose_nothing(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        played(seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("hundreds", range(20))
def test_many_wrong_answers_lose_nothing(hundreds: int) -> None:
    for seed in range(100 * hundreds, 100 * hundreds + 100):
        played(seed)
