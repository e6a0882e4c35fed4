"""Backfills and ingests of one product in any schedule: killed, paused, taken over, cut off.

The machine leads up to four runs at once, operation by operation, over the real job, lake and
leases. After every step the lake is held against the exchange. At the end everybody is killed,
whatever was down comes back, and one backfill and one ingest must bring all to rights.
"""

from __future__ import annotations

import logging
import random
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
from headrace.lake.failing_store import Action, Fault, denied, unavailable
from headrace.lake.names import PartName
from headrace.pull.checkpoints import SCHEMA_VERSION, Checkpoint
from headrace.pull.exceptions import NothingToRebuild
from headrace.pull.product_leases import ProductLeases
from headrace.pull.rebuild import rebuild
from headrace.run.report import Status
from tests.support.pull_world import (
    EXCHANGE,
    LAKE,
    PRODUCT,
    TTL_S,
    Desk,
    Exchange,
    PullProcess,
    SteppedRenewal,
    World,
)
from tests.support.steps import InlineExecutor

T = TypeVar("T")
Options = dict[str, Any]
Far = tuple[str, int] | None
Who = tuple[int, str, Options]

AT_ONCE = 4
PAGES = 15
ACTIONS: list[Action] = ["put", "put_if_absent", "get", "tail", "entries", "delete"]
#: How far a process goes: to the so-manieth operation of a kind from here, or to its end (None).
OPERATIONS = ["put_if_absent", "delete", "tail", "entries", "save", "lease-read", "page", "change"]
STOPS = st.tuples(st.sampled_from(OPERATIONS), st.integers(1, 4))
FAR = STOPS | STOPS | st.none()
WHICH = st.integers(0, AT_ONCE - 1)
PLANNERS = st.sampled_from(["backfill", "ingest"])
RANGES = st.tuples(st.integers(1, PAGES * 1_000), st.integers(1, 9_000)).map(
    lambda drawn: {"from_id": drawn[0], "to_id": drawn[0] + drawn[1]}
)
#: None: the checkpoint is gone.
DAMAGES = [None, None, None, {"schema_version": 9}, {"rows": -1}, {"product": "ETH-USD"}]
SHAPES = st.fixed_dictionaries(
    {
        "pages_per_chunk": st.sampled_from([0, 1, 2, 3, 4, 10]),
        "width": st.integers(1, 4),
        "order": st.integers(0, 9),
    }
)
#: One of the processes at work; or a new one, if there are too few.
WHO = st.tuples(WHICH, PLANNERS, SHAPES)
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
    def asleep(self) -> list[PullProcess]:
        return [process for process in self.alive if process.frozen]

    def process_of(self, who: Who) -> PullProcess:
        which, planner, shape = who
        if len(self.awake) < 2 and len(self.alive) < AT_ONCE:
            if any(process.planner == planner for process in self.awake):
                planner = "ingest" if planner == "backfill" else "backfill"
            self.world.exchange.grow(500 * which)
            self.start(planner, {}, shape, ("page", 1 + which))
        if not self.awake and self.asleep:
            # The new process found one of these at work.
            self.rouse(chosen(self.asleep, which))
        return chosen(self.awake or self.world.processes, which)

    def rouse(self, process: PullProcess) -> None:
        process.frozen = False
        if not process.holds_its_lease():
            self.everybody_is_troubled()

    @precondition(lambda self: len(self.alive) < AT_ONCE)
    @rule(planner=PLANNERS, options=OPTIONS, shape=SHAPES, far=FAR)
    def start(self, planner: str, options: Options, shape: Options, far: Far) -> None:
        process = self.world.start(planner, **shape, **options)
        process.troubled = self.trouble_about
        lead(process, far)

    @precondition(lambda self: len(self.alive) < AT_ONCE)
    @rule(planner=PLANNERS, shape=SHAPES, ids=st.integers(1, 1_500))
    def run_after_growth(self, planner: str, shape: Options, ids: int) -> None:
        self.world.exchange.grow(ids)
        self.start(planner, {}, shape, None)

    @rule(who=WHO, far=FAR)
    def step(self, who: Who, far: Far) -> None:
        lead(self.process_of(who), far)

    @rule(who=WHO, far=STOPS)
    def kill(self, who: Who, far: Far) -> None:
        process = self.process_of(who)
        lead(process, far)
        process.kill()

    @rule(who=WHO)
    def freeze(self, who: Who) -> None:
        self.process_of(who).frozen = True

    @precondition(lambda self: self.asleep)
    @rule(which=WHICH, far=FAR, renews_first=st.booleans())
    def wake(self, which: int, far: Far, renews_first: bool) -> None:
        process = chosen(self.asleep, which)
        self.rouse(process)
        if renews_first:
            process.renew()
        lead(process, far)

    @precondition(lambda self: len(self.alive) < AT_ONCE)
    @rule(
        who=WHO,
        near=STOPS,
        shape=SHAPES,
        far=FAR,
        renews_first=st.booleans(),
    )
    def take_over(self, who: Who, near: Far, shape: Options, far: Far, renews_first: bool) -> None:
        """One falls asleep on its way, another takes its place, the first goes on."""
        asleep = self.process_of(who)
        lead(asleep, near)
        asleep.frozen = True
        self.world.pass_time(2 * TTL_S + 10)
        if len(self.alive) < AT_ONCE:
            self.start(asleep.planner, {}, shape, far)
        if asleep.alive:
            self.wake(self.asleep.index(asleep), None, renews_first)

    @rule(
        ids=st.integers(2_000, 9_000),
        shapes=st.tuples(SHAPES, SHAPES),
        turns=st.lists(st.tuples(st.integers(0, 1), STOPS), min_size=4, max_size=12),
        stopped=st.none() | st.integers(0, 1),
    )
    def race(
        self,
        ids: int,
        shapes: tuple[Options, Options],
        turns: list[tuple[int, tuple[str, int]]],
        stopped: int | None,
    ) -> None:
        """Both kinds set out for the same new trades and go on by turns; one may be cut off."""
        for process in self.alive:
            process.kill()
        self.world.pass_time(2 * TTL_S + 10)
        self.world.exchange.grow(ids)
        for planner, shape in zip(("backfill", "ingest"), shapes, strict=True):
            self.start(planner, {}, shape, ("page", 2))
        racers = self.world.processes[-2:]
        for at, (which, far) in enumerate(turns):
            lead(racers[which], far)
            self.hold_against_exchange()
            if at == len(turns) // 2 and stopped is not None:
                racers[stopped].ask_to_stop()
        for racer in racers:
            racer.advance()

    def hold_against_exchange(self) -> None:
        self.every_part_is_exact()
        self.parts_are_nested_or_apart()
        self.checkpoint_is_never_ahead()

    @rule(seconds=st.sampled_from([5.0, TTL_S + 10, 2 * TTL_S + 10]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(
        who=WHO,
        action=st.sampled_from(ACTIONS),
        error=st.sampled_from([unavailable, denied]),
        times=st.sampled_from([1, 1, 2, None]),
        stored=st.booleans(),
    )
    def store_fails(self, who: Who, action: Action, **fault: Any) -> None:
        self.process_of(who).script(action, Fault(**fault))

    @rule(who=WHO, pages=st.integers(1, 6), far=FAR)
    def ask_to_stop(self, who: Who, pages: int, far: Far) -> None:
        process = self.process_of(who)
        process.advance_to("page", pages)
        process.ask_to_stop()
        lead(process, far)

    @rule(ids=st.integers(1, 3_500))
    def exchange_grows(self, ids: int) -> None:
        self.world.exchange.grow(ids)

    @rule(stale_by=st.sampled_from([0, 3, 25]), broken=st.sets(st.integers(0, PAGES), max_size=2))
    def exchange_fails(self, stale_by: int, broken: set[int]) -> None:
        self.world.exchange.stale_by = stale_by
        self.world.exchange.broken = broken
        if broken:
            self.everybody_is_troubled()

    @rule(service=st.sampled_from(["leases_down", "checkpoints_down", "checkpoints_lag"]), who=WHO)
    def service_fails(self, service: str, who: Who) -> None:
        """It is back when one run has ended, for better or worse."""
        process = self.process_of(who)
        setattr(self.world, service, True)
        self.everybody_is_troubled()
        process.advance()
        self.world.recover()

    @precondition(lambda self: self.trouble_about)
    @rule()
    def all_recovers(self) -> None:
        self.world.recover()
        for process in self.alive:
            process.store.heal()

    @precondition(lambda self: self.world.checkpoint)
    @rule(change=st.sampled_from(DAMAGES))
    def checkpoint_is_lost_or_damaged(self, change: Options | None) -> None:
        world = self.world
        if change is None:
            world.checkpoint = world.checkpoint_before = None
        else:
            world.checkpoint = {**world.checkpoint, **change}
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
            (stored["schema_version"], stored["product"]) != (SCHEMA_VERSION, PRODUCT)
            or stored["rows"] < 0
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
        world.recover()
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
        self.hold_against_exchange()
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
                checkpoints=Desk(world),
                product_leases=ProductLeases(refused.leases_at_rest(), EXCHANGE, PRODUCT, LAKE),
                run_id="rebuild",
                ttl_s=TTL_S,
                now=datetime(2026, 3, 1, tzinfo=UTC),
                force=True,
            )
        except NothingToRebuild:
            world.checkpoint = None


def chosen(found: Sequence[T], which: int) -> T:
    return found[which % len(found)]


def lead(process: PullProcess, far: Far) -> None:
    if far is None:
        process.advance()
    else:
        process.advance_to(*far)


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
        patch.setattr("headrace.leases.holding.Renewal", SteppedRenewal)
        yield
    logging.disable(logging.NOTSET)


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
    )


