"""One node of three killed while a stream is written: nothing acknowledged is lost."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from headrace.sot.cql import open_cql
from headrace.sot.frames import STREAM_MAGIC, join
from headrace.sot.recover import recover
from headrace.sot.sample_records import StreamSpec, generate
from headrace.sot.sources.places import find_places
from headrace.sot.sources.reading import read_places
from headrace.sot.verify import verify_store
from headrace.sot.writing.messages import Ack
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.write import WriteReport, write_stream
from tests.support.cassandra import running_cluster

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(600)]

RECORDS = 12_000
SYMBOLS = 8


def test_a_node_killed_under_load_costs_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    stream = STREAM_MAGIC + join(
        made.body for made in generate(StreamSpec(records=RECORDS, symbols=SYMBOLS))
    )
    (tmp_path / "in.sot").write_bytes(stream)
    with running_cluster(tmp_path / "cluster", nodes=3) as cluster:
        location = f"{cluster.location}/sot?replication=3&consistency=quorum"
        store = open_cql(location, request_timeout_s=5.0, bucket_bytes=30_000)
        acknowledged: dict[int, int] = {}
        killed_at: list[int] = []
        enough = threading.Event()

        def on_acks(acks: list[Ack]) -> None:
            for ack in acks:
                acknowledged[ack.symbol_id] = max(acknowledged.get(ack.symbol_id, 0), ack.end)
            if sum(acknowledged.values()) > RECORDS // 4:
                enough.set()

        def kill_one() -> None:
            enough.wait()
            cluster.nodes[1].kill()
            killed_at.append(sum(end - 1 for end in list(acknowledged.values())))

        killer = threading.Thread(target=kill_one)
        killer.start()
        chunks = read_places(find_places(str(tmp_path / "in.sot")))
        report = write_stream(
            chunks, store, WriteOptions(shards=8, batch_records=100), on_acks=on_acks
        )
        killer.join()
        assert killed_at
        assert killed_at[0] < RECORDS, "it was over before the kill"
        assert_all_written(report)
        store.close()
        # With the killed node still down, and then with another one down instead of it.
        assert_stored(location, acknowledged, stream, tmp_path / "two-of-three.sot")
        cluster.nodes[1].start()
        cluster.nodes[1].wait()
        time.sleep(5.0)
        cluster.nodes[2].kill()
        assert_stored(location, acknowledged, stream, tmp_path / "the-other-two.sot")


def assert_all_written(report: WriteReport) -> None:
    assert report.counts == {}
    assert report.written + report.duplicates == RECORDS
    assert report.complete


def assert_stored(location: str, acknowledged: dict[int, int], stream: bytes, out: Path) -> None:
    store = open_cql(location, create=False, request_timeout_s=5.0)
    heads = {symbol_id: store.head(symbol_id) for symbol_id in store.symbols()}
    for symbol_id, end in acknowledged.items():
        head = heads[symbol_id]
        assert head is not None
        assert head.position.next_seq >= end, symbol_id
    assert verify_store(store, mark=False).good
    assert recover(store, str(out)).complete
    assert out.read_bytes() == stream
    store.close()
