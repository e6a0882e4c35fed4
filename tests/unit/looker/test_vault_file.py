import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from support.vaults import dashboard, new_vault, store

from headrace.looker.vault import (
    Vault,
    VaultDamaged,
    VaultForeign,
    VaultMissing,
    VaultTooNew,
    VaultUnusable,
)
from headrace.looker.vault.file import MIGRATIONS, VaultFile


def test_it_appears_whole_and_for_the_user_alone(tmp_path: Path) -> None:
    with new_vault(tmp_path) as vault:
        store(vault, dashboard(1))
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in vault.path.parent.iterdir()}
    assert stat.S_IMODE(vault.path.parent.stat().st_mode) == 0o700
    assert set(modes.values()) == {0o600}, modes


def test_what_is_not_there_is_not_made_by_looking(tmp_path: Path) -> None:
    with pytest.raises(VaultMissing, match="headrace looker extract"):
        Vault.open(tmp_path / "a" / "looker.sqlite")
    assert list(tmp_path.iterdir()) == []


def _foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE accounts (id)")
        db.commit()


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"hello, this is no database " * 100),
        lambda path: path.write_bytes(b"x"),
        _foreign_database,
    ],
    ids=["empty", "text", "tiny", "another database"],
)
@pytest.mark.parametrize("create", [False, True])
def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path, make, create: bool) -> None:
    path = tmp_path / "looker.sqlite"
    make(path)
    before = path.read_bytes()
    with pytest.raises(VaultForeign, match="not a vault of Headrace"):
        Vault.open(path, create=create)
    assert path.read_bytes() == before


def test_a_folder_and_a_closed_folder_are_said(tmp_path: Path) -> None:
    with pytest.raises(VaultUnusable, match="not a file"):
        Vault.open(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(VaultUnusable, match="not a folder"):
        Vault.open(tmp_path / "file" / "looker.sqlite", create=True)


def _closed(tmp_path: Path) -> Path:
    with new_vault(tmp_path) as vault:
        store(vault, *(dashboard(n, "x" * 3000 + os.urandom(500).hex()) for n in range(200)))
        path = vault.path
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.mark.parametrize("where", ["middle", "header", "cut", "schema"])
def test_a_damaged_file_is_recognised_refused_and_left_alone(tmp_path: Path, where: str) -> None:
    path = _closed(tmp_path)
    whole = path.read_bytes()
    at = len(whole) // 2
    damaged = {
        "middle": whole[:at] + b"\xaa" * 32_768 + whole[at + 32_768 :],
        "header": b"\0" * 16 + whole[16:],
        "cut": whole[: at // 8192 * 8192 + 100],
        "schema": whole[:100] + b"\xaa" * 8092 + whole[8192:],
    }[where]
    path.write_bytes(damaged)
    with pytest.raises(VaultDamaged, match=r"damaged: .*snapshot fetch.*headrace looker extract"):
        Vault.open(path)
    assert path.read_bytes() == damaged


def test_damage_met_on_the_way_is_said_the_same_way(tmp_path: Path) -> None:
    path = _closed(tmp_path)
    with Vault.open(path) as vault:
        whole = path.read_bytes()
        path.write_bytes(whole[:8192] + b"\xaa" * (len(whole) - 8192))
        with pytest.raises(VaultDamaged, match="snapshot fetch"):
            list(vault.contents.rows())


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    path = _closed(tmp_path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(VaultTooNew, match=r"schema version 99.*Upgrade"):
        Vault.open(path)


def test_an_older_file_is_brought_up_to_date_once(tmp_path: Path) -> None:
    path = _closed(tmp_path)
    calls = []

    def add(db: sqlite3.Connection) -> None:
        calls.append(1)
        db.execute("CREATE TABLE later (x)")

    longer = (*MIGRATIONS, add)
    for _ in range(2):
        file = VaultFile(path, migrations=longer)
        with file.reading() as db:
            assert db.execute("SELECT COUNT(*) FROM later").fetchone() == (0,)
            assert db.execute("SELECT COUNT(*) FROM item").fetchone() == (200,)
        file.close()
    assert calls == [1]


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = _closed(tmp_path)

    def fail(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE half (x)")
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        VaultFile(path, migrations=(*MIGRATIONS, fail))
    with Vault.open(path) as vault, vault.file.reading() as db:
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchone() is None


def test_the_first_version_of_the_file_still_opens(tmp_path: Path) -> None:
    path = tmp_path / "looker.sqlite"
    VaultFile(path, create=True, migrations=MIGRATIONS[:1]).close()
    with Vault.open(path) as vault:
        store(vault, dashboard(1))
        with vault.file.reading() as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
    assert version == len(MIGRATIONS)


def test_what_is_committed_can_be_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the file and in the log beside it is on the disk then."""
    fsync, synced = os.fsync, set[str]()

    def sync(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    with new_vault(tmp_path) as vault:
        store(vault, dashboard(1))
        monkeypatch.setattr(os, "fsync", sync)
        vault.make_durable()
        assert synced == {str(vault.path), f"{vault.path}-wal"}


def test_a_copy_is_one_whole_file(tmp_path: Path) -> None:
    with new_vault(tmp_path) as vault:
        store(vault, dashboard(1))
        vault.file.copy_to(tmp_path / "copy.sqlite")
    with Vault.open(tmp_path / "copy.sqlite") as copy:
        assert copy.contents.body("dashboard", "1").body == dashboard(1).body


def test_threads_that_end_leave_nothing_open(tmp_path: Path) -> None:
    with new_vault(tmp_path) as vault:
        store(vault, dashboard(1))
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        for _ in range(30):
            reader = threading.Thread(target=vault.contents.counts)
            reader.start()
            reader.join()
        assert len(os.listdir("/proc/self/fd")) <= before + 2  # noqa: PTH208


def test_a_forked_child_opens_its_own(tmp_path: Path) -> None:
    with new_vault(tmp_path) as vault:
        store(vault, dashboard(1))
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                store(vault, dashboard(2))
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        store(vault, dashboard(3))
        assert [row.id for row in vault.contents.rows()] == ["1", "2", "3"]
