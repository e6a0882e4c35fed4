"""The embedded store's files: torn ends are cut, damage is found and named, good prefixes stay."""

from __future__ import annotations

import errno
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.sot_chains import Chain
from support.sot_streams import frames_of, made, run_of, write, written

from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.exceptions import DamagedLog, NewerLog, StoreMisconfigured, StoreUnavailable
from headrace.sot.recover import RecoverOptions, recover
from headrace.sot.store import Parked
from headrace.sot.verify import VerifyReport, verify_store

RECORDS = made(120, symbols=2, size_bytes=120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two symbols, six blocks each, something parked, something verified."""
    folder = tmp_path / "sot"
    store = EmbeddedStore(folder)
    write(store, RECORDS, per_chunk=20, linger_s=0, batch_records=10)
    store.park([Parked(1, 99, RECORDS[0].body, "gap")])
    verify_store(store, processes=0)
    store.close()
    return folder


def inspected(folder: Path) -> VerifyReport:
    store = EmbeddedStore(folder, create=False)
    try:
        for symbol_id in store.symbols():
            list(store.parked(symbol_id))
        return verify_store(store, processes=0, mark=False)
    finally:
        store.close()


def found(folder: Path) -> list[str]:
    """What is wrong, in words; and nothing that is wrong is handed out as good."""
    try:
        report = inspected(folder)
        said = [*report.damages, *(s.damage for s in report.symbols if s.damage)]
        store = EmbeddedStore(folder, create=False)
    except (DamagedLog, NewerLog, StoreMisconfigured) as error:
        return [error.message]
    for symbol_id in (1, 2):
        good = b""
        try:
            for block in store.scan(symbol_id):
                good += block.frames
        except DamagedLog as error:
            said.append(error.message)
        assert run_of(RECORDS, symbol_id).startswith(good)
    store.close()
    return said


def test_a_sound_store_is_found_sound(folder: Path) -> None:
    assert found(folder) == []


@pytest.mark.parametrize("name", ["store.json", "volume-0001.sot", "volume-0001.tip"])
def test_any_flipped_bit_is_found(folder: Path, name: str) -> None:
    path = folder / name
    sound = path.read_bytes()
    rng = random.Random(name)
    places = range(len(sound)) if len(sound) < 300 else sorted(rng.sample(range(len(sound)), 300))
    for at in places:
        corrupt = bytearray(sound)
        corrupt[at] ^= 1 << rng.randrange(8)
        path.write_bytes(corrupt)
        assert found(folder), f"byte {at} of {name} was flipped and nothing was found"
    path.write_bytes(sound)
    assert found(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["store.json", "volume-0001.sot", "volume-0001.tip"])
def test_every_single_byte_of_the_store_counts(folder: Path, name: str) -> None:
    path = folder / name
    sound = path.read_bytes()
    for at in range(len(sound)):
        corrupt = bytearray(sound)
        corrupt[at] ^= 0xFF
        path.write_bytes(corrupt)
        assert found(folder), f"byte {at} of {name} was changed and nothing was found"


def spans(folder: Path, symbol_id: int) -> list[tuple[int, int, int]]:
    """Offset, first and last seq of each block."""
    store = EmbeddedStore(folder, create=False)
    blocks = [
        (int(block.where.rpartition(" ")[2]), block.first_seq, block.first_seq + block.count - 1)
        for block in store.scan(symbol_id)
    ]
    store.close()
    return blocks


@pytest.mark.parametrize("part", ["header", "payload", "trailer"])
@pytest.mark.parametrize("which", [0, 2, -1])
def test_damage_is_named_and_the_prefix_is_good(folder: Path, which: int, part: str) -> None:
    blocks = spans(folder, 1)
    offset, first, last = blocks[which]
    path = folder / "volume-0001.sot"
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[offset + 80 : offset + 84], "little")
    at = {"header": offset + 20, "payload": offset + 130, "trailer": offset + 112 + size + 20}[part]
    content[at] ^= 1
    path.write_bytes(content)
    report = inspected(folder)
    (one,) = [symbol for symbol in report.symbols if symbol.symbol_id == 1]
    assert one.damage is not None
    assert f"symbol 1, seq {first}" in one.damage
    assert str(path) in one.damage
    assert one.good_until == first
    assert one.records >= first - 1
    assert report.symbols[1].damage is None
    store = EmbeddedStore(folder, create=False)
    good = b""
    with pytest.raises(DamagedLog) as raised:  # noqa: PT012 - the loop is what raises
        for block in store.scan(1):
            good += block.frames
    assert (raised.value.symbol_id, raised.value.seq, raised.value.last_seq) == (1, first, last)
    assert good == run_of([r for r in RECORDS if r.seq < first], 1)
    assert frames_of(store, 2) == run_of(RECORDS, 2)
    store.close()


def test_other_symbols_are_written_on_beside_damage(folder: Path) -> None:
    offset, first, _ = spans(folder, 1)[1]
    path = folder / "volume-0001.sot"
    content = bytearray(path.read_bytes())
    content[offset + 20] ^= 1
    path.write_bytes(content)
    more = made(140, symbols=2, size_bytes=120)
    before = path.read_bytes()
    report = written(folder, more)
    assert report.counts["damage"] >= 1
    assert f"symbol 1, seq {first}" in report.problems[0].message
    assert report.heads[2].next_seq == 71
    assert path.read_bytes() == before


def cut(folder: Path, remove: int) -> None:
    path = folder / "volume-0001.sot"
    path.write_bytes(path.read_bytes()[:-remove])


@pytest.mark.parametrize("remove", [1, 60, 112, 113, 400, 3000])
def test_acknowledged_records_that_were_cut_off_are_missed(folder: Path, remove: int) -> None:
    path = folder / "volume-0001.sot"
    size = path.stat().st_size
    cut(folder, remove)
    before = path.read_bytes()
    said = found(folder)
    gone = re.search(r"at byte (\d+): its last (\d+) bytes, .* acknowledged, are gone", said[0])
    assert gone is not None, said
    end, lost = map(int, gone.groups())
    assert end + lost == size
    assert end <= size - remove
    with pytest.raises(DamagedLog, match="are gone"):
        EmbeddedStore(folder).claim(1, first_seq=1)
    assert path.read_bytes() == before


@pytest.mark.parametrize("volume", ["shortened", "gone"])
def test_a_volume_whose_tip_cannot_be_read_stays_closed(folder: Path, volume: str) -> None:
    """Its tip alone knows that acknowledged records are gone; an append would take their place."""
    path, tip = folder / "volume-0001.sot", folder / "volume-0001.tip"
    kept = tip.read_bytes()
    tip.unlink()
    tip.symlink_to(tip.name)
    cut(folder, 3000)
    if volume == "gone":
        path.unlink()
    before = path.read_bytes() if path.exists() else None
    store = EmbeddedStore(folder)
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match=r"volume-0001\.tip.*symbolic links"):
            store.claim(1, first_seq=1)
        with pytest.raises(StoreUnavailable, match=r"volume-0001\.tip.*symbolic links"):
            store.head(1)
    assert (path.read_bytes() if path.exists() else None) == before
    tip.unlink()
    tip.write_bytes(kept)
    with pytest.raises(DamagedLog, match="are gone"):
        store.claim(1, first_seq=1)
    store.close()


def _failing_at(monkeypatch: pytest.MonkeyPatch, call: int, error: BaseException) -> list[int]:
    """Let the n-th `os.pread` from now fail; the list grows by one with each call."""
    pread, calls = os.pread, list[int]()

    def read(descriptor: int, size_bytes: int, offset: int) -> bytes:
        calls.append(offset)
        if len(calls) == call:
            raise error
        return pread(descriptor, size_bytes, offset)

    monkeypatch.setattr(os, "pread", read)
    return calls


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (OSError(errno.EIO, "Input/output error"), StoreUnavailable),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_first_look_that_breaks_off_anywhere_begins_from_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, seen: type[BaseException]
) -> None:
    """What it had taken in would otherwise stand without the check of the volume's end."""
    offset, _, _ = spans(folder, 1)[-1]
    cut(folder, (folder / "volume-0001.sot").stat().st_size - offset)
    with monkeypatch.context() as patched:
        calls = _failing_at(patched, 0, error)
        with pytest.raises(DamagedLog, match="are gone"):
            EmbeddedStore(folder).claim(1, first_seq=1)
    assert len(calls) > 10
    for call in range(1, len(calls) + 1):
        store = EmbeddedStore(folder)
        with monkeypatch.context() as patched:
            _failing_at(patched, call, error)
            with pytest.raises(seen):
                store.claim(1, first_seq=1)
        with pytest.raises(DamagedLog, match="are gone"):
            store.claim(1, first_seq=1)
        store.close()


def test_a_folder_that_cannot_be_listed_is_no_empty_store(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EmbeddedStore(folder, create=False)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)
    monkeypatch.setattr(os, "scandir", refuse)
    for call in (store.symbols, store.damages, lambda: EmbeddedStore(folder, create=False)):
        with pytest.raises(StoreUnavailable, match=f"{folder}.*Permission denied"):
            call()


def test_a_block_that_the_disk_does_not_give_is_no_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EmbeddedStore(folder)
    blocks = store.scan(1)
    _failing_at(monkeypatch, 1, OSError(errno.EIO, "Input/output error"))
    with pytest.raises(StoreUnavailable, match=r"reading in .*0001\.sot failed: Input/output"):
        next(blocks)
    assert frames_of(store, 1) == run_of(RECORDS, 1)
    store.close()


def test_a_tip_is_durable_in_its_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def sync(descriptor: int) -> None:
        fsync(descriptor)
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")

    def rename(path: Path, target: Path) -> Path:
        steps.append(f"rename to {target.name}")
        return replace(path, target)

    store = EmbeddedStore(folder)
    store.claim(1, first_seq=1)
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", rename)
    store.close()
    written, *after = steps
    assert written.startswith("sync .volume-0001.tip.")
    assert after == ["rename to volume-0001.tip", f"sync {folder.name}"]


def test_a_tip_never_goes_back_behind_that_of_another_writer(folder: Path) -> None:
    first, second = EmbeddedStore(folder), EmbeddedStore(folder)
    first.claim(1, first_seq=1)
    Chain.at(second.claim(1, first_seq=1)).write(second, 5)
    second.close()
    first.close()
    size = (folder / "volume-0001.sot").stat().st_size
    offset, first_seq, _ = spans(folder, 1)[-1]
    cut(folder, size - offset)
    with pytest.raises(DamagedLog, match=f"symbol 1, seq {first_seq} to .* are gone"):
        EmbeddedStore(folder).claim(1, first_seq=1)


@pytest.mark.parametrize("name", ["volume-0001.sot", "store.json"])
def test_a_file_that_is_gone_is_missed(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises((DamagedLog, StoreMisconfigured)):
        EmbeddedStore(folder).claim(1, first_seq=1)


def unfinished(folder: Path, keep: Callable[[int], int]) -> tuple[int, bytes]:
    """A kill in the middle of an append: the tip stands where it stood, the append is half there.

    Returns the size before it, and the torn bytes.
    """
    path = folder / "volume-0001.sot"
    tip = path.with_suffix(".tip").read_bytes()
    size = path.stat().st_size
    store = EmbeddedStore(folder)
    Chain.at(store.claim(1, first_seq=1)).write(store, 5)
    store.close()
    claimed = size + 2 * 112
    grown = path.stat().st_size
    kept = claimed + keep(grown - claimed)
    path.write_bytes(path.read_bytes()[:kept])
    path.with_suffix(".tip").write_bytes(tip)
    return claimed, path.read_bytes()[claimed:]


@pytest.mark.parametrize("keep", [lambda _: 1, lambda n: n // 2, lambda n: n - 1, lambda _: 112])
def test_a_torn_tail_is_cut_and_reported(folder: Path, keep: Callable[[int], int]) -> None:
    claimed, torn = unfinished(folder, keep)
    reported: list[object] = []
    store = EmbeddedStore(folder, report_torn=reported.append)
    assert frames_of(store, 1) == run_of(RECORDS, 1)
    Chain.at(store.claim(1, first_seq=1)).write(store, 2)
    assert len(reported) == 1
    (line,) = store.repairs()
    assert f"{len(torn)} bytes of an unfinished append at byte {claimed}" in line
    assert store.head(1).position.next_seq == 63
    store.close()
    (kept,) = folder.glob("volume-0001.sot.torn-*")
    assert kept.read_bytes() == torn
    kept.unlink()
    assert found_after_growth(folder) == []


def found_after_growth(folder: Path) -> list[str]:
    report = inspected(folder)
    return [*report.damages, *(s.damage for s in report.symbols if s.damage)]


def test_a_reader_leaves_a_torn_tail_alone(folder: Path) -> None:
    claimed, torn = unfinished(folder, lambda n: n // 2)
    store = EmbeddedStore(folder, create=False)
    assert store.damages() == []
    assert frames_of(store, 1) == run_of(RECORDS, 1)
    assert len(store.torn) == 1
    store.close()
    assert (folder / "volume-0001.sot").stat().st_size == claimed + len(torn)


def test_a_newer_store_is_refused(folder: Path) -> None:
    import msgspec
    from xxhash import xxh3_64_hexdigest

    fields = msgspec.json.encode(
        {"kind": "headrace source-of-truth log", "format": 2, "volumes": 64}
    )
    content = fields[:-1] + f',"check":"{xxh3_64_hexdigest(fields)}"}}\n'.encode()
    (folder / "store.json").write_bytes(content)
    with pytest.raises(NewerLog, match="has format 2, this version knows 1"):
        EmbeddedStore(folder)


def test_what_is_no_store_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StoreMisconfigured, match="there is none"):
        EmbeddedStore(tmp_path / "nothing", create=False)
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(StoreMisconfigured, match="other things"):
        EmbeddedStore(tmp_path)
    with pytest.raises(StoreMisconfigured, match="not a folder"):
        EmbeddedStore(tmp_path / "thesis.txt")


def test_a_full_disk_acknowledges_nothing_and_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EmbeddedStore(folder)
    chain = Chain.at(store.claim(1, first_seq=1))
    size = (folder / "volume-0001.sot").stat().st_size
    pwrite = os.pwrite

    def full(descriptor: int, data: bytes, at: int) -> int:
        pwrite(descriptor, bytes(data)[:50], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    batch = chain.batch(3)
    with pytest.raises(StoreUnavailable, match=r"No space left.*Free some space"):
        store.commit([batch])
    assert (folder / "volume-0001.sot").stat().st_size == size
    monkeypatch.undo()
    assert store.commit([batch])[0].answer == "committed"
    store.close()


def test_after_a_failed_sync_nothing_is_acknowledged_any_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EmbeddedStore(folder)
    chain = Chain.at(store.claim(1, first_seq=1))
    batch = chain.batch(3)

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    with pytest.raises(StoreUnavailable, match="Input/output error"):
        store.commit([batch])
    monkeypatch.undo()
    with pytest.raises(StoreUnavailable, match="an earlier append failed"):
        store.commit([batch])
    store.close()
    again = EmbeddedStore(folder)
    assert again.commit([batch])[0].answer == "committed"
    again.close()


def test_a_volume_that_another_writer_makes_in_this_moment_is_not_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not there yet when it was opened, and its tip is there when that is read."""
    opened, late = os.open, [FileNotFoundError(errno.ENOENT, "No such file")]

    def too_early(path: str | Path, flags: int, mode: int = 0o777, **more: int) -> int:
        if late and Path(path).name == "volume-0001.sot":
            raise late.pop()
        return opened(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", too_early)
    store = EmbeddedStore(folder)
    assert frames_of(store, 1) == run_of(RECORDS, 1)
    assert store.damages() == late == []
    store.close()


def test_files_are_the_users_alone(folder: Path) -> None:
    for path in (folder, *folder.iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path


def test_small_files_are_written_whole_by_a_system_that_takes_little_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills up takes a part of a write, without an error."""
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data[:7]), at))
    monkeypatch.setattr(os, "write", lambda *_: pytest.fail("a write that may be cut short"))
    store = EmbeddedStore(tmp_path / "sot")
    Chain.claimed(store, 1).write(store, 3)
    store.close()
    monkeypatch.undo()
    volume = next((tmp_path / "sot").glob("*.sot"))
    with volume.open("ab") as file:
        file.write(b"SOTH" + bytes(50))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data[:7]), at))
    store = EmbeddedStore(tmp_path / "sot")
    assert store.damages() == []
    store.claim(1, first_seq=1)
    store.close()
    [torn] = (tmp_path / "sot").glob("*.torn-*")
    assert torn.read_bytes() == b"SOTH" + bytes(50)


