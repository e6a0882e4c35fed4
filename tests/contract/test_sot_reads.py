"""Reads of the log over every store: records by their place, and the order of a replay, live."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from headrace.sot.cursor import Cursor
from headrace.sot.encoding import encode
from headrace.sot.exceptions import DamagedLog
from headrace.sot.frames import STREAM_MAGIC, join
from headrace.sot.reading import NoSuchRecord, read_frames, read_records
from headrace.sot.recover import recover
from headrace.sot.store import SotStore
from headrace.sot.tailing import Tail
from headrace.stopping import StopEvent
from tests.support.cassandra import cassandra
from tests.support.sot_chains import Chain
from tests.support.sot_stores import Backend, backend, store
from tests.support.sot_streams import frames_of, made, run_of, write

__all__ = ["backend", "cassandra", "store"]

# A first run fetches the server and starts it.
pytestmark = pytest.mark.timeout(300)

SYMBOLS = (0, 1, 8, 2**31, 2**32 - 1)
RECORDS = made(300, symbol_ids=SYMBOLS, hot_share=0.4)


def replayed(store: SotStore, tmp_path: Path) -> bytes:
    report = recover(store, str(tmp_path / "replay.sot"))
    return Path(report.place).read_bytes().removeprefix(STREAM_MAGIC)


def test_records_are_read_by_their_place(store: SotStore) -> None:
    write(store, RECORDS, batch_records=7)
    for symbol_id in SYMBOLS:
        whole = run_of(RECORDS, symbol_id)
        bodies = [made.body for made in RECORDS if made.symbol_id == symbol_id]
        last = len(bodies)
        assert b"".join(read_frames(store, symbol_id, 1, last)) == whole
        for first, end in ((1, 1), (last, last), (3, 9), (7, 8), (8, 14)):
            assert b"".join(read_frames(store, symbol_id, first, end)) == join(
                bodies[first - 1 : end]
            )
        [record] = read_records(store, symbol_id, 5, 5)
        assert encode(record) == bodies[4]


def test_what_is_not_there_is_named_and_nothing_is_handed_on(store: SotStore) -> None:
    store.claim(7, first_seq=5)
    with pytest.raises(NoSuchRecord, match="none yet"):
        read_frames(store, 7, 5, 5)
    chain = Chain.claimed(store, 8, 10)
    store.commit([chain.batch(3)])
    for first, last in ((9, 10), (10, 13), (13, 13), (0, 0), (12, 11)):
        with pytest.raises(NoSuchRecord, match="seq 10 to 12"):
            read_frames(store, 8, first, last)
    with pytest.raises(NoSuchRecord, match="no symbol 9"):
        read_frames(store, 9, 1, 1)


def test_a_tail_is_a_replay_wherever_it_was_cut(store: SotStore, tmp_path: Path) -> None:
    write(store, RECORDS, batch_records=7)
    whole = replayed(store, tmp_path)
    assert b"".join(frame for batch in Tail(store).batches() for frame in batch) == whole
    cut = random.Random(1)
    got, cursor = b"", Cursor()
    while True:
        tail = Tail(store, Cursor.model_validate_json(cursor.model_dump_json()))
        records = []
        for record in tail:
            records.append(encode(record))
            if len(records) == cut.randint(1, 40):
                break
        cursor = tail.cursor
        got += join(records)
        if not records:
            break
    assert got == whole


def test_a_tail_follows_writers_of_any_number_of_shards(backend: Backend, tmp_path: Path) -> None:
    """In the order of a replay, though each shard commits when it likes."""
    stop, got = StopEvent(), b""

    def append() -> None:
        writer = backend.open()
        for at, shards in ((0, 1), (60, 8), (90, 3), (200, 2)):
            following = {0: 60, 60: 90, 90: 200, 200: 300}[at]
            write(writer, RECORDS[at:following], shards=shards, batch_records=5, per_chunk=20)

    writing = threading.Thread(target=append)
    writing.start()
    tail = Tail(backend.open(), follow=True, hold_s=60, stop=stop)
    count = 0
    for batch in tail.batches():
        got += b"".join(batch)
        count += len(batch)
        if count == len(RECORDS):
            stop.set()
    writing.join()
    assert got == replayed(backend.open(), tmp_path) == join(made.body for made in RECORDS)
    assert tail.late == 0
    assert not list(Tail(backend.open(), tail.cursor).batches())


def test_a_cursor_of_another_history_is_refused(store: SotStore) -> None:
    store.commit([Chain.claimed(store, 7).batch(5)])
    cursor = Tail(store).cursor
    assert cursor.symbols == {}
    tail = Tail(store)
    assert len(list(tail)) == 5
    reached = tail.cursor.symbols["7"]
    for changed in (
        reached.model_copy(update={"digest": "0" * 64}),
        reached.model_copy(update={"next_seq": "7"}),
    ):
        with pytest.raises(DamagedLog, match="acknowledged"):
            Tail(store, Cursor(symbols={"7": changed}))
    with pytest.raises(NoSuchRecord):
        Tail(store, Cursor(symbols={"9": reached}))
    with pytest.raises(NoSuchRecord):
        Tail(store, symbols=(9,))


def test_only_some_symbols(store: SotStore) -> None:
    write(store, RECORDS)
    tail = Tail(store, symbols=(8,))
    assert b"".join(frame for batch in tail.batches() for frame in batch) == frames_of(store, 8)
