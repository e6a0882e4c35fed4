"""The log on a real CQL server: lost answers, races, damage, and settings that cannot work.

What every store must do is in tests/contract/test_sot_store.py; here is what only this one can.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headrace.sot.cql import CqlStore, open_cql
from headrace.sot.cql.chains import Chains
from headrace.sot.cql.session import CqlSession, Uncertain
from headrace.sot.exceptions import (
    DamagedLog,
    NewerLog,
    StoreMisconfigured,
    StoreUnavailable,
)
from headrace.sot.frames import STREAM_MAGIC, join
from headrace.sot.recover import RecoverOptions, recover
from headrace.sot.sample_records import StreamSpec, generate
from headrace.sot.sources.places import find_places
from headrace.sot.sources.reading import read_places
from headrace.sot.store import Answer
from headrace.sot.verify import verify_store
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.write import write_stream
from tests.services_fixtures import free_port
from tests.support.cassandra import Cluster, cassandra
from tests.support.sot_chains import Chain, stored_frames

__all__ = ["cassandra"]

# A first run fetches the server and starts it.
pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

SYMBOLS = (0, 1, 7, 8, 9, 100, 4096, 2**32 - 1)


@pytest.fixture(scope="module")
def keyspace(cassandra: Cluster) -> str:
    """One keyspace for the module: each test has symbols of its own."""
    return f"{cassandra.location}/sot_{uuid4().hex[:16]}"


@pytest.fixture
def store(keyspace: str) -> Iterator[CqlStore]:
    opened = open_cql(keyspace, bucket_bytes=1024, patience_s=10.0)
    yield opened
    opened.close()


@pytest.fixture
def cluster(cassandra: Cluster) -> Iterator[Any]:
    """A session that changes what it likes, as no session should."""
    from cassandra.cluster import Cluster as DriverCluster

    driver = DriverCluster(list(cassandra.hosts), port=cassandra.port)
    yield driver.connect()
    driver.shutdown()


_NEXT_SYMBOL = iter(range(1000, 100_000, 10))


@pytest.fixture
def symbol_id() -> int:
    return next(_NEXT_SYMBOL)


#: Fills a bucket of these tests with one commit, however well it is compressed.
NOISE = random.Random(1).randbytes(1500)

#: Stands for a request that got lost on its way.
LOST = object()


def lose_answers(
    store: CqlStore, monkeypatch: pytest.MonkeyPatch, *, times: int, happened: bool
) -> None:
    """The next conditional writes are not answered, whether they happened or not."""
    session = store._session
    applied, left = session.applied, [times]

    def unanswered(future: Any) -> bool:
        if left[0] and future is not None:
            left[0] -= 1
            if happened:
                applied(future)
            raise Uncertain("no answer")
        return applied(future)

    monkeypatch.setattr(session, "applied", unanswered)
    if not happened:
        begin, unsent = session.begin_conditional, [times]

        def not_sent(parts: Any) -> Any:
            if unsent[0]:
                unsent[0] -= 1
                return LOST
            return begin(parts)

        monkeypatch.setattr(session, "begin_conditional", not_sent)


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("times", [1, 2])
def test_a_commit_whose_answer_is_lost_is_stored_once(
    store: CqlStore, monkeypatch: pytest.MonkeyPatch, symbol_id: int, times: int, happened: bool
) -> None:
    chain = Chain.claimed(store, symbol_id)
    chain.write(store, 3)
    with monkeypatch.context() as patch:
        lose_answers(store, patch, times=times, happened=happened)
        chain.write(store, 4)
    chain.write(store, 2)
    assert stored_frames(store, symbol_id) == chain.frames


@pytest.mark.parametrize("happened", [True, False])
def test_a_claim_whose_answer_is_lost_is_made_once(
    store: CqlStore, monkeypatch: pytest.MonkeyPatch, symbol_id: int, happened: bool
) -> None:
    Chain.claimed(store, symbol_id).write(store, 1)
    with monkeypatch.context() as patch:
        lose_answers(store, patch, times=1, happened=happened)
        head = store.claim(symbol_id, first_seq=1)
    assert head.epoch == 2
    Chain.at(head).write(store, 1)


def test_a_batch_that_was_stored_is_known_even_after_another_writer_went_on(
    keyspace: str, store: CqlStore, monkeypatch: pytest.MonkeyPatch, symbol_id: int
) -> None:
    chain = Chain.claimed(store, symbol_id)
    other = open_cql(keyspace, bucket_bytes=1024)
    batch = chain.batch(2)
    applied = store._session.applied

    def overtaken(future: Any) -> bool:
        applied(future)
        monkeypatch.undo()
        Chain.at(other.claim(symbol_id, first_seq=1)).write(other, 3)
        raise Uncertain("no answer")

    monkeypatch.setattr(store._session, "applied", overtaken)
    (outcome,) = store.commit([batch])
    other.close()
    assert outcome.answer is Answer.COMMITTED
    assert (outcome.head.epoch, outcome.head.position.next_seq) == (2, 6)


def test_a_cluster_that_stays_silent_ends_the_patience(
    store: CqlStore, monkeypatch: pytest.MonkeyPatch, keyspace: str, symbol_id: int
) -> None:
    impatient = open_cql(keyspace, patience_s=0.3)
    chain = Chain.claimed(impatient, symbol_id)
    lose_answers(impatient, monkeypatch, times=10**6, happened=False)
    with pytest.raises(StoreUnavailable, match=f"storing symbol {symbol_id}"):
        impatient.commit([chain.batch()])
    impatient.close()
    head = store.head(symbol_id)
    assert head is not None
    assert head.position.next_seq == 1


def test_a_kill_between_two_buckets_is_made_good_by_the_next_writer(
    keyspace: str, store: CqlStore, symbol_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = Chain.claimed(store, symbol_id)
    chain.write(store, 30, data=NOISE)
    assert store._chains.known[symbol_id].closed
    # The next bucket was never begun. Two begin it at once, from different processes' memory.
    others = [open_cql(keyspace, bucket_bytes=1024) for _ in range(4)]
    heads: list[Any] = []
    barrier = threading.Barrier(4)

    def claim(other: CqlStore) -> None:
        barrier.wait()
        heads.append(other.claim(symbol_id, first_seq=1))

    threads = [threading.Thread(target=claim, args=(other,)) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(head.epoch for head in heads) == [2, 3, 4, 5]
    assert {head.position for head in heads} == {chain.position}
    assert stored_frames(others[0], symbol_id) == chain.frames
    for other in others:
        other.close()


#: How one could change the log behind its back, and what must be named: (CQL, first seq).
DAMAGE = [
    ("DELETE FROM {log} WHERE {bucket} AND output_seq = 11", 11),
    ("UPDATE {log} SET frames = 0xdeadbeef WHERE {bucket} AND output_seq = 11", 11),
    ("UPDATE {log} SET checksum = 5 WHERE {bucket} AND output_seq = 11", 11),
    ("UPDATE {log} SET raw_bytes = 2147483647 WHERE {bucket} AND output_seq = 11", 11),
    ("UPDATE {log} SET codec = 9 WHERE {bucket} AND output_seq = 11", 11),
    ("UPDATE {log} SET records = 9 WHERE {bucket} AND output_seq = 11", 11),
    ("UPDATE {log} SET records = -1 WHERE {bucket} AND output_seq = 11", 11),
    ("UPDATE {log} SET prev_hash = 7 WHERE {bucket} AND output_seq = 11", 11),
    ("UPDATE {log} SET hash = 7 WHERE {bucket} AND output_seq = 11", 11),
    ("UPDATE {log} SET digest = 0x00 WHERE {bucket} AND output_seq = 11", 11),
    ("DELETE digest FROM {log} WHERE {bucket} AND output_seq = 11", 11),
    ("DELETE FROM {log} WHERE {bucket} AND output_seq = 21", 21),
    ("DELETE FROM {log} WHERE {bucket} AND output_seq = 1", 1),
    ("DELETE FROM {log} WHERE {bucket}", None),
    ("DELETE head_digest FROM {log} WHERE {bucket}", None),
    ("UPDATE {log} SET head_next = 21 WHERE {bucket}", 20),
    ("UPDATE {log} SET head_next = 99 WHERE {bucket}", 31),
    ("UPDATE {log} SET head_hash = 3 WHERE {bucket}", 30),
    ("UPDATE {log} SET head_digest = 0x" + "00" * 32 + " WHERE {bucket}", 30),
]


@pytest.fixture(scope="module")
def damaged(keyspace: str, cassandra: Cluster) -> Iterator[tuple[CqlStore, list[Chain], Any]]:
    """A log with one symbol per kind of damage, opened again after it was done; and verified."""
    location = f"{cassandra.location}/sot_{uuid4().hex[:16]}"
    store = open_cql(location)
    chains = [Chain.claimed(store, symbol_id) for symbol_id in range(len(DAMAGE) + 1)]
    for _ in range(3):
        store.commit([chain.batch(10) for chain in chains])
    name = location.rpartition("/")[2]
    for symbol_id, (statement, _) in enumerate(DAMAGE):
        bucket = f"symbol_id = {symbol_id} AND bucket = 0"
        store._session.driver.execute(statement.format(log=f"{name}.sot_log", bucket=bucket))
    store.close()
    opened = open_cql(location)
    yield opened, chains, verify_store(opened)
    opened.close()


@pytest.mark.parametrize("symbol_id", range(len(DAMAGE)), ids=[text for text, _ in DAMAGE])
def test_any_damage_is_named_and_never_replayed_as_good(
    damaged: tuple[CqlStore, list[Chain], Any], tmp_path: Path, symbol_id: int
) -> None:
    store, chains, verified = damaged
    _, seq = DAMAGE[symbol_id]
    symbol = verified.symbols[symbol_id]
    mine = [text for text in verified.damages if text.startswith(f"symbol {symbol_id}")]
    said = " ".join([symbol.damage or "", *mine])
    assert f"symbol {symbol_id}" in said
    if seq is not None:
        first_of_block = (seq - 1) // 10 * 10 + 1
        assert f"seq {seq}" in said or f"seq {first_of_block}" in said, said
    report = recover(store, str(tmp_path / "out.sot"), RecoverOptions(symbols=(symbol_id,)))
    assert not report.complete
    content = Path(report.place).read_bytes()[len(STREAM_MAGIC) :]
    assert chains[symbol_id].frames.startswith(content)


def test_the_symbol_beside_the_damaged_ones_is_whole(
    damaged: tuple[CqlStore, list[Chain], Any], tmp_path: Path
) -> None:
    store, chains, verified = damaged
    sound = len(DAMAGE)
    assert verified.symbols[sound].damage is None
    report = recover(store, str(tmp_path / "out.sot"), RecoverOptions(symbols=(sound,)))
    assert report.complete
    assert (tmp_path / "out.sot").read_bytes() == STREAM_MAGIC + chains[sound].frames


def test_a_bucket_that_is_gone_is_missed(
    keyspace: str, cluster: Any, store: CqlStore, symbol_id: int
) -> None:
    chain = Chain.claimed(store, symbol_id)
    for _ in range(4):
        chain.write(store, 30, data=NOISE)
    last = store._chains.known[symbol_id].number
    assert last >= 3
    name = keyspace.rpartition("/")[2]
    for number in (1, last):
        cluster.execute(
            f"DELETE FROM {name}.sot_log WHERE symbol_id = {symbol_id} AND bucket = {number}"
        )
        fresh = open_cql(keyspace)
        with pytest.raises(DamagedLog, match=f"bucket {number}"):
            list(fresh.scan(symbol_id))
        fresh.close()


def test_a_writer_does_not_write_over_rows_behind_a_head_that_was_turned_back(
    keyspace: str, cluster: Any, symbol_id: int
) -> None:
    store = open_cql(keyspace)
    chain = Chain.claimed(store, symbol_id)
    chain.write(store, 5)
    kept = chain.position
    chain.write(store, 5)
    name = keyspace.rpartition("/")[2]
    cluster.execute(
        f"UPDATE {name}.sot_log SET head_next = {kept.next_seq}, head_digest = 0x"
        f"{kept.digest.hex()}, head_hash = {kept.hash - 2**64 * (kept.hash >= 2**63)} "
        f"WHERE symbol_id = {symbol_id} AND bucket = 0"
    )
    fresh = open_cql(keyspace, patience_s=5.0)
    again = Chain.claimed(fresh, symbol_id)
    with pytest.raises(DamagedLog, match="turned back"):
        fresh.commit([again.batch(5, data=b"other")])
    fresh.close()
    store.close()


def test_a_stream_is_written_verified_and_replayed_whatever_the_shards(
    keyspace: str, cassandra: Cluster, tmp_path: Path
) -> None:
    stream = STREAM_MAGIC + join(
        made.body for made in generate(StreamSpec(records=4000, symbol_ids=SYMBOLS, hot_share=0.5))
    )
    (tmp_path / "in.sot").write_bytes(stream)
    location = f"{cassandra.location}/sot_{uuid4().hex[:16]}"
    for shards in (8, 3):
        store = open_cql(location, bucket_bytes=20_000)
        chunks = read_places(find_places(str(tmp_path / "in.sot")))
        report = write_stream(chunks, store, WriteOptions(shards=shards, batch_records=100))
        assert report.complete
        assert report.written == (4000 if shards == 8 else 0)
        store.close()
    store = open_cql(location, create=False)
    assert verify_store(store).good
    replay = recover(store, str(tmp_path / "out.sot"))
    assert (tmp_path / "out.sot").read_bytes() == stream
    assert [symbol.symbol_id for symbol in replay.symbols] == list(SYMBOLS)
    store.close()


def test_a_newer_log_and_no_log_have_errors_of_their_own(cluster: Any, cassandra: Cluster) -> None:
    name = f"sot_{uuid4().hex[:16]}"
    location = f"{cassandra.location}/{name}"
    with pytest.raises(StoreMisconfigured, match="holds no source-of-truth log"):
        open_cql(location, create=False)
    open_cql(location).close()
    cluster.execute(f"UPDATE {name}.sot_meta SET value = '2' WHERE name = 'format'")
    with pytest.raises(NewerLog):
        open_cql(location)
    cluster.execute(f"DELETE FROM {name}.sot_meta WHERE name = 'format'")
    with pytest.raises(DamagedLog, match="format"):
        open_cql(location)


def test_settings_reach_the_driver(keyspace: str, symbol_id: int) -> None:
    from cassandra import ConsistencyLevel

    options = "protocol_version=4&consistency=all&serial_consistency=local_serial"
    store = open_cql(f"{keyspace}?{options}")
    session: CqlSession = store._session
    assert session.driver.cluster.protocol_version == 4
    settings = session.driver.cluster.profile_manager.default
    assert settings.consistency_level == ConsistencyLevel.ALL
    assert settings.serial_consistency_level == ConsistencyLevel.LOCAL_SERIAL
    Chain.claimed(store, symbol_id).write(store, 2)
    store.close()


def test_an_address_without_a_server_is_said_in_one_line() -> None:
    with pytest.raises(StoreUnavailable, match="connecting"):
        open_cql(f"cql://127.0.0.1:{free_port()}/sot", request_timeout_s=2.0)


def test_the_walk_begins_where_it_was_noted(keyspace: str, store: CqlStore, symbol_id: int) -> None:
    chain = Chain.claimed(store, symbol_id)
    for _ in range(3):
        chain.write(store, 30, data=NOISE)
    fresh = Chains(store._session)
    last = fresh.last(symbol_id)
    assert last is not None
    assert last.head == chain.position
