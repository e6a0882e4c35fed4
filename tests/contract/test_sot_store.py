"""One suite for every store of the log: volumes in a folder, and CQL as Apache Cassandra speaks it.

What a store must never do is fork a chain, write over a record, lose what it acknowledged or hand
out numbers other than those that went in.
"""

from __future__ import annotations

import multiprocessing
import random
from dataclasses import replace

import pytest

from headrace.sot.chain import follow, genesis
from headrace.sot.exceptions import StoreUnavailable
from headrace.sot.frames import bodies, identity
from headrace.sot.opening import open_store
from headrace.sot.record import U64_MAX
from headrace.sot.store import Answer, Head, Parked, SotStore
from tests.support.cassandra import cassandra
from tests.support.sot_chains import Chain, fresh_chain, stored_frames
from tests.support.sot_stores import Backend, backend, store
from tests.support.sot_streams import made, write

__all__ = ["backend", "cassandra", "store"]

# A first run fetches the server and starts it.
pytestmark = pytest.mark.timeout(300)

ODD_SYMBOLS = (0, 1, 8, 2**31 - 1, 2**31, 2**32 - 1)
ODD_NUMBERS = (1, 2**63 - 1, 2**63, 2**64 - 1)


def test_an_unwritten_symbol_is_nothing(store: SotStore) -> None:
    assert store.symbols() == []
    assert store.head(7) is None
    assert list(store.scan(7)) == []
    assert list(store.parked(7)) == []
    assert store.verified(7) is None
    assert store.damages() == []


def test_nothing_is_written_without_a_claim(store: SotStore) -> None:
    with pytest.raises(ValueError, match="never claimed"):
        store.commit([fresh_chain(7).batch()])
    assert store.head(7) is None


def test_a_claim_begins_a_chain_and_the_next_one_raises_the_epoch(store: SotStore) -> None:
    first = store.claim(7, first_seq=1)
    assert (first.epoch, first.first_seq, first.position) == (1, 1, genesis(7, 1))
    assert store.claim(7, first_seq=1).epoch == 2
    assert store.head(7) == Head(7, 2, 1, genesis(7, 1))
    assert store.symbols() == [7]


def test_where_a_chain_begins_is_open_until_it_has_begun(store: SotStore) -> None:
    store.claim(7, first_seq=1)
    chain = Chain.claimed(store, 7, first_seq=100)
    assert chain.position == genesis(7, 100)
    chain.write(store)
    again = store.claim(7, first_seq=5)
    assert (again.first_seq, again.position) == (100, chain.position)


def test_what_was_written_is_read_back_byte_for_byte(backend: Backend, store: SotStore) -> None:
    chain = Chain.claimed(store, 7)
    for count in (1, 3, 40):
        chain.write(store, count, data=random.Random(count).randbytes(100))
    assert stored_frames(store, 7) == chain.frames
    assert stored_frames(backend.open(), 7) == chain.frames
    head = backend.open().head(7)
    assert head is not None
    assert head.position == chain.position
    assert follow(chain.frames, 0, 7, genesis(7)).position == chain.position


def test_the_same_batch_again_changes_nothing(store: SotStore) -> None:
    chain = Chain.claimed(store, 7)
    batch = chain.write(store, 3)
    (outcome,) = store.commit([batch])
    assert (outcome.answer, outcome.head.position) == (Answer.MOVED, chain.position)
    chain.write(store, 2)
    (outcome,) = store.commit([batch])
    assert (outcome.answer, outcome.head.position) == (Answer.MOVED, chain.position)
    assert stored_frames(store, 7) == chain.frames


def test_other_content_at_the_same_place_is_refused_and_the_first_stays(store: SotStore) -> None:
    chain = Chain.claimed(store, 7)
    twin = replace(chain)
    chain.write(store, 3, data=b"first")
    (outcome,) = store.commit([twin.batch(3, data=b"second")])
    assert outcome.answer is Answer.MOVED
    assert stored_frames(store, 7) == chain.frames


def test_a_gap_is_refused(store: SotStore) -> None:
    chain = Chain.claimed(store, 7)
    skipped = chain.batch(2)
    (outcome,) = store.commit([chain.batch(1)])
    assert (outcome.answer, outcome.head.position) == (Answer.MOVED, skipped.before)
    assert list(store.scan(7)) == []


