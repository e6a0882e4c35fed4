import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.vaults import dashboard, new_vault, store

from headrace.errors import ConfigurationError
from headrace.lake.local import LocalStore
from headrace.looker.exceptions import (
    NoSuchSnapshot,
    SnapshotDamaged,
    SnapshotsUnusable,
    TargetTaken,
)
from headrace.looker.snapshots import (
    delete,
    fetch,
    find,
    find_outdated,
    list_snapshots,
    open_snapshots,
    prune,
    take,
)
from headrace.looker.vault import Vault

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def vault(tmp_path: Path):
    with new_vault(tmp_path) as opened:
        store(opened, *(dashboard(n, os.urandom(400).hex()) for n in range(100)))
        yield opened


@pytest.fixture
def place(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "snapshots")


def test_there_and_back_again(vault: Vault, place: LocalStore, tmp_path: Path) -> None:
    taken = take(vault, place, now=lambda: NOW, part_bytes=20_000)
    assert len(taken.parts) > 3
    assert taken.name.startswith("20260301T120000Z-")
    assert (taken.source, taken.session, taken.counts) == (vault.source, 1, {"dashboard": 100})
    assert list_snapshots(place) == [taken]
    assert find(place) == find(place, taken.name) == taken
    target = fetch(place, taken, tmp_path / "back" / "looker.sqlite")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with Vault.open(target) as back:
        assert list(back.contents.rows()) == list(vault.contents.rows())
        for row in back.contents.rows():
            body = back.contents.body(row.type, row.id).body
            assert body == vault.contents.body(row.type, row.id).body
    assert [p.name for p in target.parent.iterdir() if p.name.startswith(".")] == []
    leftovers = [p.name for p in vault.path.parent.iterdir() if "snapshot" in p.name]
    assert leftovers == []


def test_copies_of_killed_processes_go_after_a_day(vault: Vault, place: LocalStore) -> None:
    old, young = (vault.path.with_name(f".looker.sqlite.snapshot-{name}") for name in "ab")
    for path in (old, young):
        path.write_bytes(b"half a copy")
    os.utime(old, (1, 1))
    take(vault, place)
    assert (old.exists(), young.exists()) == (False, True)


def test_it_is_of_one_moment_and_others_go_on_writing(
    vault: Vault, place: LocalStore, tmp_path: Path
) -> None:
    taken = take(vault, place)
    store(vault, dashboard("later"))
    fetch(place, taken, tmp_path / "back.sqlite")
    with Vault.open(tmp_path / "back.sqlite") as back:
        assert back.contents.row("dashboard", "later") is None


def test_what_is_there_is_not_overwritten(vault: Vault, place: LocalStore, tmp_path: Path) -> None:
    taken = take(vault, place)
    with pytest.raises(TargetTaken, match="Move it"):
        fetch(place, taken, vault.path)
    (tmp_path / "x.sqlite-wal").write_bytes(b"a journal of another file")
    with pytest.raises(TargetTaken, match=r"x\.sqlite-wal"):
        fetch(place, taken, tmp_path / "x.sqlite")


@pytest.mark.parametrize("how", ["changed", "missing", "swapped", "manifest"])
def test_a_damaged_snapshot_never_becomes_a_vault(
    vault: Vault, place: LocalStore, tmp_path: Path, how: str
) -> None:
    taken = take(vault, place, part_bytes=20_000)
    first, second = (Path(place.place(part.key)) for part in taken.parts[:2])
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    if how == "changed":
        first.write_bytes(content)
    elif how == "missing":
        first.unlink()
    elif how == "swapped":
        first.write_bytes(second.read_bytes())
    else:
        manifest = next(Path(place.place("looker-snapshots")).glob("*.json"))
        manifest.write_bytes(manifest.read_bytes().replace(taken.sha256.encode(), b"0" * 64))
    with pytest.raises(SnapshotDamaged, match="snapshot list"):
        fetch(place, find(place), tmp_path / "back" / "looker.sqlite")
    assert list((tmp_path / "back").iterdir()) == []


def test_a_manifest_cannot_name_what_is_not_its_own(vault: Vault, place: LocalStore) -> None:
    taken = take(vault, place)
    manifest = Path(place.place(f"looker-snapshots/{taken.name}.json"))
    manifest.write_bytes(manifest.read_bytes().replace(b"parts/", b"../../"))
    with pytest.raises(SnapshotDamaged, match="not its own"):
        find(place)
    manifest.write_bytes(b"{")
    with pytest.raises(SnapshotDamaged, match="does not read"):
        list_snapshots(place)


def test_names_that_are_not_there_are_said(place: LocalStore) -> None:
    assert list_snapshots(place) == []
    with pytest.raises(NoSuchSnapshot, match="none at all"):
        find(place)
    with pytest.raises(NoSuchSnapshot):
        find(place, "../../etc/passwd")


def _name(days_ago: float, letters: str = "00000000") -> str:
    return f"{NOW - timedelta(days=days_ago):%Y%m%dT%H%M%SZ}-{letters}"


@pytest.mark.parametrize(
    ("keep_days", "keep", "gone"),
    [
        (None, 2, [30, 10, 5]),
        (None, 10, []),
        (7, None, [30, 10]),
        (0.5, None, [30, 10, 5, 1]),
        (0, None, [30, 10, 5, 1]),
        (7, 4, [30]),
        (7, 1, [30, 10]),
        (100, 1, []),
    ],
)
def test_what_a_retention_lets_go(
    keep_days: float | None, keep: int | None, gone: list[float]
) -> None:
    found = [_name(days) for days in (5, 30, 0.1, 10, 1)]
    going = find_outdated(found, keep_days=keep_days, keep=keep, now=NOW)
    assert going == [_name(days) for days in gone]


@pytest.mark.parametrize(("keep_days", "keep"), [(None, None), (None, 0), (-1, None)])
def test_a_retention_that_says_nothing_removes_nothing(
    keep_days: float | None, keep: int | None
) -> None:
    with pytest.raises(ConfigurationError):
        find_outdated([_name(5)], keep_days=keep_days, keep=keep, now=NOW)


def test_pruning_removes_whole_snapshots_and_what_killed_ones_left(
    vault: Vault, place: LocalStore
) -> None:
    taken = [
        take(vault, place, now=lambda days=days: NOW - timedelta(days=days), part_bytes=30_000)
        for days in (10, 5, 1)
    ]
    # One that was killed long ago, and one that is being taken at this moment.
    old, young = (f"looker-snapshots/parts/{_name(d, 'aaaaaaaa')}.00001.zst" for d in (3, 0))
    for key in (old, young):
        place.put(key, b"x")
    said = prune(place, keep=2, dry_run=True, now=lambda: NOW)
    assert said.removed == (taken[0].name,)
    assert len(list_snapshots(place)) == 3
    done = prune(place, keep=2, now=lambda: NOW)
    assert (done.removed, done.leftovers) == ((taken[0].name,), 1)
    assert done.kept == (taken[2].name, taken[1].name)
    assert not place.exists(old)
    assert place.exists(young)
    assert not any(place.exists(part.key) for part in taken[0].parts)
    assert all(place.exists(part.key) for part in taken[1].parts)
    delete(place, taken[1].name)
    assert [one.name for one in list_snapshots(place)] == [taken[2].name]


def test_a_place_that_cannot_work_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for location in (str(tmp_path / "file"), "ftp://x/y", "s3://UPPER/x", " "):
        with pytest.raises(SnapshotsUnusable, match="snapshots cannot be kept in"):
            open_snapshots(location, check=True)
