"""When a lease is renewed, given up and reported as lost: without threads or real time."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.leases import (
    LeaseHeld,
    LeaseLost,
    LeaseStatus,
    LeaseStoreUnavailable,
    SqliteLeases,
    hold,
    reporting_gone,
)
from headrace.leases.lease import Lease, Renewal
from headrace.leases.model import Grant, Process
from headrace.leases.this_machine import Liveness
from headrace.stopping import StopEvent, Stopped

NAME = "coinbase/BTC-USD"
TTL_S = 60.0


class StillMachine:
    """A machine whose time passes only when the test says so."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.passed_s)

    def boot_s(self) -> float:
        return self.passed_s

    def me(self) -> Process:
        return Process(host="a", pid=1, boot_id="b")

    def liveness(self, process: Process, *, one_machine: bool) -> Liveness:
        return Liveness.ALIVE


class FlakyLeases(SqliteLeases):
    """A store that can be cut off, and that takes its time to say so."""

    machine: StillMachine
    error: Exception | None = None
    takes_s = 0.0

    def _read(self, name: str):  # type: ignore[no-untyped-def]
        self.machine.passed_s += self.takes_s
        if self.error is not None:
            raise self.error
        return super()._read(name)


@pytest.fixture
def machine() -> StillMachine:
    return StillMachine()


@pytest.fixture
def store(tmp_path: Path, machine: StillMachine) -> FlakyLeases:
    leases = FlakyLeases(tmp_path, machine=machine)
    leases.machine = machine
    return leases


@pytest.fixture
def grant(store: FlakyLeases) -> Grant:
    return store.acquire(NAME, run_id="one", ttl_s=TTL_S)


@pytest.fixture
def losses() -> list[LeaseLost]:
    return []


@pytest.fixture
def lease(
    store: FlakyLeases, grant: Grant, machine: StillMachine, losses: list[LeaseLost]
) -> Lease:
    return Lease(store, grant, until_boot_s=TTL_S, on_lost=losses.append, machine=machine)


@pytest.fixture
def renewal(store: FlakyLeases, lease: Lease, machine: StillMachine) -> Renewal:
    return Renewal(store, lease, machine=machine)


CUT_OFF = LeaseStoreUnavailable("table leases", "no route to host")


def test_three_times_in_a_life(renewal: Renewal, lease: Lease, machine: StillMachine) -> None:
    machine.passed_s = 20
    assert renewal.step() == pytest.approx(20)
    assert lease.left_s == TTL_S


def test_time_counts_from_before_the_question(
    renewal: Renewal, lease: Lease, store: FlakyLeases
) -> None:
    """An answer that took 8 s renewed the lease 8 s ago, as far as we may rely on it."""
    store.takes_s = 8
    pause_s = renewal.step()
    assert lease.left_s == TTL_S - 8
    assert pause_s == pytest.approx(20 - 8)


def test_answers_slower_than_the_interval_are_asked_for_at_once(
    renewal: Renewal, lease: Lease, store: FlakyLeases
) -> None:
    store.takes_s = 50
    assert renewal.step() == 0
    assert lease.left_s == TTL_S - 50


def test_a_lease_that_is_over_is_not_renewed(
    renewal: Renewal,
    lease: Lease,
    store: FlakyLeases,
    machine: StillMachine,
    losses: list[LeaseLost],
) -> None:
    """Even if the store would still have it: who saw `lost` once must be able to rely on it."""
    machine.passed_s = TTL_S
    store.error = AssertionError("asked")
    assert renewal.step() is None
    assert [loss.reason for loss in losses] == ["it was not renewed for 60 s"]


def test_an_outage_shorter_than_the_life_is_survived(
    renewal: Renewal,
    lease: Lease,
    store: FlakyLeases,
    machine: StillMachine,
    losses: list[LeaseLost],
) -> None:
    machine.passed_s = 20
    store.error = CUT_OFF
    while lease.left_s > 5:
        pause_s = renewal.step()
        assert pause_s is not None
        assert 0 < pause_s <= 5
        machine.passed_s += pause_s
    store.error = None
    assert renewal.step() == pytest.approx(20)
    assert not lease.lost
    assert not losses
    lease.check()


