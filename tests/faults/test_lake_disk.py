"""A local disk in trouble: full, read-only, in the way, or on another file system."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.lake import RawLake, open_lake
from headrace.lake.exceptions import (
    LakeUnusable,
    ObjectMissing,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnusable,
)
from headrace.lake.local import LocalStore
from tests.lake_samples import FETCHED_AT, SOURCE, trades
from tests.lake_writer import PRODUCT, fill, open_raw
from tests.support.disks import enlarge, small_disk

__all__ = ["small_disk"]

WRITER = Path(__file__).parents[1] / "lake_writer.py"


def readable_rows(raw: RawLake) -> int:
    for part in raw.parts(PRODUCT).parts:
        raw.verify(part)
    return raw.read(PRODUCT).num_rows


def test_a_disk_that_fills_up_and_is_enlarged(small_disk: Path) -> None:
    raw = open_raw(str(small_disk))

    with pytest.raises(StoreFull) as caught:
        fill(raw, 200_000)
    stored = readable_rows(raw)

    assert str(small_disk) in str(caught.value)
    assert "space" in str(caught.value)
    assert 0 < stored < 200_000
    assert [p.name for p in small_disk.rglob("*.tmp")] == []
    enlarge(small_disk)
    rest = stored // 2_000 * 2_000 + 10_000
    fill(raw, rest)
    assert raw.read(PRODUCT).equals(trades(range(1, rest + 1)))


def test_a_disk_without_room_is_found_before_any_work(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "filler").write_bytes(bytes(1_024 * 1_024))

    with pytest.raises(LakeUnusable, match="No space left"):
        open_lake(small_disk / "deep" / "lake")


def test_a_file_size_limit_is_a_full_disk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(WRITER), str(tmp_path), "4000"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("StoreFull: ")
    assert f"{tmp_path}/raw/trades/exchange=coinbase/product=BTC-USD/part-" in done.stderr
    raw = open_raw(str(tmp_path))
    assert readable_rows(raw) == 0
    fill(raw, 4_000)
    assert raw.read(PRODUCT).equals(trades(range(1, 4_001)))


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")

    for location in (file, file / "below" / "it"):
        with pytest.raises(LakeUnusable) as caught:
            open_lake(location)
        assert str(file) in str(caught.value)
    assert file.read_text() == "mine"


def test_a_folder_under_a_parts_name(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "a" / "part").mkdir(parents=True)

    with pytest.raises(StoreUnusable, match="a/part"):
        store.put("a/part", b"x")
    with pytest.raises(StoreUnusable):
        store.get("a/part")
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["part"]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EFBIG, StoreFull),
        (errno.EROFS, StoreDenied),
        (errno.EACCES, StoreDenied),
        (errno.EPERM, StoreDenied),
        (errno.ENOTDIR, StoreUnusable),
        (errno.EIO, StoreError),
    ],
)
@pytest.mark.parametrize("call", ["open", "write", "fsync"])
def test_what_the_system_refuses_is_named_with_its_path(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    expected: type[StoreError],
) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "a").mkdir()

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(expected) as caught:
        store.put_if_absent("a/part", b"content")
    monkeypatch.undo()

    assert type(caught.value) is expected
    assert str(tmp_path / "a" / "part") in str(caught.value)
    assert os.strerror(number) in str(caught.value)
    assert list((tmp_path / "a").iterdir()) == []


def test_a_read_only_folder(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(0o500)

    with pytest.raises(LakeUnusable, match="Permission denied"):
        open_lake(tmp_path / "lake")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What is synced to disk, in order; there is no temporary folder of the system."""
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    seen: list[Path] = []
    original = os.fsync

    def watch(descriptor: int) -> None:
        seen.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        original(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    return seen


def temporary_folders(synced: list[Path]) -> list[Path]:
    return [path.parent for path in synced if path.name.endswith(".tmp")]


def test_temporary_files_stand_beside_their_target(tmp_path: Path, synced: list[Path]) -> None:
    LocalStore(tmp_path).put("a/part", b"content")

    assert temporary_folders(synced) == [tmp_path / "a"]
    assert synced[-1] == tmp_path / "a", "the folder is synced after the rename"


@pytest.mark.parametrize("write", [LocalStore.put, LocalStore.put_if_absent])
def test_temporary_files_of_parts_stand_apart_from_the_parts(
    tmp_path: Path, synced: list[Path], write: Callable[[LocalStore, str, bytes], object]
) -> None:
    write(LocalStore(tmp_path), "raw/trades/a/part", b"content")

    assert temporary_folders(synced) == [tmp_path / "_headrace/tmp"]
    assert synced[-1] == tmp_path / "raw/trades/a", "the folder is synced after the rename"
    assert (tmp_path / "raw/trades/a/part").read_bytes() == b"content"
    assert list((tmp_path / "_headrace/tmp").iterdir()) == []


def test_a_product_whose_folder_is_on_another_file_system(
    tmp_path: Path, small_disk: Path, synced: list[Path]
) -> None:
    (tmp_path / "raw/trades").mkdir(parents=True)
    (tmp_path / "raw/trades/a").symlink_to(small_disk)

    LocalStore(tmp_path).put_if_absent("raw/trades/a/part", b"content")

    assert (small_disk / "part").read_bytes() == b"content"
    assert temporary_folders(synced) == [tmp_path / "_headrace/tmp", small_disk]
    assert [*small_disk.iterdir()] == [small_disk / "part"]
    assert list((tmp_path / "_headrace/tmp").iterdir()) == []


def test_a_sweep_spares_what_a_living_writer_is_writing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/part", b"content")
    abandoned = tmp_path / "a" / ".part.0123456789abcdef.tmp"
    living = tmp_path / "a" / ".part.fedcba9876543210.tmp"
    abandoned.write_bytes(b"half")
    with living.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        assert store.sweep("a/") == ["a/.part.0123456789abcdef.tmp"]
        assert [entry.key for entry in store.entries("a/")] == ["a/part"]
        assert living.exists()

    assert store.sweep("a/") == ["a/.part.fedcba9876543210.tmp"]


def test_a_temporary_file_swept_before_its_lock_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    original = fcntl.flock
    swept: list[str] = []

    def late(descriptor: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX and not swept:
            swept.append("one")
            for path in (tmp_path / "a").glob(".*.tmp"):
                path.unlink()
        original(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)

    assert store.put_if_absent("a/part", b"content") is True
    store.put("a/other", b"content")
    assert store.get("a/part") == b"content"
    assert swept


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    store = LocalStore(tmp_path)

    assert store.put_if_absent("a/part", b"first") is True
    assert store.put_if_absent("a/part", b"second") is False
    assert store.get("a/part") == b"first"
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["part"]


def test_a_folder_that_is_gone_is_no_lake_of_ours_to_invent(tmp_path: Path) -> None:
    raw = open_lake(tmp_path / "lake").raw("coinbase")
    receipt = raw.write(PRODUCT, 1, 5, trades([1, 2]), source=SOURCE, fetched_at=FETCHED_AT)
    Path(raw.store.place(receipt.part.key)).unlink()

    with pytest.raises(ObjectMissing, match="part-000000000001"):
        raw.read_part(receipt.part)
    assert raw.read(PRODUCT).num_rows == 0