def _no_volume(volume: Path) -> None:
    volume.unlink()


def _other_volume(volume: Path) -> None:
    volume.write_bytes(b"X" + volume.read_bytes()[1:])


def _folder_there(volume: Path) -> None:
    volume.unlink()
    volume.mkdir()


@pytest.mark.parametrize("spoil", [_no_volume, _other_volume, _folder_there])
def test_what_other_volumes_hold_is_read_beside_one_that_cannot_be(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    records = made(60, symbol_ids=(1, 2, 66), size_bytes=120)
    written(tmp_path / "sot", records)
    spoil(tmp_path / "sot" / "volume-0002.sot")
    store = EmbeddedStore(tmp_path / "sot", create=False)
    assert store.symbols() == [1, 2, 66]
    report = verify_store(store, processes=0, mark=False)
    assert {s.symbol_id: s.records for s in report.symbols} == {1: 20, 2: 0, 66: 0}
    for symbol in report.symbols[1:]:
        assert symbol.damage is not None
        assert symbol.damage.startswith(f"symbol {symbol.symbol_id}")
        assert "volume-0002" in symbol.damage
    out = recover(store, str(tmp_path / "out"), RecoverOptions(past_damage=True))
    assert (out.records, out.complete) == (20, False)
    store.close()
    again = written(tmp_path / "sot", made(90, symbol_ids=(1, 2, 66), size_bytes=120))
    assert (again.written, again.duplicates, again.refused) == (10, 20, 60)


def test_a_tip_that_is_a_folder_is_named(folder: Path) -> None:
    tip = next(folder.glob("*.tip"))
    tip.unlink()
    tip.mkdir()
    assert any(str(tip) in line for line in found(folder))


@pytest.mark.parametrize("volumes", [1, 2, 63, 66, 128])
def test_a_manifest_of_another_store_hides_no_symbol(tmp_path: Path, volumes: int) -> None:
    """Symbols would be looked for in other volumes, and not be found there."""
    written(tmp_path / "sot", made(40, symbol_ids=(1, 2, 63, 70), size_bytes=120))
    EmbeddedStore(tmp_path / "other", volumes=volumes).close()
    (tmp_path / "other" / "store.json").replace(tmp_path / "sot" / "store.json")
    try:
        store = EmbeddedStore(tmp_path / "sot", create=False)
    except DamagedLog as error:
        assert "store.json" in error.where  # noqa: PT017 - some are met later
        return
    named = {damage.symbol_id for damage in store.damages()}
    assert 70 in named
    assert all("store.json" in damage.reason for damage in store.damages())
    report = recover(store, str(tmp_path / "out"))
    assert not report.complete
    assert report.records == 0, "a beginning of the whole cannot leave a symbol out"
    store.close()


def test_volumes_without_their_manifest_are_damage_to_readers_too(folder: Path) -> None:
    (folder / "store.json").unlink()
    for create in (False, True):
        with pytest.raises(DamagedLog, match=r"store\.json.*missing"):
            EmbeddedStore(folder, create=create)


def _read_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user who may not write; the tests may run as one who may do anything."""
    opened = os.open

    def refusing(path: str | Path, flags: int, mode: int = 0o777, **more: int) -> int:
        if folder in Path(path).parents and flags & (os.O_RDWR | os.O_WRONLY):
            raise PermissionError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", refusing)


def test_a_read_only_copy_is_verified_and_replayed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written(folder, made(140, symbols=2, size_bytes=120))  # new since it was verified
    _read_only(folder, monkeypatch)
    store = EmbeddedStore(folder, create=False)
    report = verify_store(store, processes=0)
    assert (report.good, report.records) == (True, 140)
    assert "not remembered" in caplog.text
    assert recover(store, str(folder.parent / "out")).complete
    with pytest.raises(StoreUnavailable, match=r"Read-only file system\. Make the folder"):
        store.claim(1, first_seq=1)
    store.close()