def test_a_writer_whose_symbol_was_claimed_is_fenced(backend: Backend, store: SotStore) -> None:
    older = Chain.claimed(store, 7)
    older.write(store, 2)
    other = backend.open()
    newer = Chain.claimed(other, 7)
    (outcome,) = store.commit([replace(older).batch(1)])
    assert (outcome.answer, outcome.head.epoch) == (Answer.FENCED, 2)
    newer.write(other, 1)
    assert stored_frames(store, 7) == older.frames + newer.frames


def test_batches_of_many_symbols_stand_for_themselves(store: SotStore) -> None:
    chains = [Chain.claimed(store, symbol_id) for symbol_id in (0, 8, 16)]
    good = [chain.batch(2) for chain in chains]
    stale = replace(good[1], epoch=99)
    outcomes = store.commit([good[0], stale, good[2]])
    answers = [outcome.answer for outcome in outcomes]
    assert answers == [Answer.COMMITTED, Answer.FENCED, Answer.COMMITTED]
    assert [outcome.head.symbol_id for outcome in outcomes] == [0, 8, 16]
    assert stored_frames(store, 8) == b""
    assert stored_frames(store, 16) == chains[2].frames


def test_more_of_one_symbol_in_a_call_than_the_store_takes_is_a_mistake(store: SotStore) -> None:
    chain = Chain.claimed(store, 7)
    with pytest.raises(ValueError, match="per symbol"):
        store.commit([chain.batch() for _ in range(store.limits.together + 1)])


def test_batches_of_one_symbol_go_on_from_each_other(store: SotStore) -> None:
    chains = [Chain.claimed(store, symbol_id) for symbol_id in (7, 8, 15)]
    for count in range(1, store.limits.together + 1):
        batches = [chain.batch(2) for _ in range(count) for chain in chains]
        outcomes = store.commit(batches)
        assert {outcome.answer for outcome in outcomes} == {Answer.COMMITTED}
        assert [outcome.head.position for outcome in outcomes] == [b.after for b in batches]
    for chain in chains:
        assert stored_frames(store, chain.symbol_id) == chain.frames


def test_with_a_batch_those_of_its_symbol_behind_it_are_refused(store: SotStore) -> None:
    if store.limits.together < 4:
        pytest.skip("it takes fewer batches of one symbol")
    chain, other = Chain.claimed(store, 7), Chain.claimed(store, 15)
    again = chain.write(store, 2)
    fits, fits_too = chain.batch(1), chain.batch(1)
    fenced = replace(chain.batch(1), epoch=99)
    other_batch = other.batch(1)
    outcomes = store.commit([again, fits, other_batch, fits_too])
    assert [outcome.answer for outcome in outcomes] == ["moved", "moved", "committed", "moved"]
    assert {o.head.position for o in (outcomes[0], *outcomes[1::2])} == {again.after}
    outcomes = store.commit([fits, fits_too, fenced, chain.batch(1)])
    assert [outcome.answer for outcome in outcomes] == ["committed"] * 2 + ["fenced"] * 2
    assert outcomes[-1].head.position == fits_too.after
    assert stored_frames(store, 7) == again.frames + fits.frames + fits_too.frames


def test_symbols_are_claimed_together_as_one_by_one(store: SotStore) -> None:
    store.claim(8, first_seq=1)
    chain = Chain.claimed(store, 7)
    chain.write(store, 3)
    heads = store.claim_all([23, 8, 7, 15], first_seq=5)
    assert [(head.symbol_id, head.epoch) for head in heads] == [(23, 1), (8, 2), (7, 2), (15, 1)]
    assert [head.first_seq for head in heads] == [5, 5, 1, 5]
    assert heads[2].position == chain.position
    assert [store.head(head.symbol_id) for head in heads] == heads
    assert store.claim_all([], first_seq=1) == []


def test_interleaved_symbols_of_one_shard_keep_their_own_chains(store: SotStore) -> None:
    chains = {symbol_id: Chain.claimed(store, symbol_id) for symbol_id in (0, 8, 16)}
    order = random.Random(5)
    for _ in range(30):
        chain = chains[order.choice((0, 8, 16))]
        chain.write(store, order.randint(1, 30))
    for symbol_id, chain in chains.items():
        assert stored_frames(store, symbol_id) == chain.frames