@pytest.mark.parametrize("error", [CUT_OFF, ZeroDivisionError("a bug")])
def test_an_outage_as_long_as_the_life_loses_the_lease(
    renewal: Renewal,
    lease: Lease,
    store: FlakyLeases,
    machine: StillMachine,
    losses: list[LeaseLost],
    error: Exception,
) -> None:
    store.error = error
    steps = 0
    while (pause_s := renewal.step()) is not None:
        machine.passed_s += pause_s
        steps += 1
    assert 10 < steps < 50
    assert machine.passed_s == TTL_S
    (loss,) = losses
    assert loss.__cause__ is error
    assert str(error) in str(loss)
    assert lease.lost
    store.error = None
    with pytest.raises(LeaseLost):
        lease.check()
    assert len(losses) == 1


def test_a_lease_is_over_before_anybody_noticed(lease: Lease, machine: StillMachine) -> None:
    assert not lease.lost
    machine.passed_s = TTL_S
    assert lease.lost


def test_a_lease_that_took_long_to_get_is_shorter_for_it(
    store: FlakyLeases, machine: StillMachine
) -> None:
    store.takes_s = 8
    with hold(store, NAME, run_id="one", ttl_s=TTL_S, machine=machine) as lease:
        assert lease.left_s == TTL_S - 8


def test_check_does_not_guess(lease: Lease, store: FlakyLeases, losses: list[LeaseLost]) -> None:
    store.error = CUT_OFF
    with pytest.raises(LeaseStoreUnavailable):
        lease.check()
    assert not losses
    store.error = None
    lease.check()


def test_a_taken_lease_stays_taken(
    renewal: Renewal, lease: Lease, store: FlakyLeases, losses: list[LeaseLost]
) -> None:
    store.force_release(NAME)
    taker = store.acquire(NAME, run_id="two", ttl_s=TTL_S)
    assert renewal.step() is None
    assert [loss.holder for loss in losses] == [taker.holder]
    store.check(taker)


def test_check_tells_of_the_loss_as_renewal_would(
    lease: Lease, store: FlakyLeases, losses: list[LeaseLost]
) -> None:
    store.force_release(NAME)
    for _ in range(2):
        with pytest.raises(LeaseLost, match="released"):
            lease.check()
    assert len(losses) == 1


def test_a_failing_callback_does_not_hide_the_loss(
    store: FlakyLeases, grant: Grant, machine: StillMachine, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(loss: LeaseLost) -> None:
        raise ZeroDivisionError

    lease = Lease(store, grant, until_boot_s=TTL_S, on_lost=fail, machine=machine)
    store.force_release(NAME)
    with pytest.raises(LeaseLost):
        lease.check()
    assert "ZeroDivisionError" in caplog.text


def renewal_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("lease-renewal")]


def test_the_block_ends_with_the_lease_given_back(store: FlakyLeases) -> None:
    seen: list[list[str]] = []

    def work() -> None:
        with hold(store, NAME, run_id="one"):
            seen.append(renewal_threads())
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert seen == [[f"lease-renewal {NAME}"]]
    assert store.list()[0].status is LeaseStatus.FREE
    assert renewal_threads() == []


def test_a_thread_that_cannot_be_started_costs_no_lease(
    store: FlakyLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="new thread"), hold(store, NAME, run_id="one"):
        pytest.fail("the block was entered")
    assert store.list()[0].status is LeaseStatus.FREE


def test_a_store_that_is_gone_at_the_end_does_not_fail_the_work(
    store: FlakyLeases, machine: StillMachine, caplog: pytest.LogCaptureFixture
) -> None:
    with hold(store, NAME, run_id="one", machine=machine):
        store.error = CUT_OFF
    assert "was not released" in caplog.text


