"""Stores that fail, lie or are slow; other writers; processes; a hot symbol."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.sot_chains import Chain
from support.sot_streams import chunks, frames_of, made, run_of, write, written

from headrace.errors import ConfigurationError
from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.exceptions import StoreUnavailable
from headrace.sot.store import Batch, BatchLimits, Head, Outcome
from headrace.sot.verify import verify_store
from headrace.sot.writing.engine import Engine
from headrace.sot.writing.messages import Ack
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.shards import Shard, SymbolQueue
from headrace.sot.writing.write import write_stream
from headrace.stopping import StopEvent

RECORDS = made(300, symbols=3, size_bytes=120)


class Wrapped(EmbeddedStore):
    """A store whose commits can be tampered with."""

    def __init__(self, folder: Path, pause_s: float = 0.0, together: int = 1) -> None:
        super().__init__(folder)
        self.pause_s = pause_s
        self.together = together
        self.failures = 0
        self.share_written = 1.0
        self.calls: list[list[int]] = []

    @property
    def limits(self) -> BatchLimits:
        return BatchLimits(500, 1024 * 1024, self.together)

    def commit(self, batches: Sequence[Batch]) -> list[Outcome]:
        self.calls.append([batch.symbol_id for batch in batches])
        if self.pause_s:
            time.sleep(self.pause_s)
        if not self.failures:
            return super().commit(batches)
        self.failures -= 1
        written = [self._part(batch) for batch in batches]
        super().commit([batch for batch in written if batch is not None])
        raise StoreUnavailable(self.location, "writing", "timed out")

    def _part(self, batch: Batch) -> Batch | None:
        """The first share of a batch, as if the rest had not arrived."""
        from headrace.sot.chain import follow

        count = int(batch.count * self.share_written)
        if not count:
            return None
        part = follow(batch.frames, 0, batch.symbol_id, batch.before, max_records=count)
        return Batch(
            batch.symbol_id, batch.epoch, batch.before, part.position, batch.frames[: part.offset]
        )


@pytest.fixture
def store(tmp_path: Path) -> Wrapped:
    opened = Wrapped(tmp_path / "sot")
    yield opened
    opened.close()


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("failures", [1, 3])
@pytest.mark.parametrize("together", [1, 5])
def test_a_time_out_whose_write_happened_in_part_or_whole_loses_and_forks_nothing(
    store: Wrapped, share: float, failures: int, together: int
) -> None:
    store.failures, store.share_written, store.together = failures, share, together
    acks: list[Ack] = []
    report = write_stream(
        chunks(RECORDS),
        store,
        WriteOptions(processes=0, batch_records=500 // together**3, retry_pause_s=0.001),
        on_acks=acks.extend,
    )
    assert report.complete
    most = max(max(Counter(call).values()) for call in store.calls)
    assert most == together
    for symbol_id in (1, 2, 3):
        assert frames_of(store, symbol_id) == run_of(RECORDS, symbol_id)
    assert verify_store(store, processes=0).good
    ends = {ack.symbol_id: ack.end for ack in acks}
    assert all(end <= 101 for end in ends.values())


def test_a_store_that_never_answers_ends_the_write_and_says_so(store: Wrapped) -> None:
    store.failures, store.share_written = 1000, 0.0
    with pytest.raises(StoreUnavailable, match="timed out"):
        write(store, RECORDS, attempts=3)
    assert frames_of(store, 1) == b""


def test_a_writer_that_was_taken_over_stops_and_keeps_the_others(tmp_path: Path) -> None:
    old = Wrapped(tmp_path / "sot", pause_s=0.05)
    new = EmbeddedStore(tmp_path / "sot")
    acked: list[Ack] = []

    def on_acks(acks: list[Ack]) -> None:
        if not acked:
            Chain.at(new.claim(1, first_seq=1))
        acked.extend(acks)

    report = write_stream(
        chunks(RECORDS, 9),
        old,
        WriteOptions(processes=0, batch_records=5, linger_s=0),
        on_acks=on_acks,
    )
    assert report.counts["taken-over"] >= 1
    assert not report.complete
    assert "symbol 1" in report.problems[0].message
    assert report.heads[2].next_seq == report.heads[3].next_seq == 101
    stored = new.head(1)
    assert stored is not None
    acknowledged = max((ack.end for ack in acked if ack.symbol_id == 1), default=1)
    assert stored.position.next_seq == acknowledged < 101
    assert verify_store(new, processes=0).good
    old.close()
    new.close()


def test_batches_keep_to_the_limits(store: Wrapped) -> None:
    sizes: list[int] = []
    commit = EmbeddedStore.commit

    def watched(self: EmbeddedStore, batches: Sequence[Batch]) -> list[Outcome]:
        sizes.extend(batch.count for batch in batches)
        return commit(self, batches)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedStore, "commit", watched)
        report = write(store, RECORDS, batch_records=7, per_chunk=300)
    assert report.complete
    assert max(sizes) <= 7
    assert sum(sizes) == 300


def test_new_symbols_are_claimed_shard_by_shard(tmp_path: Path) -> None:
    """A claim waits for the disk: a thousand new symbols must not wait a thousand times."""
    claims: list[int] = []
    claim_all = EmbeddedStore.claim_all

    def watched(self: EmbeddedStore, symbol_ids: Sequence[int], *, first_seq: int) -> list[Head]:
        claims.append(len(symbol_ids))
        return claim_all(self, symbol_ids, first_seq=first_seq)

    store = EmbeddedStore(tmp_path / "sot")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedStore, "claim_all", watched)
        report = write(store, made(300, symbols=100), shards=4, per_chunk=300)
    assert report.complete
    assert claims == [25, 25, 25, 25]
    store.close()


@pytest.mark.parametrize("together", [1, 8])
def test_a_hot_symbol_does_not_hold_up_the_cold_ones(tmp_path: Path, together: int) -> None:
    """10,000 records, 90 % of one symbol, a store that takes 20 ms per commit."""
    ids = tuple(range(1, 52))
    skewed = made(10_000, symbol_ids=ids, hot_share=0.9, size_bytes=80)
    cold_only = [record for record in skewed if record.symbol_id != 1]

    def worst_cold_s(records: list, folder: str) -> float:
        store = Wrapped(tmp_path / folder, pause_s=0.02, together=together)
        # Less than the stream may be under way: the reader has to wait for the writers.
        report = write(store, records, per_chunk=200, in_flight_bytes=200_000)
        assert report.complete
        for symbol_id in ids:
            assert frames_of(store, symbol_id) == run_of(records, symbol_id)
        store.close()
        assert report.shards[1].records == len([r for r in records if r.symbol_id % 8 == 1])
        if records is skewed:
            assert report.skew > 6
        return max(d.quantile(0.99) for s, d in report.delays.items() if s != 1)

    without, with_hot = worst_cold_s(cold_only, "cold"), worst_cold_s(skewed, "hot")
    assert with_hot < without + 1.0


def test_a_cold_symbol_catches_up_however_long_the_hot_one_s_backlog_is(tmp_path: Path) -> None:
    """Chunks have a run of each: turns that count runs would process both at the same pace."""
    hot = made(1500, symbol_ids=(1,), size_bytes=6000)
    cold = made(30, symbol_ids=(2,))
    store = EmbeddedStore(tmp_path / "sot")
    acks: list[Ack] = []
    engine = Engine(
        store,
        [0],
        WriteOptions(shards=1, batch_records=300),
        on_acks=acks.extend,
        on_done=lambda _: None,
    )
    for turn in range(30):
        engine.offer(time.monotonic(), 1, run_of(hot[turn * 50 : turn * 50 + 50], 1))
        engine.offer(time.monotonic(), 2, run_of(cold[turn : turn + 1], 2))
    engine.end()
    engine.run()
    ends = [(ack.symbol_id, ack.end) for ack in acks]
    hot_by_then = [end for symbol_id, end in ends[: ends.index((2, 31))] if symbol_id == 1]
    assert max(hot_by_then, default=1) < 1000
    assert ends[-1] == (1, 1501)
    store.close()


def test_processes_write_what_one_would(tmp_path: Path) -> None:
    records = made(3000, symbols=5)
    store = EmbeddedStore(tmp_path / "sot")
    acks: list[Ack] = []
    report = write_stream(
        chunks(records, 500), store, WriteOptions(shards=4, processes=2), on_acks=acks.extend
    )
    assert report.complete
    assert (report.read, report.written) == (3000, 3000)
    assert [shard.shard for shard in report.shards] == [0, 1, 2, 3]
    for symbol_id in range(1, 6):
        mine = [ack for ack in acks if ack.symbol_id == symbol_id]
        assert [ack.first_seq for ack in mine] == [1, *(ack.end for ack in mine[:-1])]
        assert mine[-1].end == report.heads[symbol_id].next_seq == 601
        assert frames_of(store, symbol_id) == run_of(records, symbol_id)
    assert verify_store(store, processes=2).good
    store.close()


@pytest.mark.parametrize("in_flight_bytes", [1, 1000, 100_000])
def test_however_little_may_be_under_way_the_write_comes_to_its_end(
    tmp_path: Path, in_flight_bytes: int
) -> None:
    store = EmbeddedStore(tmp_path / "sot")
    records = made(1500, symbols=5)
    options = WriteOptions(shards=4, processes=2, in_flight_bytes=in_flight_bytes)
    assert write_stream(chunks(records, 300), store, options).complete
    store.close()


def test_a_writer_process_that_is_killed_ends_the_write(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "sot")
    killed = threading.Event()

    def on_acks(_: list[Ack]) -> None:
        if not killed.is_set():
            killed.set()
            import psutil

            children = psutil.Process().children()
            workers = [c for c in children if "headrace.sot.writing.pool" in c.cmdline()]
            os.kill(workers[0].pid, signal.SIGKILL)

    records = made(60_000, symbols=4)
    with pytest.raises(StoreUnavailable, match="ended by signal 9"):
        write_stream(
            chunks(records, 200),
            store,
            WriteOptions(shards=4, processes=2, in_flight_bytes=300_000),
            on_acks=on_acks,
        )
    assert write(store, records).complete
    assert frames_of(store, 1) == run_of(records, 1)
    store.close()


def test_a_stop_writes_what_was_read(store: Wrapped) -> None:
    stop = StopEvent()
    report = write_stream(
        chunks(RECORDS, 30),
        store,
        WriteOptions(processes=0),
        on_read=lambda _: stop.set(),
        stop=stop,
    )
    assert report.stopped
    assert not report.complete
    assert report.read == report.written == 30


@pytest.mark.parametrize(
    "options", [{"shards": 0}, {"shards": 1000}, {"batch_records": -1}, {"first_seq": 2**64}]
)
def test_options_that_cannot_work_are_refused(store: Wrapped, options: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        write(store, RECORDS, **options)


def test_what_is_held_for_predecessors_is_bounded_over_all_symbols(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred symbols whose first records are missing, each holding far less than the bound."""
    records = made(4000, symbols=100, size_bytes=400)
    first = {m.symbol_id: m for m in reversed(records)}
    late = [m for m in records if first[m.symbol_id] is not m]
    most = 0
    recount = Shard.recount

    def watched(self: Shard, queue: SymbolQueue, processed_bytes: int, now_s: float) -> int:
        nonlocal most
        done = recount(self, queue, processed_bytes, now_s)
        held = sum(map(len, (b for bs in queue.writer._held.values() for b in bs)))
        assert held == queue.held_bytes
        most = max(most, self.held_bytes)
        return done

    monkeypatch.setattr(Shard, "recount", watched)
    store = EmbeddedStore(tmp_path / "sot", volumes=1)
    bound = 100_000
    report = write(store, late, shards=1, held_bytes=bound)
    assert report.parked == len(late)
    assert most < bound + 50 * 400
    assert write(store, records, shards=1, held_bytes=bound).complete
    store.close()


def test_damage_met_while_comparing_stops_that_symbol_alone(tmp_path: Path) -> None:
    """A block whose payload is corrupt shows only when something is compared with it."""
    records = made(400, symbols=2, size_bytes=120)
    written(tmp_path / "sot", records[:200], batch_records=20)
    volume = tmp_path / "sot" / "volume-0001.sot"
    content = bytearray(volume.read_bytes())
    content[24 + 224 + 112 + 40] ^= 1  # behind the preamble, the claim and the first header
    volume.write_bytes(content)
    report = written(tmp_path / "sot", records)
    assert dict(report.counts).keys() == {"damage"}
    assert all(problem.symbol_id == 1 for problem in report.problems)
    assert "symbol 1, seq 1 to" in str(report.problems[0])
    assert report.heads[2].next_seq == 201
