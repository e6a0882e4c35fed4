"""Backfills and ingests of one product in any schedule: killed, paused, taken over, cut off.

The machine leads up to four runs at once, operation by operation, over the real job, lake and
leases. After every step the lake is held against the exchange. At the end everybody is killed,
whatever was down comes back, and one backfill and one ingest must bring all to rights.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.coverage import EMPTY, IntervalSet
from headrace.lake import PartListing
from headrace.lake.faults import Action, Fault, denied, unavailable
from headrace.lake.names import PartName
from headrace.pull.checkpoints import Checkpoint
from headrace.pull.exceptions import NothingToRebuild
from headrace.pull.rebuild import rebuild
from headrace.pull.receipts import Status
from headrace.pull.turns import Turns
from tests.support.pull_world import (
    EXCHANGE,
    LAKE,
    PRODUCT,
    TTL_S,
    Exchange,
    PullProcess,
    SteppedRenewal,
    World,
)
from tests.support.steps import InlineExecutor

T = TypeVar("T")

AT_ONCE = 4
PAGES = 26
ACTIONS: list[Action] = ["put", "put_if_absent", "get", "tail", "entries", "delete"]
LENGTHS = st.integers(1, 6) | st.integers(1, 60)
WHICH = st.integers(0, AT_ONCE - 1)
PLANNERS = st.sampled_from(["backfill", "ingest"])
RANGES = st.tuples(st.integers(1, PAGES * 1_000), st.integers(1, 9_000)).map(
    lambda drawn: {"from_id": drawn[0], "to_id": drawn[0] + drawn[1]}
)
OPTIONS = st.sampled_from([{}, {}, {}, {"full_refresh": True}, {"only_failed": True}]) | RANGES


class PullMachine(RuleBasedStateMachine):
    """Runs of both kinds in one world."""

    @initialize(pages=st.integers(3, PAGES))
    def begin(self, pages: int) -> None:
        self.world = World(Exchange(pages * 1_000))
        self.sound: dict[str, bytes] = {}
        self.known_keys: frozenset[str] = frozenset()

    @property
    def alive(self) -> list[PullProcess]:
        return [process for process in self.world.processes if process.alive]

    @property
    def awake(self) -> list[PullProcess]:
        return [process for process in self.alive if not process.frozen]

    @property
    def frozen(self) -> list[PullProcess]:
        return [process for process in self.alive if process.frozen]

    @precondition(lambda self: len(self.alive) < AT_ONCE)
    @rule(
        planner=PLANNERS,
        options=OPTIONS,
        pages_per_chunk=st.sampled_from([0, 0, 1, 2, 3, 10]),
        width=st.integers(1, 4),
        order=st.integers(0, 9),
        operations=LENGTHS,
    )
    def start(self, planner: str, options: dict[str, Any], operations: int, **shape: int) -> None:
        process = self.world.start(planner, **shape, **options)
        process.troubled = self.trouble_about
        process.advance(operations)

    @precondition(lambda self: self.awake)
    @rule(which=WHICH, operations=LENGTHS)
    def step(self, which: int, operations: int) -> None:
        chosen(self.awake, which).advance(operations)

    @precondition(lambda self: self.awake)
    @rule(which=WHICH)
    def finish(self, which: int) -> None:
        chosen(self.awake, which).advance()

    @precondition(lambda self: self.awake)
    @rule(which=WHICH)
    def kill(self, which: int) -> None:
        chosen(self.awake, which).kill()

    @precondition(lambda self: self.awake)
    @rule(which=WHICH)
    def freeze(self, which: int) -> None:
        chosen(self.awake, which).frozen = True

    @precondition(lambda self: self.frozen)
    @rule(which=WHICH, operations=LENGTHS, renews_first=st.booleans())
    def wake(self, which: int, operations: int, renews_first: bool) -> None:
        process = chosen(self.frozen, which)
        process.frozen = False
        if not process.holds_its_lease():
            self.everybody_is_troubled()
        if renews_first:
            process.renew()
        process.advance(operations)

    @rule(seconds=st.sampled_from([5.0, TTL_S + 10, 2 * TTL_S + 10]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @precondition(lambda self: self.awake)
    @rule(
        which=WHICH,
        action=st.sampled_from(ACTIONS),
        error=st.sampled_from([unavailable, denied]),
        times=st.sampled_from([1, 1, 2, None]),
        stored=st.booleans(),
    )
    def store_fails(self, which: int, action: Action, **fault: Any) -> None:
        chosen(self.awake, which).script(action, Fault(**fault))

    @precondition(lambda self: self.awake)
    @rule(which=WHICH)
    def store_recovers(self, which: int) -> None:
        chosen(self.awake, which).store.heal()

    @precondition(lambda self: self.awake)
    @rule(which=WHICH)
    def ask_to_stop(self, which: int) -> None:
        chosen(self.awake, which).ask_to_stop()

    @rule(ids=st.integers(1, 3_500))
    def exchange_grows(self, ids: int) -> None:
        self.world.exchange.grow(ids)

    @rule(trades=st.sampled_from([0, 3, 25]))
    def newest_is_stale(self, trades: int) -> None:
        self.world.exchange.stale_by = trades

    @rule(page=st.integers(0, PAGES))
    def page_fails(self, page: int) -> None:
        self.world.exchange.broken.add(page)
        self.everybody_is_troubled()

    @precondition(lambda self: self.world.exchange.broken)
    @rule()
    def pages_recover(self) -> None:
        self.world.exchange.broken.clear()

    @rule(down=st.booleans())
    def leases_fail(self, down: bool) -> None:
        self.world.leases_down = down
        self.everybody_is_troubled()

    @rule(down=st.booleans(), lag=st.booleans())
    def checkpoints_fail(self, down: bool, lag: bool) -> None:
        self.world.checkpoints_down, self.world.checkpoints_lag = down, lag
        self.everybody_is_troubled()

    @precondition(lambda self: self.world.checkpoint)
    @rule()
    def checkpoint_is_lost(self) -> None:
        self.world.checkpoint = self.world.checkpoint_before = None

    @precondition(lambda self: self.world.checkpoint)
    @rule(change=st.sampled_from([{"schema_version": 9}, {"rows": -1}, {"product": "ETH-USD"}]))
    def checkpoint_is_damaged(self, change: dict[str, Any]) -> None:
        self.world.checkpoint = {**self.world.checkpoint, **change}
        self.everybody_is_troubled()

    @precondition(lambda self: self.world.objects.objects)
    @rule(which=st.integers(0, 40))
    def part_is_deleted(self, which: int) -> None:
        part = chosen(self.world.listing.parts, which)
        self.world.objects.delete(part.key)
        self.world.deleted |= IntervalSet.of((part.lo, part.hi))
        self.everybody_is_troubled()

    @property
    def trouble_about(self) -> bool:
        world = self.world
        down = world.leases_down or world.checkpoints_down or world.checkpoints_lag
        return bool(down or world.exchange.broken or self.checkpoint_damaged)

    @property
    def checkpoint_damaged(self) -> bool:
        stored = self.world.checkpoint
        return bool(stored) and (
            (stored["schema_version"], stored["product"]) != (1, PRODUCT) or stored["rows"] < 0
        )

    def everybody_is_troubled(self) -> None:
        for process in self.alive:
            process.troubled = True

    @invariant()
    def every_part_is_exact(self) -> None:
        """What any reader of Parquet finds under a name is what the exchange has there."""
        raw, objects = self.world.lake, self.world.objects.objects
        listing = raw.parts(PRODUCT)
        assert listing.foreign == ()
        for part in (*listing.parts, *listing.hidden):
            if self.sound.get(part.key) is not objects[part.key]:
                assert part.hi <= self.world.exchange.newest
                raw.verify(part)
                assert raw.read_part(part)[0].equals(self.world.exchange.rows(part.lo, part.hi))
                self.sound[part.key] = objects[part.key]

    @invariant()
    def parts_are_nested_or_apart(self) -> None:
        assert_laminar(self.world.listing)

    @invariant()
    def readers_see_each_trade_once(self) -> None:
        keys = frozenset(self.world.objects.objects)
        if keys == self.known_keys:
            return
        self.known_keys = keys
        raw, exchange = self.world.lake, self.world.exchange
        covered = raw.coverage(PRODUCT)
        ids = [n for lo, hi in covered for n in exchange.rows(lo, hi)["trade_id"].to_pylist()]
        assert raw.read(PRODUCT)["trade_id"].to_pylist() == ids
        assert raw.totals(PRODUCT)[0] == len(ids)

    @invariant()
    def checkpoint_is_never_ahead(self) -> None:
        stored = self.world.checkpoint
        if stored is None or self.checkpoint_damaged:
            return
        checkpoint = Checkpoint.model_validate(stored)
        there = self.world.listing.coverage | self.world.deleted
        assert checkpoint.coverage - there == EMPTY
        assert checkpoint.watermark <= checkpoint.newest <= self.world.exchange.newest
        assert checkpoint.watermark == 0 or there.contains(1, checkpoint.watermark)
        if not self.world.deleted:
            counted = self.world.exchange.count(checkpoint.coverage)
            assert checkpoint.rows in (0, counted)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            if not any(process.failed for process in self.world.processes):
                self.all_comes_right()
        finally:
            for process in self.alive:
                process.kill()

    def all_comes_right(self) -> None:
        world = self.world
        for process in self.alive:
            process.kill()
        world.pass_time(10 * TTL_S)
        world.leases_down = world.checkpoints_down = world.checkpoints_lag = False
        world.exchange.broken.clear()
        world.exchange.stale_by = 0
        if self.checkpoint_damaged:
            self.repair_checkpoint()
        before = world.listing.coverage
        world.deleted = EMPTY
        backfill, ingest = (self.clean_run(planner) for planner in ("backfill", "ingest"))
        exchange, listing = world.exchange, world.listing
        assert world.lake.read(PRODUCT).equals(exchange.rows(1, exchange.newest))
        assert listing.hidden == listing.overlaps == ()
        assert not world.temporaries
        assert listing.coverage == IntervalSet.of((1, exchange.newest))
        rows = exchange.count(listing.coverage)
        assert backfill.receipt.new_rows == rows - exchange.count(before)
        assert ingest.receipt.new_rows == 0
        assert ingest.receipt.rows == backfill.receipt.rows == rows
        checkpoint = Checkpoint.model_validate(world.checkpoint)
        assert checkpoint.coverage == listing.coverage
        assert checkpoint.failed == ()
        assert checkpoint.rows == rows
        assert checkpoint.watermark == checkpoint.newest == exchange.newest
        assert checkpoint.first == exchange.rows(1, exchange.newest)["trade_id"][0].as_py()

    def clean_run(self, planner: str) -> PullProcess:
        process = self.world.start(planner)
        process.advance()
        assert process.receipt.status is Status.DONE, process.receipt.error
        self.every_part_is_exact()
        self.parts_are_nested_or_apart()
        self.checkpoint_is_never_ahead()
        return process

    def repair_checkpoint(self) -> None:
        """A run refuses a damaged checkpoint, touching nothing; the documented step mends it."""
        world = self.world
        damaged, objects = world.checkpoint, dict(world.objects.objects)
        refused = world.start("backfill")
        refused.troubled = True
        refused.advance()
        assert refused.receipt.status is Status.FAILED
        assert (world.checkpoint, world.objects.objects) == (damaged, objects)
        try:
            rebuild(
                world.lake,
                PRODUCT,
                checkpoints=_Desk(world),
                turns=Turns(refused.leases_at_rest(), EXCHANGE, PRODUCT, LAKE),
                run_id="rebuild",
                ttl_s=TTL_S,
                now=datetime(2026, 3, 1, tzinfo=UTC),
                force=True,
            )
        except NothingToRebuild:
            world.checkpoint = None


class _Desk:
    """`CheckpointStore` of a person at the command line."""

    lake = LAKE

    def __init__(self, world: World) -> None:
        self._world = world

    def load(self, source: str, product: str) -> Checkpoint | None:
        raise AssertionError("a forced rebuild has nothing to look at")

    def save(self, checkpoint: Checkpoint) -> None:
        assert (checkpoint.source, checkpoint.product) == (EXCHANGE, PRODUCT)
        self._world.checkpoint = checkpoint.model_dump(mode="json")


def chosen(found: Sequence[T], which: int) -> T:
    return found[which % len(found)]


def assert_laminar(listing: PartListing) -> None:
    """Any two names lie in each other or apart, and whole rows never cross a cell's border."""
    names: list[PartName] = [part.name for part in (*listing.parts, *listing.hidden)]
    names.sort(key=lambda name: (name.lo, -name.hi))
    around: list[PartName] = []
    for name in names:
        while around and around[-1].hi < name.lo:
            around.pop()
        assert not around or name.hi <= around[-1].hi, f"{name} lies half over {around[-1]}"
        around.append(name)


@pytest.fixture(autouse=True, scope="module")
def _one_thread_at_a_time():
    logging.disable(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.lake.raw.ThreadPoolExecutor", InlineExecutor)
        patch.setattr("headrace.exchange.history.ThreadPoolExecutor", InlineExecutor)
        patch.setattr("headrace.leases.lease.Renewal", SteppedRenewal)
        yield
    logging.disable(logging.NOTSET)


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def test_any_schedule_comes_right() -> None:
    run_state_machine_as_test(PullMachine, settings=_settings(40, 30))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_schedules_come_right() -> None:
    run_state_machine_as_test(PullMachine, settings=_settings(600, 50))
