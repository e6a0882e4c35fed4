"""A lease that is taken before the run can begin, and what the run finds then."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.leases import (
    LeaseHeld,
    LeaseLost,
    LeaseStatus,
    LeaseStoreUnavailable,
    SqliteLeases,
    claim,
    hold,
)

NAME = "coinbase/BTC-USD"
ELSE = "coinbase/ETH-USD"


@pytest.fixture
def leases(tmp_path: Path) -> SqliteLeases:
    return SqliteLeases(tmp_path)


def token_of(leases: SqliteLeases) -> int:
    return leases.state(NAME).token


def test_the_run_gets_the_lease_that_was_claimed_and_is_named_from_then_on(
    leases: SqliteLeases,
) -> None:
    with claim(leases, NAME):
        with pytest.raises(LeaseHeld, match=r"run \(starting\)"):
            leases.acquire(NAME, run_id="another", ttl_s=60)
        claimed = token_of(leases)
        with hold(SqliteLeases(leases.path.parent), NAME, run_id="the-run") as lease:
            assert lease.token == claimed
            lease.check()
            with pytest.raises(LeaseHeld, match="run the-run"):
                leases.acquire(NAME, run_id="another", ttl_s=60)
        assert leases.state(NAME).status is LeaseStatus.FREE


def test_it_is_for_one_run_only_and_for_no_other_name(leases: SqliteLeases) -> None:
    with claim(leases, NAME):
        with hold(leases, ELSE, run_id="the-run") as other:
            assert other.name == ELSE
        with (
            hold(leases, NAME, run_id="the-run"),
            pytest.raises(LeaseHeld, match="run the-run"),
            hold(leases, NAME, run_id="the-next"),
        ):
            pass
        with hold(leases, NAME, run_id="the-next"):
            assert leases.state(NAME).status is LeaseStatus.HELD


def test_what_no_run_asked_for_is_given_back(leases: SqliteLeases) -> None:
    with claim(leases, NAME):
        pass
    assert leases.state(NAME).status is LeaseStatus.FREE
    with hold(leases, NAME, run_id="the-run") as lease:
        assert lease.token == token_of(leases)


def test_a_held_lease_cannot_be_claimed(leases: SqliteLeases) -> None:
    with (
        hold(leases, NAME, run_id="the-run") as lease,
        pytest.raises(LeaseHeld, match="run the-run"),
        claim(leases, NAME),
    ):
        pass
    assert lease.token == token_of(leases)


def test_a_claim_below_the_token_that_is_asked_for_makes_way_for_a_higher_one(
    leases: SqliteLeases,
) -> None:
    with claim(leases, NAME):
        above = token_of(leases) + 1_000_000
        with hold(leases, NAME, run_id="the-run", above=above) as lease:
            assert lease.token > above
            lease.check()


def test_a_claim_that_was_taken_away_is_asked_for_again(leases: SqliteLeases) -> None:
    losses: list[LeaseLost] = []
    with claim(leases, NAME):
        before = token_of(leases)
        leases.force_release(NAME)
        with hold(leases, NAME, run_id="the-run", on_lost=losses.append) as lease:
            assert lease.token > before
            lease.check()
    assert losses == []


def test_a_claim_that_another_process_took_over_is_held_by_it(leases: SqliteLeases) -> None:
    with claim(leases, NAME):
        leases.force_release(NAME)
        leases.acquire(NAME, run_id="another", ttl_s=60)
        with pytest.raises(LeaseHeld, match="run another"), hold(leases, NAME, run_id="the-run"):
            pass
    assert leases.state(NAME).status is LeaseStatus.HELD


def test_losing_it_after_that_is_reported_to_the_run(leases: SqliteLeases) -> None:
    losses: list[LeaseLost] = []
    with claim(leases, NAME), hold(leases, NAME, run_id="the-run", on_lost=losses.append) as lease:
        leases.force_release(NAME)
        with pytest.raises(LeaseLost):
            lease.check()
    assert [loss.token for loss in losses] == [lease.token]


def test_a_store_that_does_not_answer_leaves_nothing_behind(
    leases: SqliteLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise LeaseStoreUnavailable("here", "no route to host")

    with claim(leases, NAME):
        with monkeypatch.context() as trouble:
            trouble.setattr(SqliteLeases, "renew", refuse)
            with pytest.raises(LeaseStoreUnavailable), hold(leases, NAME, run_id="the-run"):
                pass
        assert leases.state(NAME).status is LeaseStatus.FREE


def test_a_forked_child_does_not_take_it_for_its_own(leases: SqliteLeases) -> None:
    with claim(leases, NAME):
        child = os.fork()
        if not child:
            code = 1
            try:
                with hold(leases, NAME, run_id="the-child"):
                    pass
            except LeaseHeld:
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        with hold(leases, NAME, run_id="the-run") as lease:
            lease.check()


def test_that_a_dead_holder_was_followed_is_said_when_the_run_begins(
    leases: SqliteLeases, caplog: pytest.LogCaptureFixture
) -> None:
    child = os.fork()
    if not child:
        try:
            leases.acquire(NAME, run_id="the-dead", ttl_s=60)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with caplog.at_level(logging.WARNING), claim(leases, NAME):
        assert not caplog.records
        with hold(leases, NAME, run_id="the-run"):
            assert "run the-dead" in caplog.text


def test_a_loss_that_the_renewal_noticed_first_is_not_the_run_s(leases: SqliteLeases) -> None:
    losses: list[LeaseLost] = []
    with claim(leases, NAME, ttl_s=0.3):
        leases.force_release(NAME)
        time.sleep(0.5)  # the renewal comes every third of the time to live
        with hold(leases, NAME, run_id="the-run", on_lost=losses.append) as lease:
            lease.check()
            assert not lease.lost
    assert losses == []


def test_renewals_go_on_under_the_name_of_the_run(leases: SqliteLeases) -> None:
    with claim(leases, NAME, ttl_s=0.6), hold(leases, NAME, run_id="the-run") as lease:
        first = leases.state(NAME).holder
        time.sleep(1.0)
        lease.check()
        holder = leases.state(NAME).holder
    assert holder.run_id == "the-run"
    assert holder.expires_boot_s > first.expires_boot_s


GIVES_BACK = """
import os, sys, threading, time
from headrace.leases import SqliteLeases, claim, give_back_claims, hold

class Slow(SqliteLeases):
    def acquire(self, name, **more):
        grant = super().acquire(name, **more)
        time.sleep(0.3)  # the store knows of it, the process does not yet
        return grant

def leave():
    time.sleep(0.15)
    give_back_claims()
    os._exit(0)

store = Slow(sys.argv[1])
with claim(store, "used"), hold(store, "used", run_id="the-run"), claim(store, "unused"):
    threading.Thread(target=leave).start()
    with claim(store, "on-its-way"):
        time.sleep(60)
"""


def test_a_process_that_leaves_gives_back_what_no_run_has(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", GIVES_BACK, str(tmp_path)], check=True, timeout=30)
    found = {state.name: state.status for state in SqliteLeases(tmp_path).list()}
    # What is used is for the run to give back, which was killed here.
    assert found == {
        "used": LeaseStatus.DEAD,
        "unused": LeaseStatus.FREE,
        "on-its-way": LeaseStatus.FREE,
    }
