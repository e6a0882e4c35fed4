"""Paths as people write them."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.lake import open_lake
from headrace.lake.exceptions import LakeUnusable
from headrace.leases import hold, open_leases
from headrace.looker.extract.request import vault_lease
from headrace.looker.vault import Vault
from headrace.paths import publish_new, real_path, user_path
from headrace.settings import load_settings
from headrace.sot.opening import open_store

UNKNOWN_HOME = "~no-such-user/x"


def test_the_home_folder_may_be_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_path("~/lake") == tmp_path / "lake"
    assert user_path("lake") == Path("lake")


def test_one_place_has_one_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    spellings = ("lake", "./x/../lake", "link", tmp_path / "lake")
    assert {real_path(each) for each in spellings} == {tmp_path.resolve() / "lake"}


def test_a_loop_of_links_is_no_traceback(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert real_path(loop).name == "loop"
    assert vault_lease(loop)


@pytest.mark.parametrize("use", [user_path, real_path, open_lake, open_leases, vault_lease])
def test_the_home_of_an_unknown_user_is_an_error(use: object) -> None:
    with pytest.raises(ConfigurationError, match=r"no-such-user.*without ~"):
        use(UNKNOWN_HOME)  # type: ignore[operator]


def test_also_in_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", UNKNOWN_HOME)
    with pytest.raises(ConfigurationError, match="no-such-user"):
        load_settings()


def test_a_name_that_is_too_long_is_no_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeUnusable, match="too long"):
        open_lake(tmp_path / ("x" * 300))


@pytest.fixture
def no_hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system such as FAT."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("no_hard_links")
def test_a_file_gets_its_name_once_without_hard_links(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"draft{number}").write_text(str(number))
    assert publish_new(tmp_path / "draft1", tmp_path / "file")
    assert not publish_new(tmp_path / "draft2", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "1"


@pytest.mark.usefixtures("no_hard_links")
def test_all_state_can_be_made_without_hard_links(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    assert lake.store.put_if_absent("a", b"1")
    assert not lake.store.put_if_absent("a", b"2")
    with hold(open_leases(tmp_path / "leases"), "a/b", run_id="run") as lease:
        assert lease.token > 0
    with Vault.open(tmp_path / "vault.sqlite", create=True):
        pass
    Vault.open(tmp_path / "vault.sqlite").close()
    open_store(tmp_path / "log").close()
    store = open_store(tmp_path / "log", create=False)
    assert store.symbols() == []
    store.close()


def test_a_file_system_without_file_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(LakeUnusable, match="has no file locks"):
        open_lake(tmp_path / "lake")
