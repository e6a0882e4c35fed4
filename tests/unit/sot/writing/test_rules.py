"""Duplicates, forks, gaps, wrong links: what goes in, what waits, what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.sot_streams import frames_of, made, run_of, write, written
from xxhash import xxh3_64_intdigest

from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.sample_records import GeneratedRecord
from headrace.sot.verify import verify_store


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    opened = EmbeddedStore(tmp_path / "sot")
    yield opened
    opened.close()


def of(records: list[GeneratedRecord], symbol_id: int, *seqs: int) -> list[GeneratedRecord]:
    by_seq = {record.seq: record for record in records if record.symbol_id == symbol_id}
    return [by_seq[seq] for seq in seqs]


def seqs_of(store: EmbeddedStore, symbol_id: int) -> int:
    head = store.head(symbol_id)
    return head.position.next_seq - 1 if head else 0


TWO = made(40, symbols=2)
# Another engine's history for the same symbols: other content, sound chains.
OTHER = made(40, symbols=2, seed=9)


def test_symbols_that_share_a_shard_have_chains_of_their_own(store: EmbeddedStore) -> None:
    records = made(999, symbol_ids=(0, 8, 16))
    report = write(store, records, shards=8)
    assert report.complete
    assert report.written == 999
    assert [shard.symbols for shard in report.shards] == [3, 0, 0, 0, 0, 0, 0, 0]
    for symbol_id in (0, 8, 16):
        assert frames_of(store, symbol_id) == run_of(records, symbol_id)


def test_the_number_of_shards_may_change_between_runs(tmp_path: Path) -> None:
    ids = (0, 1, 7, 8, 9, 100, 4096, 2**32 - 1)
    records = made(400, symbol_ids=ids)
    for part, shards in ((slice(0, 150), 8), (slice(150, 300), 4), (slice(300, 400), 3)):
        assert written(tmp_path, records[part], shards=shards).complete
    store = EmbeddedStore(tmp_path)
    assert store.symbols() == sorted(ids)
    for symbol_id in ids:
        assert frames_of(store, symbol_id) == run_of(records, symbol_id)
    store.close()


@pytest.mark.parametrize("per_chunk", [1, 7, 100])
def test_an_identical_duplicate_is_a_no_op(store: EmbeddedStore, per_chunk: int) -> None:
    doubled = [record for record in TWO for _ in range(2)]
    report = write(store, doubled, per_chunk=per_chunk)
    assert report.complete
    assert (report.written, report.duplicates) == (40, 40)
    again = write(store, TWO, per_chunk=per_chunk)
    assert again.complete
    assert (again.written, again.duplicates) == (0, 40)
    assert frames_of(store, 1) == run_of(TWO, 1)


@pytest.mark.parametrize("per_chunk", [1, 100])
def test_other_content_at_the_same_seq_is_a_fork_and_the_old_row_stays(
    store: EmbeddedStore, per_chunk: int
) -> None:
    stream = [*of(TWO, 1, 1, 2), *of(OTHER, 1, 2), *of(TWO, 1, 3), *of(TWO, 2, 1, 2)]
    report = write(store, stream, per_chunk=per_chunk)
    assert report.counts == {"fork": 1}
    assert not report.complete
    (problem,) = report.problems
    assert (problem.symbol_id, problem.seq) == (1, 2)
    assert "symbol 1, seq 2" in problem.message
    assert frames_of(store, 1) == run_of(of(TWO, 1, 1, 2, 3), 1)
    assert seqs_of(store, 2) == 2
    assert [parked.reason for parked in store.parked(1)] == ["fork"]


def test_a_fork_of_what_an_earlier_run_stored_is_found_among_duplicates(
    store: EmbeddedStore,
) -> None:
    write(store, TWO)
    stream = [*of(TWO, 1, 1, 2, 3), *of(OTHER, 1, 4), *of(TWO, 1, 5, 6)]
    report = write(store, stream)
    assert (report.duplicates, report.counts) == (5, {"fork": 1})
    assert frames_of(store, 1) == run_of(TWO, 1)


def test_a_gap_is_parked_and_named_and_the_others_go_on(store: EmbeddedStore) -> None:
    report = write(store, [*of(TWO, 1, 1, 2, 4, 5), *of(TWO, 2, 1, 2, 3)])
    assert report.counts == {"gap": 2}
    (problem,) = report.problems
    assert (problem.symbol_id, problem.seq, problem.last_seq) == (1, 4, 5)
    assert "expected seq 3 next" in problem.message
    assert (seqs_of(store, 1), seqs_of(store, 2)) == (2, 3)
    assert [parked.seq for parked in store.parked(1)] == [4, 5]


def test_what_was_parked_is_taken_up_when_its_predecessor_arrives(tmp_path: Path) -> None:
    written(tmp_path, of(TWO, 1, 1, 2, 4, 5, 7))
    report = written(tmp_path, of(TWO, 1, 3))
    assert report.counts == {"gap": 1}
    assert report.problems[0].seq == 7
    assert written(tmp_path, of(TWO, 1, 6)).complete
    store = EmbeddedStore(tmp_path)
    assert frames_of(store, 1) == run_of(of(TWO, 1, 1, 2, 3, 4, 5, 6, 7), 1)
    assert list(store.parked(1)) == []
    store.close()


def test_a_backlog_larger_than_a_slice_is_taken_up(tmp_path: Path) -> None:
    records = made(6000, symbols=1, size_bytes=80)
    report = written(tmp_path, records[1:], held_bytes=10_000)
    assert report.parked == 5999
    assert written(tmp_path, records[:1]).complete
    store = EmbeddedStore(tmp_path)
    assert frames_of(store, 1) == run_of(records, 1)
    assert list(store.parked(1)) == []
    store.close()


def test_disorder_within_a_run_needs_no_parking(store: EmbeddedStore) -> None:
    report = write(store, of(TWO, 1, 1, 3, 2, 5, 4, 6), per_chunk=1)
    assert report.complete
    assert seqs_of(store, 1) == 6


def test_the_first_record_has_to_name_the_beginning(store: EmbeddedStore) -> None:
    """Nothing precedes it: its `prev_hash` has to be 0, whatever its own hash says."""
    [second] = of(TWO, 1, 2)
    moved = _rehashed(second.body, seq=1)
    report = write(store, [GeneratedRecord(1, 1, moved), second])
    assert report.counts == {"link": 1, "gap": 1}
    assert [(problem.kind, problem.seq) for problem in report.problems] == [("link", 1), ("gap", 2)]
    assert seqs_of(store, 1) == 0
    assert [(parked.seq, parked.reason) for parked in store.parked(1)] == [(1, "link"), (2, "gap")]


def test_a_wrong_link_is_named_and_what_follows_it_waits(store: EmbeddedStore) -> None:
    corrupt = made(40, symbols=2, faults={"link": 1})
    (wrong,) = [record for record in corrupt if record.fault]
    report = write(store, [r for r in corrupt if r.symbol_id == wrong.symbol_id])
    assert report.counts == {"link": 1, "gap": 20 - wrong.seq}
    assert (report.problems[0].kind, report.problems[0].seq) == ("link", wrong.seq)
    assert seqs_of(store, wrong.symbol_id) == wrong.seq - 1


def test_a_right_link_at_a_wrong_seq_is_a_gap(store: EmbeddedStore) -> None:
    one, two = of(TWO, 1, 1, 2)
    report = write(store, [one, GeneratedRecord(1, 3, _rehashed(two.body, seq=3))])
    assert report.counts == {"gap": 1}


def _rehashed(body: bytes, *, seq: int) -> bytes:
    """The same record at another sequence, with the hash that it has there."""
    moved = bytearray(body)
    moved[16:24] = seq.to_bytes(8, "little")
    moved[:8] = xxh3_64_intdigest(bytes(moved[8:])).to_bytes(8, "little")
    return bytes(moved)


def test_damage_on_the_way_is_refused_and_named(store: EmbeddedStore) -> None:
    records = made(40, symbols=2, faults={"hash": 1})
    (wrong,) = [record for record in records if record.fault]
    report = write(store, records)
    assert report.counts["hash"] == 1
    assert (report.problems[0].symbol_id, report.problems[0].seq) == (wrong.symbol_id, wrong.seq)
    assert seqs_of(store, wrong.symbol_id) == wrong.seq - 1
    assert seqs_of(store, 3 - wrong.symbol_id) == 20


def test_a_record_out_of_form_is_refused_and_named(store: EmbeddedStore) -> None:
    one, two = of(TWO, 1, 1, 2)
    bad = bytearray(two.body)
    bad[8] = 9
    report = write(store, [one, GeneratedRecord(1, 2, bytes(bad)), *of(TWO, 2, 1)])
    assert report.counts == {"malformed": 1}
    assert "symbol 1, seq 2: encoding_version: is 9" in report.problems[0].message
    assert (seqs_of(store, 1), seqs_of(store, 2)) == (1, 1)


@pytest.mark.parametrize("seed", range(6))
def test_faults_of_every_kind_lose_nothing_that_is_sound(tmp_path: Path, seed: int) -> None:
    """Whatever is wrong with one record, its predecessors and the other symbols are stored."""
    faults = {"gap": 1, "duplicate": 3, "fork": 2, "swap": 3, "hash": 1, "link": 1}
    records = made(600, symbols=5, seed=seed, faults=faults)
    sound = made(600, symbols=5, seed=seed)
    report = written(tmp_path, records, per_chunk=37)
    # Behind a gap a duplicate cannot be distinguished from a fork: both are parked.
    assert report.duplicates <= 3
    assert report.written > 5
    # A later run of the sound stream heals all of it.
    healed = written(tmp_path, sound)
    assert set(healed.counts) <= {"fork"}  # parked ones that turn out to be forks now
    assert not written(tmp_path, sound).counts
    store = EmbeddedStore(tmp_path)
    for symbol_id in range(1, 6):
        assert frames_of(store, symbol_id) == run_of(sound, symbol_id)
    assert Counter(parked.reason for s in range(1, 6) for parked in store.parked(s))["gap"] == 0
    assert verify_store(store, processes=0).good
    store.close()


def test_an_unchained_stream_is_chained_and_may_be_written_again(tmp_path: Path) -> None:
    plain = made(200, symbols=3, chained=False)
    chained = made(200, symbols=3)
    assert written(tmp_path, plain[:120], chain=True).complete
    report = written(tmp_path, plain, chain=True)
    assert report.complete
    assert (report.written, report.duplicates) == (80, 120)
    store = EmbeddedStore(tmp_path)
    for symbol_id in (1, 2, 3):
        assert frames_of(store, symbol_id) == run_of(chained, symbol_id)
    store.close()


def test_an_unchained_fork_is_a_fork(tmp_path: Path) -> None:
    written(tmp_path, made(20, symbols=1, chained=False), chain=True)
    report = written(tmp_path, made(20, symbols=1, chained=False, seed=3), chain=True)
    assert report.counts == {"fork": 20}


def test_chaining_what_is_chained_is_refused(store: EmbeddedStore) -> None:
    report = write(store, TWO, chain=True)
    assert set(report.counts) == {"hash", "gap"}
    assert "carries a hash already" in report.problems[0].message


@pytest.mark.parametrize("first_seq", [0, 1, 2**63 - 3, 2**63, 2**64 - 20])
def test_a_chain_may_begin_and_end_anywhere(tmp_path: Path, first_seq: int) -> None:
    records = made(20, symbols=1, first_seq=first_seq)
    assert written(tmp_path, records, first_seq=first_seq).complete
    store = EmbeddedStore(tmp_path)
    assert frames_of(store, 1) == run_of(records, 1)
    assert store.head(1).position.next_seq == first_seq + 20
    assert verify_store(store, processes=0).good
    store.close()


def test_another_beginning_is_named(store: EmbeddedStore) -> None:
    report = write(store, made(5, symbols=1, first_seq=0))
    assert report.counts["fork"] >= 1
    assert "the chain begins at seq 1" in report.problems[0].message


def test_the_park_is_bounded(store: EmbeddedStore) -> None:
    report = write(store, made(50, symbols=1)[1:], parked_records=10)
    assert (report.parked, report.refused) == (10, 39)
    assert report.counts["full"] == 39


def test_what_is_parked_twice_counts_once(tmp_path: Path) -> None:
    records = made(20, symbols=1)
    late = records[:2] + records[10:]
    for given in (late, late, late + late):
        report = written(tmp_path / "sot", given)
        assert (report.parked, report.refused, dict(report.counts)) == (10, 0, {"gap": 10})
    assert report.duplicates == 2 * 2 + 2 * 10
    assert written(tmp_path / "sot", records).complete


def test_a_full_park_takes_again_what_it_has(tmp_path: Path) -> None:
    records = made(20, symbols=1)
    late = records[:2] + records[10:]
    for given in (late, late + late):
        report = written(tmp_path / "sot", given, parked_records=10)
        assert (report.parked, report.refused) == (10, 0)
    report = written(tmp_path / "sot", records[:2] + records[9:], parked_records=10)
    assert (report.parked, report.refused, report.counts["full"]) == (10, 1, 1)
    report = written(tmp_path / "sot", records[2:10], parked_records=10)
    assert (report.parked, report.written) == (0, 18)


def test_a_parked_record_that_does_not_follow_what_arrived_is_named(tmp_path: Path) -> None:
    records, others = made(20, symbols=1), made(20, symbols=1, seed=2)
    written(tmp_path / "sot", [*records[:2], others[3]])
    report = written(tmp_path / "sot", records[2:3])
    assert (report.written, report.parked, dict(report.counts)) == (1, 1, {"link": 1})
    assert "symbol 1, seq 4: prev_hash" in str(report.problems[0])
    report = written(tmp_path / "sot", records[3:])
    assert dict(report.counts) == {"fork": 1}
    store = EmbeddedStore(tmp_path / "sot")
    assert frames_of(store, 1) == run_of(records, 1)
    store.close()


def test_evidence_of_an_earlier_run_does_not_make_a_sound_one_partial(tmp_path: Path) -> None:
    records, others = made(20, symbols=1), made(20, symbols=1, seed=2)
    assert not written(tmp_path / "sot", [*records[:5], others[2]]).complete
    report = written(tmp_path / "sot", records)
    assert report.complete
    assert report.parked == 1
