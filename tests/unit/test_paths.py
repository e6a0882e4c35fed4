"""Paths as people write them."""

from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.lake import open_lake
from headrace.lake.exceptions import LakeUnusable
from headrace.leases import open_leases
from headrace.looker.turns import vault_lease
from headrace.paths import real_path, user_path
from headrace.settings import load_settings

NOBODY = "~nobody-of-that-name/x"


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
def test_a_home_that_nobody_has_is_said(use: object) -> None:
    with pytest.raises(ConfigurationError, match=r"nobody-of-that-name.*without ~"):
        use(NOBODY)  # type: ignore[operator]


def test_also_in_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", NOBODY)
    with pytest.raises(ConfigurationError, match="nobody-of-that-name"):
        load_settings()


def test_a_name_that_is_too_long_is_no_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeUnusable, match="too long"):
        open_lake(tmp_path / ("x" * 300))