def test_a_stop_before_the_start_takes_nothing(store: FlakyLeases) -> None:
    stop = StopEvent()
    stop.set()
    with pytest.raises(Stopped), hold(store, NAME, run_id="one", stop=stop):
        pytest.fail("the block was entered")
    assert store.list() == ()


def test_a_stop_during_the_block_lets_it_commit(store: FlakyLeases, machine: StillMachine) -> None:
    stop = StopEvent()
    with hold(store, NAME, run_id="one", stop=stop, machine=machine) as lease:
        stop.set()
        lease.check()


def test_a_held_lease_starts_nothing(store: FlakyLeases, grant: Grant) -> None:
    with pytest.raises(LeaseHeld), hold(store, NAME, run_id="two"):
        pytest.fail("the block was entered")
    assert renewal_threads() == []
    store.check(grant)


def test_a_takeover_is_logged_with_its_victim(
    store: FlakyLeases, grant: Grant, machine: StillMachine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.passed_s = TTL_S
    with hold(store, NAME, run_id="two", machine=machine) as lease:
        assert lease.predecessor == (grant.holder, LeaseStatus.EXPIRED)
    assert "that of a pid 1 run one since" in caplog.text


def test_a_forked_child_does_not_give_the_lease_back(
    store: FlakyLeases, machine: StillMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = os.getpid()
    with hold(store, NAME, run_id="one", machine=machine) as lease:
        with monkeypatch.context() as child:
            # What a child sees that runs out of the block it was forked in.
            context = hold(store, "other", run_id="two", machine=machine)
            context.__enter__()
            child.setattr(os, "getpid", lambda: parent + 1)
            context.__exit__(None, None, None)
        assert {s.name: s.status for s in store.list()}["other"] is LeaseStatus.HELD
        lease.check()


def test_what_is_lost_while_it_is_handed_over_is_not_the_next_run_s(
    store: FlakyLeases, lease: Lease, monkeypatch: pytest.MonkeyPatch, losses: list[LeaseLost]
) -> None:
    renew, theirs = store.renew, []

    def lost_meanwhile(grant: Grant, **more: str) -> Grant:
        renewed = renew(grant, **more)
        lease.lose(LeaseLost(NAME, grant.token, "said the thread that renews"))
        return renewed

    monkeypatch.setattr(store, "renew", lost_meanwhile)
    with pytest.raises(LeaseLost, match="said the thread"):
        lease.hand_over("two", theirs.append)
    assert (len(losses), theirs) == (1, [])


@pytest.mark.parametrize(
    ("liveness", "run_id", "reported"),
    [
        (Liveness.GONE, "two", ["one"]),
        (Liveness.ALIVE, "two", []),  # frozen for longer than its lease lasts
        (Liveness.UNKNOWN, "two", []),  # on another machine
        (Liveness.GONE, "one", []),  # the run itself, in another process
    ],
)
def test_only_a_holder_whose_process_is_gone_is_reported(
    store: FlakyLeases,
    grant: Grant,
    machine: StillMachine,
    monkeypatch: pytest.MonkeyPatch,
    liveness: Liveness,
    run_id: str,
    reported: list[str],
) -> None:
    monkeypatch.setattr(machine, "liveness", lambda _process, *, one_machine: liveness)
    machine.passed_s = TTL_S
    gone: list[str] = []
    with (
        reporting_gone(lambda holder: gone.append(holder.run_id)),
        hold(store, NAME, run_id=run_id, machine=machine),
    ):
        assert gone == reported


def test_a_report_that_fails_is_no_matter_to_the_run(
    store: FlakyLeases,
    grant: Grant,
    machine: StillMachine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(machine, "liveness", lambda _process, *, one_machine: Liveness.GONE)

    def fail(_holder: object) -> None:
        raise RuntimeError("the API answers nonsense")

    with reporting_gone(fail), hold(store, NAME, run_id="two", machine=machine) as lease:
        lease.check()
    assert "was not reported" in caplog.text
