"""The journal: what was accepted is in exactly one place, whatever happens to its process."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.delivery.exceptions import JournalUnavailable
from headrace.delivery.journal import UNKNOWN_OUTCOME, Books, Journal, Recovered
from headrace.delivery.model import ApiRequest, Outcome

GET = ApiRequest("/a?x=1")
POST = ApiRequest("/b", "POST", b'{"n": 1}')


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "requests" / "orders.sqlite"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal(path) as opened:
        yield opened


def books(journal: Journal, **counts: int) -> None:
    zeros = dict.fromkeys(Books.__slots__, 0)
    found = journal.books()
    assert found == Books(**{**zeros, **counts})
    assert found.add_up


def test_each_request_is_in_one_place(journal: Journal) -> None:
    a, b, c, d = journal.accept([GET, POST, GET, GET])
    assert [each.id for each in (a, b, c, d)] == sorted({a.id, b.id, c.id, d.id})
    books(journal, accepted=4, queued=4)
    for pending in (a, b, c):
        assert journal.take(pending)
    journal.end(a, Outcome.SUCCESS)
    journal.end(b, Outcome.GRAVEYARD, unknown=True)
    journal.put_back(c)
    assert journal.take(c)
    journal.end(d, Outcome.EXPIRED)
    assert not journal.take(d), "it has ended"
    books(journal, accepted=4, succeeded=1, graveyard=1, taken=1, expired=1)


def test_the_first_outcome_counts(journal: Journal) -> None:
    a, b = journal.accept([GET, GET])
    journal.end(a, Outcome.SUCCESS)
    journal.end(a, Outcome.EXPIRED)
    journal.end(b, Outcome.GRAVEYARD)
    journal.end(b, Outcome.SUCCESS)
    journal.put_back(b)
    assert not journal.take(b)
    books(journal, accepted=2, succeeded=1, graveyard=1)


def test_what_a_dead_process_had_under_way_is_repeated_if_it_may_be(path: Path) -> None:
    with Journal(path) as first:
        pending = first.accept([GET, POST, GET, POST, GET])
        for each in pending[:2]:
            assert first.take(each)
        often = pending[4]
        often.tries = 4
        assert first.take(often)
        first.put_back(often)
        assert first.take(often)
    with Journal(path) as second:
        assert second.recover(most_tries=5) == Recovered(repeated=1, buried=2)
        books(second, accepted=5, queued=3, graveyard=2)
        assert {each.reason for each in second.graveyard()} == {UNKNOWN_OUTCOME}
        assert all(each.unknown for each in second.graveyard())
        kept = [each for batch in second.kept(batch=1) for each in batch]
        # Those that were tried go first.
        assert [(each.id, each.tries) for each in kept] == [
            (pending[0].id, 1),
            (pending[2].id, 0),
            (pending[3].id, 0),
        ]
        assert kept[2].request == ApiRequest("/b", "POST", b'{"n": 1}', idempotent=False)
        assert second.recover(most_tries=5) == Recovered()


@pytest.mark.parametrize(("later_s", "left_s"), [(4.0, 6.0), (100.0, -90.0), (-50.0, 10.0)])
def test_time_to_live_goes_on_between_runs(path: Path, later_s: float, left_s: float) -> None:
    with Journal(path, wall=lambda: 1000.0, clock=lambda: 5.0) as first:
        [pending] = first.accept([ApiRequest("/a", ttl_s=10.0)])
        assert pending.left_s(7.0) == 8.0
    with Journal(path, wall=lambda: 1000.0 + later_s, clock=lambda: 70.0) as second:
        [[kept]] = second.kept()
        assert kept.left_s(70.0) == pytest.approx(left_s)


def test_replay_and_purge(journal: Journal) -> None:
    pending = journal.accept([GET, POST, POST, GET])
    for each in pending:
        each.tries, each.reason = 5, "throttled (429)"
        journal.end(each, Outcome.GRAVEYARD, unknown=each is pending[1])
    found = journal.graveyard()
    assert [(each.id, each.tries, each.reason) for each in found] == [
        (each.id, 5, "throttled (429)") for each in pending
    ]
    assert journal.purge([pending[3].id]) == 1
    assert journal.replay([pending[1].id]) == 0, "its outcome is unknown, it may not be repeated"
    assert journal.replay() == 2
    books(journal, accepted=4, graveyard=1, queued=2, purged=1)
    kept = [each for batch in journal.kept() for each in batch]
    assert [(each.id, each.tries) for each in kept] == [(pending[0].id, 0), (pending[2].id, 0)]
    assert journal.replay(unknown=True) == 1
    assert journal.purge() == 0
    books(journal, accepted=4, queued=3, purged=1)


def test_a_file_is_gone_on_with_until_it_is_finished(path: Path) -> None:
    with Journal(path) as first:
        first.accept([GET, GET], source="in.jsonl", lines=7)
    with Journal(path) as second:
        assert second.lines_of("in.jsonl") == 7
        assert second.lines_of("another.jsonl") == 0
        second.finish_source("in.jsonl")
        assert second.lines_of("in.jsonl") == 0


def test_files_are_the_users_alone(journal: Journal, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_another_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.sqlite"
    with closing(sqlite3.connect(foreign)) as db:
        db.execute("CREATE TABLE other (x)")
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"no database at all, but long enough to be read as one" * 100)
    newer = tmp_path / "newer.sqlite"
    Journal(newer).close()
    with closing(sqlite3.connect(newer)) as db:
        db.execute("PRAGMA user_version = 99")
    for path, words in ((foreign, "another"), (damaged, "not a database"), (newer, "newer")):
        before = path.read_bytes()[100:]
        with pytest.raises(JournalUnavailable, match=words):
            Journal(path)
        # SQLite counts changes of the journal mode in its header.
        assert path.read_bytes()[100:] == before
    with pytest.raises(JournalUnavailable, match="there is none"):
        Journal(tmp_path / "absent.sqlite", create=False)
    assert not (tmp_path / "absent.sqlite").exists()


def test_nothing_is_accepted_that_cannot_be_written(path: Path) -> None:
    with Journal(path) as journal:
        journal.accept([GET])
        with closing(sqlite3.connect(path)) as db:
            db.execute("DROP TABLE request")
            db.commit()
        with pytest.raises(JournalUnavailable):
            journal.accept([GET])
        with pytest.raises(JournalUnavailable):
            journal.check()


def test_it_is_on_the_disk_before_the_caller_goes_on(path: Path) -> None:
    with Journal(path) as journal:
        [a] = journal.accept([GET])
        assert journal.take(a)
        pid = os.fork()
        if pid == 0:  # another process sees it, although this one closes nothing
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
                found = db.execute("SELECT id, state FROM request").fetchall()
            os._exit(0 if found == [(a.id, "taken")] else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert journal._db.execute("PRAGMA synchronous").fetchone() == (2,)
