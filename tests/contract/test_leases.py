"""One suite for every store of leases: SQLite, DynamoDB as moto's server speaks it, Postgres,
and S3.

Time, machines and processes are simulated; the stores are real. A state machine drives both them
and a model that fits on a page, and compares after every step.
"""

from __future__ import annotations

import os
import pickle
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from headrace.leases import (
    DynamoLeases,
    Grant,
    InvalidLease,
    LeaseHeld,
    LeaseLost,
    LeaseStatus,
    LeaseStore,
    S3Leases,
    SqliteLeases,
    hold,
)
from headrace.leases.clock import StoreClock
from headrace.leases.model import Process, Row
from headrace.leases.postgres import PostgresLeases
from headrace.leases.this_machine import THIS_MACHINE, Liveness, Machine
from headrace.postgres import PostgresAddress
from tests.services_fixtures import BUCKET, s3_client, settings_for

TTL_S = 60.0
SKEW_S = 5.0
REGION = "eu-west-1"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class World:
    """The time that really passes, and the processes that have really died."""

    passed_s: float = 0.0
    dead: set[Process] = field(default_factory=set)


@dataclass
class FakeMachine:
    """What one process sees of the world."""

    world: World
    process: Process
    wall_ahead_s: float = 0.0

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.world.passed_s + self.wall_ahead_s)

    def boot_s(self) -> float:
        return 1000.0 + self.world.passed_s

    def me(self) -> Process:
        return self.process

    def liveness(self, process: Process, *, one_machine: bool) -> Liveness:
        if process.boot_id != self.process.boot_id:
            return Liveness.UNKNOWN
        return Liveness.GONE if process in self.world.dead else Liveness.ALIVE


class WorldClock(StoreClock):
    """A store's clock that shows the simulated time."""

    def __init__(self, machine: FakeMachine) -> None:
        super().__init__(machine.boot_s, resolution_s=0)
        self.machine = machine

    def earliest(self) -> datetime:
        return EPOCH + timedelta(seconds=self.machine.world.passed_s)

    latest = earliest


def clock_for(machine: Machine) -> StoreClock | None:
    return WorldClock(machine) if isinstance(machine, FakeMachine) else None


def process(host: str, pid: int, start: int = 1) -> Process:
    return Process(host=host, pid=pid, boot_id=f"boot-{host}", start_ticks=start, pid_ns="p")


@dataclass
class Backend:
    """One kind of store: how to open it, and how to lose a row behind its back."""

    name: str
    open: Callable[[Machine], LeaseStore]
    forget: Callable[[str], None]
    hosts: tuple[str, ...] = ("a", "b")
    has_clock: bool = False  # and not the machines', which may be wrong


