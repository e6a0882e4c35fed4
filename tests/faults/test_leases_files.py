"""Files of leases that are damaged, foreign, newer, open to others, or on a full disk."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headrace.errors import StateError
from headrace.leases import (
    DamagedLeases,
    LeaseLost,
    LeaseStoreUnavailable,
    NewerLeases,
    SqliteLeases,
)

NAME = "coinbase/BTC-USD"


@pytest.fixture
def store(tmp_path: Path) -> SqliteLeases:
    """A store in which enough was leased for its file to have many pages."""
    leases = SqliteLeases(tmp_path / "leases")
    for n in range(20):
        leases.acquire(f"n{n}", run_id="r" * 150, ttl_s=86_400)
    return leases


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def zeroed_tail(path: Path) -> None:
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2] + b"\0" * (size // 2))


def of_another_program(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE lease (name, token, stamp, holder)")


def without_its_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE lease")


def with_an_unreadable_holder(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE lease SET holder = '{\"pid\": 1}'")
        db.commit()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xa7garbage!" * 1100),
        half,
        zeroed_tail,
        of_another_program,
        without_its_table,
        with_an_unreadable_holder,
    ],
    ids=["empty", "garbage", "half", "zeroed", "foreign", "no-table", "holder"],
)
def test_damage_is_named_and_left_alone(
    store: SqliteLeases, damage: Callable[[Path], None]
) -> None:
    held = store.acquire(NAME, run_id="one", ttl_s=60)
    damage(store.path)
    before = store.path.read_bytes()
    with pytest.raises(DamagedLeases) as caught:
        store.acquire("n1", run_id="two", ttl_s=60)
    assert isinstance(caught.value, StateError)
    assert str(store.path) in str(caught.value)
    assert "move this file" in str(caught.value)
    for call in (store.renew, store.check):
        with pytest.raises(DamagedLeases):
            call(held)
    assert store.path.read_bytes() == before


def test_the_documented_remedy_keeps_the_token_rising(store: SqliteLeases) -> None:
    held = store.acquire(NAME, run_id="one", ttl_s=60)
    for path in store.path.parent.iterdir():
        path.rename(path.with_name(f"away-{path.name}"))
    assert store.acquire(NAME, run_id="two", ttl_s=60).token > held.token


def test_a_file_without_its_log_keeps_the_token_rising(store: SqliteLeases, tmp_path: Path) -> None:
    """What a copy of the main file alone has forgotten must not come back as an older token."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM lease").fetchone()
        held = store.acquire(NAME, run_id="one", ttl_s=60)
        copy = SqliteLeases(tmp_path / "copy")
        copy.path.parent.mkdir()
        shutil.copy(store.path, copy.path)
    assert NAME not in [state.name for state in copy.list()]
    with pytest.raises(LeaseLost, match="no longer knows of it"):
        copy.check(held)
    assert copy.acquire(NAME, run_id="two", ttl_s=60).token > held.token


def test_a_newer_file_is_refused(store: SqliteLeases) -> None:
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("PRAGMA user_version = 2")
    with pytest.raises(NewerLeases, match="schema version 2, this version knows 1"):
        store.acquire(NAME, run_id="one", ttl_s=60)


def test_state_is_the_users_alone(store: SqliteLeases) -> None:
    assert store.path.parent.stat().st_mode & 0o777 == 0o700
    assert store.path.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(store.path)) as reader:
        reader.execute("SELECT count(*) FROM lease").fetchone()
        files = list(store.path.parent.iterdir())
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        assert {path.name for path in files} >= {"leases.sqlite", "leases.sqlite-wal"}


def test_looking_makes_no_file(tmp_path: Path) -> None:
    store = SqliteLeases(tmp_path / "leases")
    assert store.list() == ()
    assert store.force_release(NAME) is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = SqliteLeases(tmp_path / "file" / "leases")
    with pytest.raises(LeaseStoreUnavailable, match=f"{tmp_path}.* point HEADRACE_HOME"):
        store.acquire(NAME, run_id="one", ttl_s=60)


FULL_DISK = """
import resource, sys
from pathlib import Path
from headrace.leases import LeaseStoreUnavailable, SqliteLeases
store = SqliteLeases(Path(sys.argv[1]))
if sys.argv[2] == "old":
    store.release(store.acquire("old", run_id="r", ttl_s=60))
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, resource.RLIM_INFINITY))
try:
    store.acquire("new", run_id="r", ttl_s=60)
except LeaseStoreUnavailable as error:
    assert str(store.path) in str(error), error
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.acquire("new", run_id="r", ttl_s=60)
    print("refused, then fine")
"""


@pytest.mark.parametrize("file", ["old", "none"])
def test_a_full_disk_is_named_and_spoils_nothing(tmp_path: Path, file: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), file],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("refused, then fine\n", "")
    assert not list(tmp_path.glob(".*"))
