"""Replays over an embedded store: all symbols, one order, nothing damaged handed on as good."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.sot.chain import Position
from headrace.sot.embedded.entries import HEADER_BYTES
from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.encoding import decode
from headrace.sot.exceptions import StoreUnavailable
from headrace.sot.frames import STREAM_MAGIC, bodies, identity, join
from headrace.sot.recover import RecoverOptions, RecoverReport, input_seq_of, recover
from headrace.sot.reports import report_of_recover
from headrace.sot.sample_records import StreamSpec, generate
from headrace.sot.sources.places import find_places
from headrace.sot.sources.reading import Format, read_places
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.write import write_stream
from tests.support.sot_chains import Chain

#: Neither starting at 0 nor below any number of shards.
SYMBOLS = (0, 1, 7, 8, 9, 100, 4096, 2**31, 2**32 - 1)


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path / "log", volumes=4)


@pytest.fixture
def stream(tmp_path: Path) -> bytes:
    """A framed stream as an engine says it, in its own order."""
    spec = StreamSpec(records=1200, symbol_ids=SYMBOLS, hot_share=0.4)
    content = STREAM_MAGIC + join(made.body for made in generate(spec))
    (tmp_path / "in.sot").write_bytes(content)
    return content


def write(tmp_path: Path, store: EmbeddedStore, shards: int) -> None:
    places = find_places(str(tmp_path / "in.sot"))
    options = WriteOptions(shards=shards, processes=0, batch_records=17)
    assert write_stream(read_places(places), store, options).complete


def replayed(store: EmbeddedStore, out: Path, **options: object) -> tuple[RecoverReport, bytes]:
    report = recover(store, str(out), RecoverOptions(**options))  # type: ignore[arg-type]
    return report, Path(report.place).read_bytes()


@pytest.mark.parametrize("shards", [1, 4, 8])
def test_all_symbols_come_back_as_they_came_whatever_the_shards(
    tmp_path: Path, store: EmbeddedStore, stream: bytes, shards: int
) -> None:
    write(tmp_path, store, shards)
    report, content = replayed(store, tmp_path / "out.sot")
    assert content == stream
    assert report.complete
    assert [symbol.symbol_id for symbol in report.symbols] == list(SYMBOLS)
    assert sum(symbol.records for symbol in report.symbols) == report.records == 1200


def test_another_number_of_shards_in_between_changes_nothing(
    tmp_path: Path, store: EmbeddedStore, stream: bytes
) -> None:
    half = len(STREAM_MAGIC) + len(join(list(bodies(stream[len(STREAM_MAGIC) :]))[:600]))
    (tmp_path / "in.sot").write_bytes(stream[:half])
    write(tmp_path, store, 8)
    (tmp_path / "in.sot").write_bytes(stream)
    write(tmp_path, store, 4)
    assert replayed(store, tmp_path / "out.sot")[1] == stream


@pytest.mark.parametrize("fan_in", [2, 3, 100])
def test_more_symbols_than_can_be_open_go_through_files_in_the_same_order(
    tmp_path: Path, store: EmbeddedStore, stream: bytes, fan_in: int
) -> None:
    write(tmp_path, store, 8)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    _, content = replayed(store, tmp_path / "out.sot", fan_in=fan_in, scratch=scratch)
    assert content == stream
    assert list(scratch.iterdir()) == []


def test_json_lines_say_the_same(tmp_path: Path, store: EmbeddedStore, stream: bytes) -> None:
    write(tmp_path, store, 8)
    _, lines = replayed(store, tmp_path / "out.jsonl", format=Format.JSON_LINES)
    assert lines.count(b"\n") == 1200
    read = [
        piece
        for chunk in read_places(find_places(str(tmp_path / "out.jsonl")))
        for pieces in chunk.runs.values()
        for piece in pieces
    ]
    assert sorted(read) == sorted(b"".join(read_bodies) for read_bodies in _frames(stream))


def _frames(stream: bytes) -> list[list[bytes]]:
    return [[join([body])] for body in bodies(stream[len(STREAM_MAGIC) :])]


def test_only_some_symbols(tmp_path: Path, store: EmbeddedStore, stream: bytes) -> None:
    write(tmp_path, store, 8)
    report, content = replayed(store, tmp_path / "out.sot", symbols=(4096, 8))
    wanted = [b for b in bodies(stream[len(STREAM_MAGIC) :]) if identity(b)[0] in (8, 4096)]
    assert content == STREAM_MAGIC + join(wanted)
    assert [symbol.symbol_id for symbol in report.symbols] == [8, 4096]
    with pytest.raises(ConfigurationError, match="no symbol 5"):
        replayed(store, tmp_path / "more.sot", symbols=(5,))


def test_the_order_is_total_where_the_engine_counts_equal_or_backwards(
    tmp_path: Path, store: EmbeddedStore
) -> None:
    chains = {symbol_id: Chain.claimed(store, symbol_id) for symbol_id in (3, 1, 2)}
    dice = random.Random(4)
    for _ in range(60):
        chains[dice.choice((1, 2, 3))].write(
            store, 2, input_seqs=[dice.randint(1, 9), dice.randint(1, 9)]
        )
    results = {replayed(store, tmp_path / f"out-{n}.sot", fan_in=2 + n)[1] for n in range(3)}
    (content,) = results
    found = list(bodies(content[len(STREAM_MAGIC) :]))
    assert len(found) == 120
    for symbol_id, chain in chains.items():
        assert join(b for b in found if identity(b)[0] == symbol_id) == chain.frames
    largest = {1: 0, 2: 0, 3: 0}
    keys = []
    for body in found:
        symbol_id, seq = identity(body)
        largest[symbol_id] = max(largest[symbol_id], decode(body).input.input_seq)
        keys.append((largest[symbol_id], symbol_id, seq))
    assert keys == sorted(keys)


def test_input_seq_is_where_the_order_looks_for_it() -> None:
    (made, *_) = generate(StreamSpec(records=1, symbol_ids=(9,)))
    assert input_seq_of(join([made.body])) == decode(made.body).input.input_seq == 1


def damage_middle(tmp_path: Path, symbol_id: int) -> None:
    """Flip a byte of the payload of a block in the middle of a symbol's chain."""
    store = EmbeddedStore(tmp_path / "log", create=False)
    blocks = list(store.scan(symbol_id))
    store.close()
    assert len(blocks) > 2
    name, _, offset = blocks[len(blocks) // 2].where.rpartition(" at byte ")
    path = Path(name)
    content = bytearray(path.read_bytes())
    content[int(offset) + HEADER_BYTES] ^= 0x10
    path.write_bytes(content)


def test_damage_ends_the_replay_at_a_true_beginning_of_the_whole(
    tmp_path: Path, store: EmbeddedStore, stream: bytes
) -> None:
    write(tmp_path, store, 8)
    store.close()
    damage_middle(tmp_path, 7)
    report, content = replayed(EmbeddedStore(tmp_path / "log"), tmp_path / "out.sot")
    assert not report.complete
    assert report.place.endswith("out.sot.partial")
    assert not (tmp_path / "out.sot").exists()
    assert {damage.symbol_id for damage in report.damages} == {7}
    assert 0 < len(content) < len(stream)
    assert stream.startswith(content)
    [problem] = report_of_recover("run", "log", report).problems
    assert problem.endswith("--past-damage goes on with the other symbols")
    assert "sot recover" not in problem


def test_past_damage_the_other_symbols_are_whole_and_the_good_beginning_is_kept(
    tmp_path: Path, store: EmbeddedStore, stream: bytes
) -> None:
    write(tmp_path, store, 8)
    store.close()
    damage_middle(tmp_path, 7)
    report, content = replayed(
        EmbeddedStore(tmp_path / "log"), tmp_path / "out.sot", past_damage=True
    )
    assert not report.complete
    [problem] = report_of_recover("run", "log", report, past_damage=True).problems
    assert "recover" not in problem
    assert "--past-damage" not in problem
    came = list(bodies(stream[len(STREAM_MAGIC) :]))
    found = list(bodies(content[len(STREAM_MAGIC) :]))
    for symbol_id in SYMBOLS:
        want = [body for body in came if identity(body)[0] == symbol_id]
        have = [body for body in found if identity(body)[0] == symbol_id]
        assert want[: len(have)] == have
        assert (len(have) < len(want)) == (symbol_id == 7)
    assert join([b for b in found if identity(b)[0] == 7])


def test_remembered_records_must_be_there(tmp_path: Path, store: EmbeddedStore) -> None:
    chain = Chain.claimed(store, 7)
    chain.write(store, 5)
    at_five = chain.position
    assert recover(store, str(tmp_path / "a"), saved_heads={7: at_five}).complete
    missing = Chain(7, at_five)
    missing.batch(3)
    for number, saved_head in enumerate(
        (missing.position, Position(at_five.next_seq, at_five.hash, bytes(32)))
    ):
        report = recover(store, str(tmp_path / f"b{number}"), saved_heads={7: saved_head})
        assert not report.complete
        assert report.damages[0].symbol_id == 7
    gone = recover(store, str(tmp_path / "c"), saved_heads={7: at_five, 99: at_five})
    assert [damage.symbol_id for damage in gone.damages] == [99]


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path, store: EmbeddedStore) -> None:
    (tmp_path / "out").write_text("precious")
    with pytest.raises(ConfigurationError, match="exists already"):
        recover(store, str(tmp_path / "out"))
    with pytest.raises(ConfigurationError, match="does not exist"):
        recover(store, str(tmp_path / "no" / "out"))
    assert (tmp_path / "out").read_text() == "precious"


def test_an_empty_store_gives_an_empty_stream(tmp_path: Path, store: EmbeddedStore) -> None:
    report, content = replayed(store, tmp_path / "out")
    assert (report.records, content, report.complete) == (0, STREAM_MAGIC, True)


def test_a_reader_that_leaves_is_said(
    tmp_path: Path, store: EmbeddedStore, stream: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, store, shards=2)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out:
        monkeypatch.setattr("sys.stdout", out)
        with pytest.raises(StoreUnavailable, match=r"standard output.*Broken pipe"):
            recover(store, "-")
    # What was left in its buffer went nowhere, and closing it has not failed on it.


def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, store: EmbeddedStore, stream: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, store, shards=2)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "out").mkdir()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        recover(store, str(tmp_path / "out" / "replay"))
    assert list((tmp_path / "out").iterdir()) == []
