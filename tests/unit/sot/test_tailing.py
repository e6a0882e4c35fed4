"""What a tail waits for, what comes late, and where it ends at damage."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.sot.embedded.entries import HEADER_BYTES
from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.exceptions import DamagedLog
from headrace.sot.frames import STREAM_MAGIC
from headrace.sot.recover import input_seq_of, recover
from headrace.sot.tailing import Tail
from headrace.stopping import StopEvent
from tests.support.sot_chains import Chain
from tests.support.sot_streams import made, write


class Clock:
    """Time that passes where the tail waits."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Waits(StopEvent):
    """Does at each wait what comes next, then stops."""

    def __init__(self, clock: Clock, *steps: object) -> None:
        super().__init__()
        self.clock = clock
        self.steps = list(steps)

    def wait(self, timeout: float | None = None) -> bool:
        self.clock.now_s += timeout or 0
        if not self.steps:
            self.set()
        elif isinstance(step := self.steps[0], float):
            if self.clock.now_s >= step:
                self.steps.pop(0)
        else:
            self.steps.pop(0)()  # type: ignore[operator]
        return self.is_set()


def orders(tail: Tail) -> list[int]:
    return [input_seq_of(frame) for batch in tail.batches() for frame in batch]


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path / "log", volumes=2)


def test_a_record_waits_for_the_one_before_it(store: EmbeddedStore) -> None:
    one, two = Chain.claimed(store, 1), Chain.claimed(store, 2)
    store.commit([one.batch(3, input_seqs=[1, 2, 5])])
    clock = Clock()
    waits = Waits(clock, 0.5, lambda: store.commit([two.batch(2, input_seqs=[3, 4])]), 0.6)
    tail = Tail(store, follow=True, hold_s=1.0, poll_s=0.1, stop=waits, clock=clock)
    assert orders(tail) == [1, 2, 3, 4, 5]
    assert tail.late == 0
    assert clock.now_s < 1.0


def test_what_never_comes_is_waited_for_no_longer_than_asked(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = Chain.claimed(store, 1), Chain.claimed(store, 2)
    store.commit([one.batch(3, input_seqs=[1, 2, 5])])
    clock, got_at = Clock(), []
    late = lambda: store.commit([two.batch(1, input_seqs=[4])])  # noqa: E731
    tail = Tail(
        store, follow=True, hold_s=1.0, poll_s=0.1, stop=Waits(clock, 1.5, late, 2.0), clock=clock
    )
    got = []
    with caplog.at_level(logging.WARNING):
        for batch in tail.batches():
            got += map(input_seq_of, batch)
            got_at.append(clock.now_s)
    assert got == [1, 2, 5, 4]
    assert got_at[0] == 0.0
    assert 1.0 <= got_at[1] < 1.2
    assert tail.late == 1
    assert "symbol 2, seq 1" in caplog.text


def test_an_engine_that_counts_back_keeps_each_symbol_in_order(
    store: EmbeddedStore, tmp_path: Path
) -> None:
    one, two = Chain.claimed(store, 1), Chain.claimed(store, 2)
    store.commit([one.batch(4, input_seqs=[1, 9, 3, 10]), two.batch(2, input_seqs=[2, 9])])
    report = recover(store, str(tmp_path / "out.sot"))
    first = Tail(store)
    iterator = iter(first)
    seen = [next(iterator) for _ in range(3)]
    rest = list(Tail(store, first.cursor))
    assert [(r.symbol_id, r.output_seq) for r in seen + rest] == [
        (1, 1), (2, 1), (1, 2), (1, 3), (2, 2), (1, 4)
    ]  # fmt: skip
    tail = b"".join(frame for batch in Tail(store).batches() for frame in batch)
    assert Path(report.place).read_bytes() == STREAM_MAGIC + tail


@pytest.mark.parametrize("follow", [False, True])
def test_it_ends_where_a_replay_ends(tmp_path: Path, follow: bool) -> None:
    """Damage in the middle of one chain: what comes before it in the order, and its name."""
    folder = tmp_path / "log"
    store = EmbeddedStore(folder, volumes=2)
    write(store, made(400, symbol_ids=(0, 1, 2)), batch_records=20)
    blocks = list(store.scan(1))
    store.close()
    where = blocks[3].where.rpartition(" ")[2]
    path = folder / "volume-0001.sot"
    content = bytearray(path.read_bytes())
    content[int(where) + HEADER_BYTES + 5] ^= 1
    path.write_bytes(content)
    store = EmbeddedStore(folder)
    report = recover(store, str(tmp_path / "out.sot"))
    tail = Tail(store, follow=follow, hold_s=0.01)
    got: list[bytes] = []
    with pytest.raises(DamagedLog, match="symbol 1, seq 51"):
        got.extend(frame for batch in tail.batches() for frame in batch)
    assert not report.complete
    assert Path(report.place).read_bytes() == STREAM_MAGIC + b"".join(got)
    assert tail.cursor.symbols["1"].next_seq == "51"
