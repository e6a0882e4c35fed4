from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.vaults import dashboard, store

from headrace.looker.diff import ChangeKind, differences
from headrace.looker.vault import Vault
from headrace.looker.vault.contents import CleanupReport

START = datetime(2026, 1, 1, tzinfo=UTC)


class Days:
    """A clock that is set by the day."""

    def __init__(self) -> None:
        self.day = 0.0

    def __call__(self) -> datetime:
        return START + timedelta(days=self.day)


@pytest.fixture
def days() -> Days:
    return Days()


@pytest.fixture
def vault(tmp_path: Path, days: Days):
    """Item 1 changed on days 10 and 20; item 2 never; item 3 changed on day 10, gone on day 20."""
    with Vault.open(tmp_path / "v.sqlite", create=True, now=days) as opened:
        store(opened, dashboard(1, "a"), dashboard(2), dashboard(3, "a"))
        days.day = 10
        store(opened, dashboard(1, "b"), dashboard(2), dashboard(3, "b"))
        days.day = 20
        session = store(opened, dashboard(1, "c"), dashboard(2))
        opened.listings.delete(session, "dashboard", "3", evidence="404")
        yield opened


def _versions(vault: Vault) -> dict[str, list[int]]:
    rows = vault.contents.rows(deleted=True)
    return {r.id: [v.version for v in vault.contents.history(r.type, r.id)] for r in rows}


@pytest.mark.parametrize(
    ("today", "options", "left"),
    [
        (20, {"keep_days": 5}, {"1": [2, 3], "2": [1], "3": [2]}),
        (20, {"keep_days": 15}, {"1": [1, 2, 3], "2": [1], "3": [1, 2]}),
        (40, {"keep_days": 0}, {"1": [3], "2": [1], "3": [2]}),
        (40, {"keep_days": 0, "keep_versions": 2}, {"1": [2, 3], "2": [1], "3": [1, 2]}),
        (40, {"keep_days": 15, "gone": True}, {"1": [3], "2": [1]}),
        (30, {"keep_days": 15, "gone": True}, {"1": [2, 3], "2": [1], "3": [2]}),
    ],
)
def test_what_stays(vault: Vault, days: Days, today: int, options: dict, left: dict) -> None:
    days.day = today
    before = _versions(vault)
    said = vault.remove_old_versions(**options, dry_run=True)
    assert _versions(vault) == before
    done = vault.remove_old_versions(**options)
    assert done == said
    assert _versions(vault) == left
    assert done.versions == sum(map(len, before.values())) - sum(map(len, left.values()))
    assert done.items == len(before) - len(left)
    assert vault.remove_old_versions(**options) == CleanupReport(0, 0, 0)
    # Life goes on: numbers rise, and the item is known.
    store(vault, dashboard(1, "d"))
    assert vault.contents.body("dashboard", "1").version == 4


def test_what_is_no_longer_kept_is_still_a_change(vault: Vault, days: Days) -> None:
    days.day = 40
    vault.remove_old_versions(keep_days=0)
    (one, three) = differences(vault, 1, 3)
    assert (one.id, one.what, one.changes) == ("1", ChangeKind.CHANGED, ())
    assert (three.id, three.what) == ("3", ChangeKind.DELETED)


@pytest.mark.parametrize("options", [{"keep_days": -1}, {"keep_days": 0, "keep_versions": 0}])
def test_the_present_cannot_be_let_go(vault: Vault, options: dict) -> None:
    with pytest.raises(ValueError, match="current version"):
        vault.remove_old_versions(**options)
