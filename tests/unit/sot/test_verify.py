"""Recomputing: everything, what is new, a sample; over one process or two."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.sot_chains import Chain
from support.sot_streams import made, written

from headrace.sot import verify_plan
from headrace.sot.chain import Position
from headrace.sot.embedded.entries import Kind, make
from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.store import Batch
from headrace.sot.verify import verify_store
from headrace.sot.verify_plan import Mode

RECORDS = made(900, symbols=3, size_bytes=120)


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    written(tmp_path / "sot", RECORDS, batch_records=40, per_chunk=120, linger_s=0)
    opened = EmbeddedStore(tmp_path / "sot")
    yield opened
    opened.close()


def test_an_empty_store_is_good(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "sot")
    report = verify_store(store)
    assert (report.good, report.records, report.symbols) == (True, 0, [])
    store.close()


@pytest.mark.parametrize("processes", [0, 2])
def test_everything_is_recomputed(
    store: EmbeddedStore, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_plan, "_RANGE_RECORDS", 70)
    reported: list[object] = []
    report = verify_store(store, processes=processes, on_verdict=reported.append)
    assert report.good
    assert report.records == 900
    assert [symbol.good_until for symbol in report.symbols] == [301, 301, 301]
    assert len(reported) > 3


def test_since_the_last_time_only_what_is_new_is_recomputed(store: EmbeddedStore) -> None:
    assert verify_store(store, processes=0).records == 900
    assert verify_store(store, Mode.SINCE, processes=0).records == 0
    Chain.at(store.claim(2, first_seq=1)).write(store, 7)
    again = verify_store(store, Mode.SINCE, processes=0)
    assert (again.good, again.records) == (True, 7)
    assert store.verified(2) == store.head(2).position


def test_only_some_symbols(store: EmbeddedStore) -> None:
    report = verify_store(store, symbols=[3], processes=0)
    assert [(symbol.symbol_id, symbol.records) for symbol in report.symbols] == [(3, 300)]


def test_a_sample_looks_at_some_blocks_and_always_at_the_last(store: EmbeddedStore) -> None:
    report = verify_store(store, Mode.SAMPLED, blocks=2)
    assert report.good
    assert 0 < report.records < 900


def plant(store: EmbeddedStore, batch: Batch, count: int | None = None) -> None:
    """Write a block past every rule, with sound checks: what a forger with the store could do."""
    entry = make(
        Kind.BLOCK,
        batch.symbol_id,
        raw=batch.frames,
        count=batch.count if count is None else count,
        first_seq=batch.before.next_seq,
        epoch=batch.epoch,
        hash_=batch.after.hash,
        digest=batch.after.digest,
    )
    store._volume_of(batch.symbol_id).append(lambda _: [entry])


@pytest.mark.parametrize("mode", list(Mode))
def test_a_forged_record_with_sound_checks_is_found(store: EmbeddedStore, mode: Mode) -> None:
    chain = Chain.at(store.claim(1, first_seq=1))
    forged = chain.batch(1)
    corrupt = bytearray(forged.frames)
    corrupt[-1] ^= 1
    plant(store, Batch(1, forged.epoch, forged.before, forged.after, bytes(corrupt)))
    report = verify_store(store, mode, processes=0)
    assert not report.good
    assert "symbol 1, seq 301" in str(report.symbols[0].damage)
    assert report.symbols[0].good_until == 301
    assert report.symbols[1].damage is None
    assert store.verified(1) is None


def test_a_history_with_sound_hashes_and_another_digest_is_found(store: EmbeddedStore) -> None:
    chain = Chain.at(store.claim(1, first_seq=1))
    batch = chain.batch(3)
    after = Position(batch.after.next_seq, batch.after.hash, bytes(32))
    plant(store, Batch(1, batch.epoch, batch.before, after, batch.frames))
    report = verify_store(store, processes=0)
    assert "the chain of digests does not lead" in str(report.symbols[0].damage)
    assert report.symbols[0].good_until == 301


def test_a_block_that_holds_less_than_it_says_is_found(store: EmbeddedStore) -> None:
    batch = Chain.at(store.claim(1, first_seq=1)).batch(3)
    plant(store, batch, count=5)
    report = verify_store(store, processes=0)
    assert "symbol 1, seq 304" in str(report.symbols[0].damage)


def test_a_block_counts_once_in_a_sample(store: EmbeddedStore) -> None:
    report = verify_store(store, Mode.SAMPLED, blocks=500)
    assert report.records == 900