@pytest.fixture(scope="module")
def dynamodb(moto_url: str) -> Iterator[Any]:
    """A client for moto's server, in an environment that lets our stores reach it, too."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "key")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield boto3.session.Session().client("dynamodb", endpoint_url=moto_url, region_name=REGION)


BACKENDS = {
    "sqlite": lambda request: in_file(request.getfixturevalue("tmp_path") / "state"),
    "dynamodb": lambda request: in_table(
        request.getfixturevalue("moto_url"), request.getfixturevalue("dynamodb")
    ),
    "postgres": lambda request: in_database(request.getfixturevalue("postgres_url")),
    "seaweed": lambda request: in_bucket("seaweed", request.getfixturevalue("seaweed_url")),
    "moto": lambda request: in_bucket("moto", request.getfixturevalue("moto_url")),
}


@pytest.fixture(
    params=[
        name if name == "sqlite" else pytest.param(name, marks=pytest.mark.services)
        for name in BACKENDS
    ]
)
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param](request)


def in_file(folder: Path) -> Backend:
    def forget(name: str) -> None:
        with closing(sqlite3.connect(folder / "leases.sqlite")) as db:
            db.execute("DELETE FROM lease WHERE name = ?", (name,))
            db.commit()

    return Backend(
        "sqlite", lambda machine: SqliteLeases(folder, machine=machine), forget, hosts=("a",)
    )


def in_table(url: str, client: Any) -> Backend:
    table = f"leases-{uuid4().hex}"
    client.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "lease", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "lease", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )

    def forget(name: str) -> None:
        client.delete_item(TableName=table, Key={"lease": {"S": name}})

    def opened(machine: Machine) -> LeaseStore:
        return DynamoLeases(
            table, endpoint_url=url, region=REGION, max_clock_skew_s=SKEW_S, machine=machine
        )

    return Backend("dynamodb", opened, forget)


def in_database(url: str) -> Backend:
    address = PostgresAddress(url, setting="HEADRACE_LEASES")

    def opened(machine: Machine) -> LeaseStore:
        return PostgresLeases(
            address, max_clock_skew_s=SKEW_S, machine=machine, clock=clock_for(machine)
        )

    def forget(name: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DELETE FROM headrace_lease WHERE name = %s", (name,))

    return Backend("postgres", opened, forget, has_clock=True)


def in_bucket(name: str, url: str) -> Backend:
    prefix = f"leases/{uuid4().hex}"

    def opened(machine: Machine) -> LeaseStore:
        return S3Leases(
            BUCKET,
            prefix,
            settings_for(url),
            max_clock_skew_s=SKEW_S,
            machine=machine,
            clock=clock_for(machine),
        )

    def forget(name: str) -> None:
        key = f"{prefix}/_leases/{name.replace('/', '=2F')}.json"
        s3_client(url).delete_object(Bucket=BUCKET, Key=key)

    return Backend(name, opened, forget, has_clock=True)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def ours(backend: Backend, world: World) -> LeaseStore:
    return backend.open(FakeMachine(world, process("a", 1)))


@pytest.fixture
def theirs(backend: Backend, world: World) -> LeaseStore:
    return backend.open(FakeMachine(world, process(backend.hosts[-1], 2)))


NAME = "coinbase/BTC-USD"


def test_a_second_caller_gets_the_holder_at_once(ours: LeaseStore, theirs: LeaseStore) -> None:
    ours.acquire(NAME, run_id="night-run", ttl_s=TTL_S)
    with pytest.raises(LeaseHeld) as caught:
        theirs.acquire(NAME, run_id="other", ttl_s=TTL_S)
    holder = caught.value.holder
    assert (holder.host, holder.pid, holder.run_id) == ("a", 1, "night-run")
    assert holder.since == EPOCH
    assert holder.expires == EPOCH + timedelta(seconds=TTL_S)
    assert str(caught.value) == (
        "already running elsewhere (holder a pid 1 run night-run since 2026-01-01T00:00:00Z)"
    )


def test_two_holders_in_one_process_are_two(ours: LeaseStore) -> None:
    ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    with pytest.raises(LeaseHeld):
        ours.acquire(NAME, run_id="one", ttl_s=TTL_S)


def test_other_names_are_free(ours: LeaseStore, theirs: LeaseStore) -> None:
    ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    theirs.acquire("coinbase/ETH-USD", run_id="two", ttl_s=TTL_S)


def test_a_renewed_lease_lasts(ours: LeaseStore, theirs: LeaseStore, world: World) -> None:
    grant = ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    for _ in range(5):
        world.passed_s += TTL_S - 1
        grant = ours.renew(grant)
        ours.check(grant)
        with pytest.raises(LeaseHeld):
            theirs.acquire(NAME, run_id="two", ttl_s=TTL_S)


def test_a_renewal_may_hand_it_to_another_run(ours: LeaseStore, theirs: LeaseStore) -> None:
    grant = ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    handed = ours.renew(grant, run_id="two")
    assert (handed.token, handed.holder.run_id) == (grant.token, "two")
    with pytest.raises(LeaseHeld, match="run two"):
        theirs.acquire(NAME, run_id="other", ttl_s=TTL_S)
    assert ours.renew(grant).holder.run_id == "two"
    with pytest.raises(InvalidLease, match="a run id"):
        ours.renew(grant, run_id="two\nlines")
    ours.check(grant)


def test_an_early_grant_stays_good_after_renewals(ours: LeaseStore, world: World) -> None:
    grant = ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    world.passed_s += 40
    ours.renew(grant)
    world.passed_s += 40
    ours.check(grant)


def test_an_expired_lease_stays_expired_without_a_new_holder(
    ours: LeaseStore, world: World
) -> None:
    grant = ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    world.passed_s += TTL_S
    with pytest.raises(LeaseLost, match="not renewed for 60 s"):
        ours.check(grant)
    with pytest.raises(LeaseLost):
        ours.renew(grant)
    assert [state.status for state in ours.list()] == [LeaseStatus.EXPIRED]


def test_takeover_is_named_on_both_sides(
    ours: LeaseStore, theirs: LeaseStore, world: World
) -> None:
    old = ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    world.passed_s += TTL_S + SKEW_S
    new = theirs.acquire(NAME, run_id="two", ttl_s=TTL_S)
    assert new.token > old.token
    assert new.predecessor == (old.holder, LeaseStatus.EXPIRED)
    for call in (ours.check, ours.renew, ours.release):
        with pytest.raises(LeaseLost, match=r"taken over by .* run two") as caught:
            call(old)
        assert caught.value.holder == new.holder
    theirs.check(new)


def test_release_frees_at_once_and_keeps_the_token(ours: LeaseStore, theirs: LeaseStore) -> None:
    old = ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    ours.release(old)
    ours.release(old)
    with pytest.raises(LeaseLost, match="released"):
        ours.check(old)
    new = theirs.acquire(NAME, run_id="two", ttl_s=TTL_S)
    assert new.token > old.token
    assert new.predecessor is None


def test_the_token_exceeds_what_the_caller_has_seen(ours: LeaseStore) -> None:
    seen = 9_000_000_000_000
    assert ours.acquire(NAME, run_id="one", ttl_s=TTL_S, above=seen).token == seen + 1


def test_the_token_rises_over_the_deletion_of_the_row(
    ours: LeaseStore, theirs: LeaseStore, backend: Backend, world: World
) -> None:
    old = ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    world.passed_s += 0.01
    backend.forget(NAME)
    new = theirs.acquire(NAME, run_id="two", ttl_s=TTL_S)
    assert new.token > old.token
    with pytest.raises(LeaseLost):
        ours.renew(old)


def test_the_token_rises_while_the_clock_stands_or_falls(backend: Backend, world: World) -> None:
    machine = FakeMachine(world, process("a", 1))
    store = backend.open(machine)
    tokens = []
    for wall_ahead_s in (0.0, 0.0, -3600.0, -7200.0, 0.0):
        machine.wall_ahead_s = wall_ahead_s
        grant = store.acquire(NAME, run_id="one", ttl_s=TTL_S)
        tokens.append(grant.token)
        store.release(grant)
    assert tokens == sorted(set(tokens))


def test_a_dead_neighbour_holds_nothing(backend: Backend, world: World) -> None:
    ours = backend.open(FakeMachine(world, process("a", 1)))
    neighbour = backend.open(FakeMachine(world, process("a", 2)))
    old = ours.acquire(NAME, run_id="one", ttl_s=86_400)
    world.dead.add(process("a", 1))
    assert [state.status for state in neighbour.list()] == [LeaseStatus.DEAD]
    new = neighbour.acquire(NAME, run_id="two", ttl_s=TTL_S)
    assert new.predecessor == (old.holder, LeaseStatus.DEAD)


@pytest.mark.parametrize("step_s", [-86_400.0, 86_400.0])
def test_a_step_of_the_wall_clock_changes_nothing_on_one_machine(
    backend: Backend, world: World, step_s: float
) -> None:
    holder, contender = (FakeMachine(world, process("a", pid)) for pid in (1, 2))
    ours, theirs = backend.open(holder), backend.open(contender)
    grant = ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    holder.wall_ahead_s = contender.wall_ahead_s = step_s
    world.passed_s += TTL_S - 1
    ours.check(grant)
    with pytest.raises(LeaseHeld):
        theirs.acquire(NAME, run_id="two", ttl_s=TTL_S)
    world.passed_s += 1
    theirs.acquire(NAME, run_id="two", ttl_s=TTL_S)


def test_force_release_cuts_off_only_the_holder_that_was_seen(
    ours: LeaseStore, theirs: LeaseStore
) -> None:
    assert ours.force_release(NAME) is None
    old = ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    assert theirs.force_release(NAME, token=old.token) == old.holder
    assert theirs.force_release(NAME) is None
    with pytest.raises(LeaseLost):
        ours.check(old)
    new = ours.acquire(NAME, run_id="three", ttl_s=TTL_S)
    with pytest.raises(LeaseHeld):
        theirs.force_release(NAME, token=old.token)
    ours.check(new)


def test_listing(ours: LeaseStore, theirs: LeaseStore) -> None:
    assert ours.list() == ()
    first = ours.acquire("b", run_id="one", ttl_s=TTL_S)
    ours.release(theirs.acquire("a", run_id="two", ttl_s=TTL_S))
    listed = theirs.list()
    assert [(state.name, state.status) for state in listed] == [
        ("a", LeaseStatus.FREE),
        ("b", LeaseStatus.HELD),
    ]
    assert (listed[1].token, listed[1].holder) == (first.token, first.holder)


def test_what_nothing_wants_again_is_forgotten(
    ours: LeaseStore, theirs: LeaseStore, world: World
) -> None:
    ours.forget(NAME)
    old = ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    theirs.forget(NAME)
    ours.check(old)
    ours.release(old)
    theirs.forget(NAME)
    assert ours.list() == ()
    world.passed_s += 0.01
    assert ours.acquire(NAME, run_id="two", ttl_s=TTL_S).token > old.token
    world.passed_s += TTL_S
    ours.forget(NAME)
    assert ours.list() == ()


BAD_NAMES = ("", " ", "a b", "a\nb", "\x1b[31m", "a'b", "-x", "/etc", "é", "a" * 201)


def test_what_comes_from_outside_is_checked(ours: LeaseStore) -> None:
    for name in BAD_NAMES:
        with pytest.raises(InvalidLease):
            ours.acquire(name, run_id="one", ttl_s=TTL_S)
    for run_id in ("", "a\nb", "\x1b[31m", "a" * 201):
        with pytest.raises(InvalidLease):
            ours.acquire(NAME, run_id=run_id, ttl_s=TTL_S)
    for ttl_s in (0.0, -1.0, float("nan"), float("inf"), 86_401):
        with pytest.raises(InvalidLease):
            ours.acquire(NAME, run_id="one", ttl_s=ttl_s)
    assert ours.list() == ()


def test_a_store_can_be_sent_to_a_spawned_process(ours: LeaseStore) -> None:
    grant = ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    pickle.loads(pickle.dumps(ours)).check(grant)


@pytest.mark.parametrize("stored", ["acquire", "renew", "release"])
def test_a_write_that_was_stored_but_answered_as_failed(
    ours: LeaseStore, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    """A swap that is repeated after a lost answer meets its own first attempt."""
    grant = None if stored == "acquire" else ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
    swap = ours._swap
    answers: list[bool] = []

    def swap_without_answer(seen: Row | None, new: Row) -> bool:
        answers.append(swap(seen, new))
        return answers[-1] and len(answers) > 1

    monkeypatch.setattr(ours, "_swap", swap_without_answer)
    if stored == "acquire":
        grant = ours.acquire(NAME, run_id="one", ttl_s=TTL_S)
        ours.check(grant)
    elif stored == "renew":
        assert grant is not None
        ours.check(ours.renew(grant))
    else:
        assert grant is not None
        ours.release(grant)
        assert [state.status for state in ours.list()] == [LeaseStatus.FREE]
    assert answers[0]


def test_of_many_threads_one_wins(backend: Backend, world: World) -> None:
    if backend.name == "moto":
        pytest.skip("moto compares an object and stores it in two steps")
    outcomes: list[Grant | LeaseHeld] = []
    start = threading.Barrier(8)

    def contend(pid: int) -> None:
        store = backend.open(FakeMachine(world, process("a", pid)))
        start.wait()
        try:
            outcomes.append(store.acquire(NAME, run_id=f"run-{pid}", ttl_s=TTL_S))
        except LeaseHeld as held:
            outcomes.append(held)

    threads = [threading.Thread(target=contend, args=(pid,)) for pid in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (won,) = [outcome for outcome in outcomes if isinstance(outcome, Grant)]
    lost = [outcome for outcome in outcomes if isinstance(outcome, LeaseHeld)]
    assert len(lost) == 7
    assert {held.holder.run_id for held in lost} == {won.holder.run_id}


def test_hold_renews_and_releases(backend: Backend) -> None:
    """The one test with real time: the lease outlives its time to live."""
    store = backend.open(THIS_MACHINE)
    # Where two write one key, SeaweedFS stands still for up to four seconds.
    ttl_s = 12.0 if backend.name == "seaweed" else 3.0
    with hold(store, NAME, run_id="one", ttl_s=ttl_s) as lease:
        end = lease.grant.holder.expires
        while THIS_MACHINE.now() < end + timedelta(seconds=0.5):
            lease.check()
            with pytest.raises(LeaseHeld):
                store.acquire(NAME, run_id="two", ttl_s=1)
            time.sleep(0.2)
        assert lease.grant.holder.pid == os.getpid()
    assert [state.status for state in store.list()] == [LeaseStatus.FREE]


@dataclass
class Held:
    """A holding as the model remembers it."""

    grant: Grant
    by: FakeMachine
    until_s: float  # in the world's time
    until_wall_s: float  # by the holder's wall clock, or the store's


class LeaseModel(RuleBasedStateMachine):
    """The stores against a model: who may hold, who may commit, and what the token does."""

    # Set once per backend: a store is costly to open, and none remembers an earlier example.
    backend: Backend
    machines: list[FakeMachine]
    stores: dict[int, LeaseStore]
    names = st.sampled_from(["x", "y"])

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.prefix = uuid4().hex
        for machine in self.machines:
            machine.world = self.world
        self.holds: dict[str, Held | None] = {"x": None, "y": None}
        self.tokens = {"x": 0, "y": 0}
        self.past: list[tuple[str, Held]] = []

    def _full(self, name: str) -> str:
        return f"{self.prefix}/{name}"

    def _may_take(self, held: Held | None, machine: FakeMachine) -> bool:
        if held is None:
            return True
        if machine.process.host == held.by.process.host:
            gone = held.grant.holder.process in self.world.dead
            return gone or self.world.passed_s >= held.until_s
        return self._wall_s(machine) >= held.until_wall_s + SKEW_S

    def _is_good(self, name: str, held: Held) -> bool:
        return self.holds[name] is held and self.world.passed_s < held.until_s

    def _extend(self, held: Held, ttl_s: float) -> None:
        held.until_s = self.world.passed_s + ttl_s
        held.until_wall_s = self._wall_s(held.by) + ttl_s

    def _wall_s(self, machine: FakeMachine) -> float:
        return self.world.passed_s + (0 if self.backend.has_clock else machine.wall_ahead_s)

    @rule(name=names, data=st.data(), ttl_s=st.sampled_from([5.0, 60.0]))
    def acquire(self, name: str, data: Any, ttl_s: float) -> None:
        machine = data.draw(st.sampled_from(self.machines))
        store = self.stores[id(machine)]
        if not self._may_take(self.holds[name], machine):
            with pytest.raises(LeaseHeld) as caught:
                store.acquire(self._full(name), run_id="r", ttl_s=ttl_s)
            held = self.holds[name]
            assert held is not None
            assert caught.value.holder.lease_id == held.grant.holder.lease_id
            return
        grant = store.acquire(self._full(name), run_id="r", ttl_s=ttl_s)
        assert grant.token > self.tokens[name]
        self.tokens[name] = grant.token
        held = Held(grant, machine, 0.0, 0.0)
        self._extend(held, ttl_s)
        self.holds[name] = held
        self.past.append((name, held))

    @rule(data=st.data(), call=st.sampled_from(["renew", "check", "release"]))
    def use(self, data: Any, call: str) -> None:
        if not self.past:
            return
        name, held = data.draw(st.sampled_from(self.past[-6:]))
        store = self.stores[id(held.by)]
        if call == "release":
            if self.holds[name] is held:
                store.release(held.grant)
                self.holds[name] = None
            elif self.holds[name] is not None or held.grant.token != self.tokens[name]:
                with pytest.raises(LeaseLost):
                    store.release(held.grant)
        elif not self._is_good(name, held):
            with pytest.raises(LeaseLost):
                getattr(store, call)(held.grant)
        elif call == "renew":
            assert store.renew(held.grant).token == held.grant.token
            self._extend(held, held.grant.holder.ttl_s)
        else:
            store.check(held.grant)

    @rule(seconds=st.sampled_from([0.001, 1.0, 4.0, 9.0, 55.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.world.passed_s += seconds

    @rule(data=st.data())
    def kill(self, data: Any) -> None:
        """A process dies; another gets its pid."""
        machine = data.draw(st.sampled_from(self.machines))
        old = machine.process
        assert old.start_ticks is not None
        self.world.dead.add(old)
        machine.process = process(old.host, old.pid, old.start_ticks + 1)

    @rule(name=names)
    def force_release(self, name: str) -> None:
        held = self.holds[name]
        taken = self.stores[id(self.machines[0])].force_release(self._full(name))
        assert (taken and taken.lease_id) == (held and held.grant.holder.lease_id)
        self.holds[name] = None

    @rule(name=names)
    def forget(self, name: str) -> None:
        """The row is deleted; for longer than clocks are apart, no process asks."""
        if self.tokens[name] == 0:
            return
        self.backend.forget(self._full(name))
        self.holds[name] = None
        self.past = [(other, held) for other, held in self.past if other != name]
        self.world.passed_s += 2 * SKEW_S

    @invariant()
    def at_most_one_may_commit(self) -> None:
        for name in ("x", "y"):
            good = []
            for held in [held for other, held in self.past[-4:] if other == name]:
                try:
                    self.stores[id(held.by)].check(held.grant)
                except LeaseLost:
                    continue
                good.append(held)
            assert good in ([], [self.holds[name]])


def test_model(backend: Backend) -> None:
    class Model(LeaseModel):
        pass

    Model.backend = backend
    Model.machines = [
        FakeMachine(World(), process(host, pid), ahead)
        for host, ahead in zip(backend.hosts, (2.0, -2.0), strict=False)
        for pid in (1, 2)
    ]
    Model.stores = {id(machine): backend.open(machine) for machine in Model.machines}
    examples, steps = {"sqlite": (40, 40), "moto": (5, 25)}.get(backend.name, (15, 25))
    run_state_machine_as_test(
        Model,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )
