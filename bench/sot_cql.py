"""The log on Apache Cassandra: rate against shards, and a replay.

    python -m bench sot-cql [RECORDS]

One node with one copy, started for the bench with `commitlog_sync: batch`, on the same machine as
the writer: what is shown is how waiting overlaps over shards, not what a cluster can do. Another
server is measured by `HEADRACE_CQL_HOSTS=host[:port]`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.machine import machine_state, save
from headrace.sot.cql import open_cql
from headrace.sot.frames import STREAM_MAGIC, join
from headrace.sot.recover import recover
from headrace.sot.sample_records import StreamSpec, generate
from headrace.sot.sources.places import find_places
from headrace.sot.sources.reading import read_places
from headrace.sot.verify import verify_store
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.write import write_stream
from tests.support.cassandra import configured_cluster, running_cluster

RECORDS, SIZE_BYTES, SYMBOLS = 100_000, 300, 8
SHARDS = (1, 2, 4, 8)


def run(arguments: Sequence[str]) -> dict[str, Any]:
    """Write the same stream with each number of shards, then verify and replay the last."""
    records = int(arguments[0]) if arguments else RECORDS
    with ExitStack() as opened:
        scratch = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        cluster = configured_cluster() or opened.enter_context(
            running_cluster(scratch / "cassandra", nodes=1, heap_mb=1024)
        )
        source = scratch / "in.sot"
        spec = StreamSpec(records=records, symbols=SYMBOLS, size_bytes=SIZE_BYTES)
        source.write_bytes(STREAM_MAGIC + join(made.body for made in generate(spec)))
        location = f"{cluster.location}/bench_{uuid4().hex[:12]}"
        # The first writes of a fresh JVM are several times as slow, and of no interest.
        _written(location + "_0", source, 8)
        rows = []
        print("shards      rec/s   batch p50 ms   batch p99 ms   delay p99 ms")
        for shards in SHARDS:
            row = _written(f"{location}_{shards}", source, shards)
            rows.append(row)
            print(
                f"{shards:>6} {row['per_s']:>10,} {row['batch_p50_ms']:>14} "
                f"{row['batch_p99_ms']:>14} {row['delay_p99_ms']:>14}",
                flush=True,
            )
        result = {"records": records, "rows": rows, **_read(f"{location}_{SHARDS[-1]}", scratch)}
        print(f"verify {result['verify_per_s']:,}/s, replay {result['replay_per_s']:,}/s")
    save("sot-cql", {**result, "machine": machine_state()})
    return result


def _written(location: str, source: Path, shards: int) -> dict[str, Any]:
    store = open_cql(location)
    chunks = read_places(find_places(str(source)))
    report = write_stream(chunks, store, WriteOptions(shards=shards))
    store.close()
    if not report.complete:
        raise RuntimeError(f"the write is not complete: {report.counts}")
    batches = [shard.commit for shard in report.shards if shard.records]
    delays = [shard.delay for shard in report.shards if shard.records]
    return {
        "shards": shards,
        "per_s": round(report.written / report.elapsed_s),
        "batch_p50_ms": round(1000 * max(each.quantile(0.5) for each in batches), 1),
        "batch_p99_ms": round(1000 * max(each.quantile(0.99) for each in batches), 1),
        "delay_p99_ms": round(1000 * max(each.quantile(0.99) for each in delays), 1),
    }


def _read(location: str, scratch: Path) -> dict[str, Any]:
    store = open_cql(location)
    started_s = time.monotonic()
    verified = verify_store(store, mark=False)
    verify_s = time.monotonic() - started_s
    replay = recover(store, str(scratch / "out.sot"))
    store.close()
    if not (verified.good and replay.complete):
        raise RuntimeError("what was written is not what is read")
    return {
        "verify_per_s": round(verified.records / verify_s),
        "replay_per_s": round(replay.records / replay.elapsed_s),
    }