@pytest.mark.parametrize("first_seq", [0, 1, 2**63 - 5, 2**63, U64_MAX - 9])
def test_sequences_are_unsigned_and_in_unsigned_order(store: SotStore, first_seq: int) -> None:
    chain = Chain.claimed(store, 2**32 - 1, first_seq)
    for count in (2, 4, 1, 3):
        chain.write(store, count)
    found = [identity(body) for body in bodies(stored_frames(store, 2**32 - 1))]
    assert found == [(2**32 - 1, first_seq + n) for n in range(10)]
    head = store.head(2**32 - 1)
    assert head is not None
    assert (head.first_seq, head.position) == (first_seq, chain.position)


def test_a_full_chain_says_so_and_takes_nothing_more(backend: Backend, store: SotStore) -> None:
    chain = Chain.claimed(store, 7, U64_MAX - 1)
    chain.write(store, 2)
    head = backend.open().head(7)
    assert head is not None
    assert head.position.full
    assert head.position.next_seq == 2**64


def test_hashes_are_unsigned(backend: Backend, store: SotStore) -> None:
    chain = Chain.claimed(store, 7)
    for hash_ in ODD_NUMBERS:
        chain.write(store, 1, hashes=[hash_])
    read = backend.open()
    assert [block.after.hash for block in read.scan(7) if block.after] == list(ODD_NUMBERS)
    assert stored_frames(read, 7) == chain.frames


def test_symbols_are_unsigned_and_ascending(backend: Backend, store: SotStore) -> None:
    for symbol_id in random.Random(1).sample(ODD_SYMBOLS, len(ODD_SYMBOLS)):
        Chain.claimed(store, symbol_id).write(store, 2)
    store.park([Parked(4096, 5, b"body", "gap")])
    assert backend.open().symbols() == sorted((*ODD_SYMBOLS, 4096))


def test_a_scan_may_begin_and_end_anywhere(store: SotStore) -> None:
    chain = Chain.claimed(store, 7, first_seq=10)
    dice = random.Random(3)
    while chain.position.next_seq < 110:
        chain.write(store, dice.randint(1, 9), data=dice.randbytes(30))
    last = chain.position.next_seq - 1
    spans = [(10, 10), (last, last), (0, 5), (0, last), (last + 1, last + 9), (50, 49)]
    spans += [(lo := dice.randint(0, last), dice.randint(lo, last + 5)) for _ in range(12)]
    for lo, hi in spans:
        found = {
            identity(body)[1]
            for block in store.scan(7, from_seq=lo, to_seq=hi)
            for body in bodies(block.frames)
        }
        wanted = set(range(max(lo, 10), min(hi, last) + 1))
        assert wanted <= found, (lo, hi)
        # Blocks may stick out, but nothing beyond them is read.
        assert not found or len(found) <= len(wanted) + 18, (lo, hi)


def test_a_scan_shows_the_chain_as_it_stood_at_the_call(backend: Backend, store: SotStore) -> None:
    chain = Chain.claimed(store, 7)
    chain.write(store, 5)
    frames = chain.frames
    scan = backend.open().scan(7)
    chain.write(store, 5)
    assert b"".join(block.frames for block in scan) == frames


def test_large_and_incompressible_records_go_through(store: SotStore) -> None:
    chain = Chain.claimed(store, 7)
    noise = random.Random(9).randbytes(store.limits.size_bytes)
    chain.write(store, 1, data=noise)
    chain.write(store, 1, data=b"")
    assert stored_frames(store, 7) == chain.frames


def test_parked_records_come_back_by_unsigned_sequence(backend: Backend, store: SotStore) -> None:
    records = [
        Parked(7, U64_MAX, b"last", "gap"),
        Parked(7, 2**63, b"middle", "link"),
        Parked(7, 3, b"first", "fork"),
        Parked(7, 3, b"first, but other", "fork"),
        Parked(2**32 - 1, 1, b"another symbol's", "gap"),
    ]
    store.park(records)
    store.park([replace(records[0], reason="link"), records[1]])
    found = list(backend.open().parked(7))
    assert [record.seq for record in found] == [3, 3, 2**63, U64_MAX]
    assert {record.body for record in found} == {record.body for record in records[:4]}
    assert store.head(7) is None
    store.unpark([records[2], Parked(7, 55, b"never parked", "gap")])
    left = list(backend.open().parked(7))
    assert [record.body for record in left] == [b"first, but other", b"middle", b"last"]
    store.park([records[2]])
    assert len(list(store.parked(7))) == 4