def test_any_schedule_comes_right() -> None:
    run_state_machine_as_test(PullMachine, settings=_settings(20, 20))


def test_who_slept_between_lease_and_checkpoint_leaves_the_lake_to_its_successor() -> None:
    """It reads the names, sees the token of who has taken over, and finds a third one at work."""
    world = World(Exchange(5_000))
    sleeper = world.start("backfill")
    sleeper.advance_to("load", 2)  # once without the lease, once under it
    sleeper.frozen = True
    world.pass_time(2 * TTL_S + 10)
    second = world.start("backfill")
    second.advance()
    world.exchange.grow(3_000)
    third = world.start("backfill")
    third.advance_to("page", 2)  # once without the lease, once under it
    sleeper.frozen = False
    sleeper.advance()
    assert second.receipt.status is Status.DONE
    assert sleeper.receipt.status is Status.RUNNING_ELSEWHERE
    assert not sleeper.store.changed
    third.advance()
    assert third.receipt.status is Status.DONE
    assert world.lake.read(PRODUCT).equals(world.exchange.rows(1, world.exchange.newest))


@pytest.mark.parametrize("refresh", ["neither", "first", "second"])
@pytest.mark.parametrize("part", range(2))
def test_a_plain_reader_sees_no_row_twice_after_a_holder_has_woken(refresh: str, part: int) -> None:
    """It is stopped before any operation, also between its guard and the change itself."""
    for seed in range(20 * part, 20 * part + 20):
        chance = random.Random(seed)
        world = World(Exchange(12_000))
        if refresh != "neither" or chance.random() < 0.3:
            world.start("backfill", pages_per_chunk=chance.choice([1, 3, 10])).advance()
        shapes = [
            {"pages_per_chunk": chance.choice([1, 2, 3, 10]), "order": chance.randrange(10)}
            for _ in range(2)
        ]
        sleeper = world.start("backfill", full_refresh=refresh == "first", **shapes[0])
        sleeper.advance(chance.randrange(1, 150))
        sleeper.frozen = sleeper.troubled = True
        world.pass_time(2 * TTL_S + 10)
        successor = world.start("backfill", full_refresh=refresh == "second", **shapes[1])
        # Sometimes it is still at work when the other wakes.
        successor.advance(chance.choice([1_000_000, chance.randrange(1, 150)]))
        sleeper.frozen = False
        sleeper.advance()
        successor.advance()
        assert successor.receipt.status is Status.DONE, successor.receipt.error
        assert_stored_once(world)


@pytest.mark.parametrize("removed", [1, 6, 7, 8])
def test_what_is_stored_late_while_its_successor_merges_is_swept_by_that_one(removed: int) -> None:
    world = World(Exchange(12_000))
    sleeper = world.start("backfill", pages_per_chunk=1)
    sleeper.advance_to("change", 2)
    sleeper.frozen = sleeper.troubled = True
    world.pass_time(2 * TTL_S + 10)
    successor = world.start("backfill", pages_per_chunk=1)
    successor.advance_to("delete", removed)
    sleeper.frozen = False
    sleeper.advance()
    successor.advance()
    assert successor.receipt.status is Status.DONE, successor.receipt.error
    assert_stored_once(world)


def assert_stored_once(world: World) -> None:
    """Each trade stands in one file: a plain reader, who knows no parts, sees it once."""
    raw = world.lake
    listing = raw.parts(PRODUCT)
    rows = sum(raw.footer(part).rows for part in (*listing.parts, *listing.hidden))
    assert rows == world.exchange.count(listing.coverage), listing.hidden
    assert listing.coverage.contains(1, world.exchange.newest)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_schedules_come_right() -> None:
    run_state_machine_as_test(PullMachine, settings=_settings(400, 40))
