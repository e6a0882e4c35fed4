"""A commit that fails (full disk, locked file): what a process remembers is what the file holds.

What was to be written is written by the next transaction, or the caller knows that it was not.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.leases import LeaseStoreUnavailable, SqliteLeases, hold
from headrace.looker.vault import VaultUnusable
from headrace.quota import (
    BreakerConfig,
    Gate,
    Lane,
    Phase,
    QuotaConfig,
    QuotaUnavailable,
    open_gate,
)
from headrace.quota.bookings import SlotBook
from headrace.quota.clock import MS, NS, MonotonicClock
from headrace.quota.slot import Slot
from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.exceptions import StoreUnavailable
from headrace.sot.store import Parked
from headrace.sot.unsharded_log import OldLog
from tests.support.disks import FailingCommits, commits
from tests.support.sot_chains import Chain
from tests.support.vaults import dashboard, new_vault

__all__ = ["commits"]


class StillClock(MonotonicClock):
    """A clock that the test moves."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 1000 * NS
        self.now = lambda: self.at


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def book(tmp_path: Path, commits: FailingCommits, clock: StillClock) -> Iterator[SlotBook]:
    config = QuotaConfig(name="q", rates="1/s", burst=99)
    opened = SlotBook(tmp_path / "quota.sqlite", config, clock)
    yield opened
    commits.full = False
    opened.close()


def booked(book: SlotBook, waiting: tuple[int, int, int] = (0, 0, 0)) -> Slot:
    slot = book.book(Lane.BACKFILL, waiting=waiting)
    assert isinstance(slot, Slot)
    return slot


def refused(book: SlotBook, commits: FailingCommits) -> None:
    commits.full = True
    with pytest.raises(QuotaUnavailable, match="full"):
        booked(book)
    commits.full = False


# -- quota --------------------------------------------------------------------------------------


def test_when_a_permit_left_is_not_forgotten(
    book: SlotBook, commits: FailingCommits, clock: StillClock
) -> None:
    counted_late = clock.at + 150 * MS  # as an answer may show: later than the permit's own guard
    book.settle(booked(book), counted_late)
    refused(book, commits)
    assert booked(book).at == counted_late + NS + 2 * MS


def test_what_was_given_back_is_free_in_the_end(
    book: SlotBook, commits: FailingCommits, clock: StillClock
) -> None:
    book.settle(booked(book), 0)
    refused(book, commits)
    assert booked(book).at == clock.at


@pytest.mark.parametrize("call", ["flush", "status", "moments"])
def test_no_other_transaction_forgets_it_either(
    book: SlotBook, commits: FailingCommits, clock: StillClock, call: str
) -> None:
    book.settle(booked(book), 0)
    commits.full = True
    with pytest.raises(QuotaUnavailable):
        getattr(book, call)()
    commits.full = False
    assert booked(book).at == clock.at


def test_a_permit_that_was_not_given_is_not_counted(
    book: SlotBook, commits: FailingCommits, clock: StillClock
) -> None:
    booked(book)
    for _ in range(3):
        clock.at += NS  # so that each one is to be noted
        refused(book, commits)
    clock.at += NS
    booked(book)
    assert book.status().processes[0].grants == 2


def test_a_waiting_count_of_zero_is_noted_by_the_next_one(
    book: SlotBook, commits: FailingCommits, clock: StillClock
) -> None:
    booked(book, waiting=(0, 0, 5))
    refused(book, commits)
    booked(book)
    assert book.status().processes[0].waiting[Lane.BACKFILL] == 0


def answer(gate: Gate, status: int) -> None:
    with gate.admit(timeout_s=5) as admission:
        admission.answered(status)


def test_the_breaker_counts_what_was_committed(tmp_path: Path, commits: FailingCommits) -> None:
    heard: list[Phase] = []
    breaker = BreakerConfig(failures=2)
    with open_gate(tmp_path, QuotaConfig(name="q", rates="none"), breaker) as gate:
        gate.on_breaker_change(lambda change: heard.append(change.after))
        answer(gate, 500)
        commits.full = True
        with pytest.raises(QuotaUnavailable):
            answer(gate, 500)
        commits.full = False
        assert (gate.status().breaker.phase, heard) == (Phase.CLOSED, [])
        answer(gate, 500)
        assert (gate.status().breaker.phase, heard) == (Phase.OPEN, [Phase.OPEN])


# -- leases -------------------------------------------------------------------------------------


def test_a_lease_that_was_not_committed_has_no_holder(
    tmp_path: Path, commits: FailingCommits
) -> None:
    leases = SqliteLeases(tmp_path)
    with hold(leases, "a/B", run_id="before") as first:
        pass
    commits.full = True
    with pytest.raises(LeaseStoreUnavailable), hold(leases, "a/B", run_id="full"):
        pass
    commits.full = False
    with hold(leases, "a/B", run_id="after") as lease:
        commits.full = True
        with pytest.raises(LeaseStoreUnavailable):
            lease.hand_over("other", None)
        commits.full = False
        assert leases.state("a/B").holder == lease.grant.holder
        assert lease.token > first.token


# -- vault --------------------------------------------------------------------------------------


def test_a_batch_that_was_not_committed_is_not_in_the_vault(
    tmp_path: Path, commits: FailingCommits
) -> None:
    vault = new_vault(tmp_path)
    session = vault.sessions.begin("extract")
    commits.full = True
    with pytest.raises(VaultUnusable, match="full"):
        vault.upsert_many(session, [dashboard(1)], todo={"dashboard": ["2"]})
    commits.full = False
    assert vault.progress.todo(session, "dashboard") == []
    assert vault.upsert_many(session, [dashboard(1)]).new == 1
    vault.close()


# -- log ----------------------------------------------------------------------------------------


def test_the_log_knows_no_symbol_whose_append_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EmbeddedStore(tmp_path / "sot", volumes=1)
    chain = Chain.claimed(store, 1)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", full)
        with pytest.raises(StoreUnavailable, match="No space"):
            store.claim(2, first_seq=1)
        with pytest.raises(StoreUnavailable, match="No space"):
            store.park([Parked(3, 5, b"body", "gap")])
        with pytest.raises(StoreUnavailable, match="No space"):
            store.commit([chain.batch(3)])
    assert store.symbols() == [1]
    assert store.claim(2, first_seq=7).epoch == 1
    assert store.symbols() == [1, 2]
    store.close()


def test_what_was_never_parked_makes_no_symbol(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "sot", volumes=1)
    store.unpark([Parked(4, 5, b"body", "gap")])
    assert store.symbols() == []
    store.close()


@pytest.mark.parametrize("statement", ["INSERT", "COMMIT"])
def test_the_old_log_says_why_it_was_not_written(
    tmp_path: Path, commits: FailingCommits, statement: str
) -> None:
    old = OldLog(tmp_path / "old.sqlite", create=True)
    commits.statement, commits.full = statement, True
    with pytest.raises(StoreUnavailable, match="disk is full"):
        old.step("begin")
    commits.full = False
    assert old.step("begin") == "dual"