def test_parking_again_changes_the_reason_and_nothing_else(
    backend: Backend, store: SotStore
) -> None:
    records = [Parked(7, seq, b"body", "gap") for seq in (3, 2**63, U64_MAX)]
    store.park(records)
    changed = replace(records[1], reason="fork")
    store.park([records[0], changed])
    wanted = [records[0], changed, records[2]]
    assert list(store.parked(7)) == wanted
    assert list(backend.open().parked(7)) == wanted
    store.unpark([records[1]])
    assert list(backend.open().parked(7)) == [records[0], records[2]]


class _Failing:
    """A store whose n-th change of what is parked finds no space."""

    def __init__(self, store: SotStore, change: int) -> None:
        self._store = store
        self.left = change

    def __getattr__(self, name: str) -> object:
        if name in ("park", "unpark"):
            self.left -= 1
            if self.left == 0:
                raise StoreUnavailable("there", "writing", "No space left on device")
        return getattr(self._store, name)


def test_a_parked_record_that_turns_out_to_be_a_fork_is_kept_at_every_moment(
    backend: Backend, store: SotStore
) -> None:
    records, others = made(20, symbols=1), made(20, symbols=1, seed=2)
    write(store, [*records[:1], others[2]])
    assert [parked.reason for parked in store.parked(1)] == ["gap"]
    for change in range(1, 10):
        failing = _Failing(backend.open(), change)
        try:
            write(failing, records)  # type: ignore[arg-type]
        except StoreUnavailable:
            assert [parked.body for parked in backend.open().parked(1)] == [others[2].body]
        else:
            break
    assert change > 1
    assert [parked.reason for parked in backend.open().parked(1)] == ["fork"]


def test_many_parked_records(store: SotStore) -> None:
    records = [Parked(7, seq, seq.to_bytes(8, "big") * 20, "gap") for seq in range(2, 350)]
    store.park(records)
    assert list(store.parked(7)) == records
    store.unpark(records[:300])
    assert list(store.parked(7)) == records[300:]


def test_what_was_verified_is_remembered(backend: Backend, store: SotStore) -> None:
    chain = Chain.claimed(store, 7, first_seq=2**63)
    chain.write(store, 3)
    store.mark_verified(7, chain.position)
    assert backend.open().verified(7) == chain.position
    assert store.verified(8) is None
    assert store.damages() == []


def test_closing_twice_is_no_error(backend: Backend) -> None:
    store = backend.open()
    store.close()
    store.close()


def _append_on_and_on(location: str, times: int, reported: multiprocessing.Queue[object]) -> None:
    """Read the head, make a record, write it, as deployments do that know nothing of each other."""
    store = open_store(location)
    acknowledged = []
    epoch = None
    while len(acknowledged) < times:
        head = store.head(5)
        if head is None or epoch != head.epoch:
            # Without an owner they would take it from each other for ever; one epoch for all.
            head = head or store.claim(5, first_seq=1)
            epoch = head.epoch
        batch = Chain.at(head).batch(1, data=random.randbytes(8))
        (outcome,) = store.commit([batch])
        if outcome.answer is Answer.COMMITTED:
            acknowledged.append((batch.before.next_seq, batch.frames))
    reported.put(acknowledged)
    reported.close()
    reported.join_thread()
    store.close()


def test_six_processes_appending_to_one_symbol_never_fork_it(backend: Backend) -> None:
    store = backend.open()
    store.claim(5, first_seq=1)
    context = multiprocessing.get_context("spawn")
    reported: multiprocessing.Queue[object] = context.Queue()
    times = 50 if backend.kind == "embedded" else 8
    writers = [
        context.Process(target=_append_on_and_on, args=(backend.location, times, reported))
        for _ in range(6)
    ]
    for writer in writers:
        writer.start()
    acknowledged = dict(entry for _ in writers for entry in reported.get(timeout=100))  # type: ignore[attr-defined]
    for writer in writers:
        writer.join(timeout=20)
    stored = stored_frames(store, 5)
    followed = follow(stored, 0, 5, genesis(5))
    assert followed.error is None
    assert followed.position.next_seq == 6 * times + 1 == len(acknowledged) + 1
    assert b"".join(acknowledged[seq] for seq in sorted(acknowledged)) == stored
