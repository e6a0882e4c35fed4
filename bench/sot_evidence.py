"""Evidence of the log: what trees cost, how quick proofs and point reads are, how far a tail lags.

`rates`: writing and verifying with tiles and without, in turn, by processor time. `get` and
`prove`: on a log of ten and of a hundred million records, made here. `tail`: the delay from a
commit to the record in a tail's hands, beside a writer of another process at half its speed; and
from the commit of the last record that comes before it in the order.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from bench.machine import machine_state, save
from headrace.sot.chain import follow
from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.encoding import FRAME_ROUTE, HEADER, LENGTH_BYTES
from headrace.sot.frames import STREAM_MAGIC, Chunk, frame
from headrace.sot.reading import read_frames
from headrace.sot.sample_records import StreamSpec, generate
from headrace.sot.sources.places import find_places
from headrace.sot.sources.reading import read_places
from headrace.sot.store import Batch, Outcome
from headrace.sot.tailing import Tail
from headrace.sot.tree.checking import inclusion_holds
from headrace.sot.tree.symbol_tree import SymbolTree
from headrace.sot.tree.tiles import TileBuilder, TileWriter
from headrace.sot.verify import verify_store
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.write import write_stream
from headrace.stopping import StopEvent

RECORDS, TURNS = 400_000, 5
TAILED = 500_000
LOOKS = 1000


def run(arguments: Sequence[str]) -> dict[str, Any]:
    """All parts, or those named in the arguments."""
    parts: dict[str, Callable[[Path], Any]] = {
        "rates": _rates,
        "get": lambda scratch: _looks(scratch, 10_000_000, 300),
        "prove": lambda scratch: _looks(scratch, 100_000_000, LENGTH_BYTES + HEADER.size),
        "tail": _tail,
    }
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in [name for name in arguments if name in parts] or list(parts):
            results[name] = parts[name](Path(scratch))
            print(json.dumps(results[name], indent=1), flush=True)
            save(f"sot-evidence-{name}", {name: results[name], "machine": machine_state()})
    return results


def _rates(scratch: Path) -> dict[str, Any]:
    stream = _stream(scratch, RECORDS)
    seconds: dict[str, list[float]] = {}
    for turn in range(TURNS):
        for kind, without in (("without", True), ("with", False)):
            folder = scratch / f"log-{turn}-{kind}"
            with _tiles_left_out() if without else mock.patch.dict({}):
                store = EmbeddedStore(folder)
                began_s = time.process_time()
                write_stream(read_places(find_places(str(stream))), store, _HERE)
                seconds.setdefault(f"write {kind}", []).append(time.process_time() - began_s)
                store.close()
                store = EmbeddedStore(folder)
                began_s = time.process_time()
                assert verify_store(store, processes=0).good
                seconds.setdefault(f"verify {kind}", []).append(time.process_time() - began_s)
                store.close()
    best = {name: min(values) for name, values in seconds.items()}
    return {
        "records": RECORDS,
        "cpu_us_per_record": {n: round(v / RECORDS * 1e6, 2) for n, v in best.items()},
        "write_ratio": round(best["write without"] / best["write with"], 3),
        "verify_ratio": round(best["verify without"] / best["verify with"], 3),
    }


_HERE = WriteOptions(processes=0)


@contextmanager
def _tiles_left_out() -> Iterator[None]:
    with (
        mock.patch.object(TileWriter, "add", return_value=None),
        mock.patch.object(TileBuilder, "add", return_value=[]),
    ):
        yield


def _looks(scratch: Path, records: int, size_bytes: int) -> dict[str, Any]:
    folder = scratch / f"log-{records}"
    _fill(folder, records, size_bytes - LENGTH_BYTES - HEADER.size)
    store = EmbeddedStore(folder)
    began_s = time.perf_counter()
    store.head(7)
    opened_s = time.perf_counter() - began_s
    chosen = random.Random(1)

    def read() -> int:
        seq = chosen.randint(1, records)
        return sum(map(len, read_frames(store, 7, seq, seq)))

    def prove() -> int:
        tree, seq = SymbolTree(store, 7), chosen.randint(1, records)
        proof = tree.inclusion(seq)
        assert inclusion_holds(proof, tree.frame(seq))
        return len(json.dumps(proof.as_dict()))

    found = {
        "records": records,
        "size_bytes": size_bytes,
        "open_s": round(opened_s, 2),
        "get": _timed(read, LOOKS),
        "prove": _timed(prove, LOOKS // 10),
        "proof_bytes": max(prove() for _ in range(20)),
    }
    store.close()
    return found


def _timed(look: Callable[[], int], times: int) -> dict[str, float]:
    wall, cpu = [], []
    for _ in range(times):
        began, began_cpu = time.perf_counter(), time.process_time()
        look()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
    return {
        "p50_ms": _ms(wall, 0.5),
        "p99_ms": _ms(wall, 0.99),
        "cpu_p50_ms": _ms(cpu, 0.5),
        "cpu_p99_ms": _ms(cpu, 0.99),
    }


def _ms(values: list[float], share: float) -> float:
    return round(sorted(values)[int(len(values) * share)] * 1e3, 2)


def _fill(folder: Path, records: int, data_bytes: int) -> None:
    """One symbol with carried hashes; half of each record's data is noise."""
    import numpy as np

    store = EmbeddedStore(folder)
    head = store.claim(7, first_seq=1)
    tiles = TileWriter(store, 7, 1, 1)
    size = HEADER.size + data_bytes
    layout = np.dtype(
        {
            "names": ["length", "hash", "version", "symbol", "seq", "prev", "input", "of", "data"],
            "formats": ["<u4", "<u8", "u1", "<u4", "<u8", "<u8", "<u8", "<u4", "<u4"],
            "offsets": [0, 4, 12, 16, 20, 28, 36, 48, 52],
            "itemsize": size + LENGTH_BYTES,
        }
    )
    run = np.zeros(2000, layout)
    run["length"], run["version"], run["symbol"], run["of"] = size, 1, 7, 7
    run["data"] = data_bytes
    raw = run.view(np.uint8).reshape(2000, -1)
    noise = np.random.default_rng(1)
    position = head.position
    while position.next_seq <= records:
        seqs = np.arange(position.next_seq, position.next_seq + 2000, dtype=np.uint64)
        run["seq"], run["input"], run["hash"], run["prev"] = seqs, seqs, seqs, seqs - 1
        if data_bytes:
            raw[:, -(data_bytes // 2) :] = noise.integers(0, 256, (2000, data_bytes // 2))
        frames = run.tobytes()
        followed = follow(frames, 0, 7, position)
        assert followed.offset == len(frames)
        store.commit([Batch(7, head.epoch, position, followed.position, frames)])
        tiles.add(position.next_seq, followed.digests)
        position = followed.position
    store.close()


def _stream(scratch: Path, records: int) -> Path:
    path = scratch / f"{records}.sot"
    if not path.exists():
        with path.open("wb") as file:
            file.write(STREAM_MAGIC)
            for made in generate(StreamSpec(records=records)):
                file.write(frame(made.body))
    return path


def _tail(scratch: Path) -> dict[str, Any]:
    stream = _stream(scratch, TAILED)
    full = _writer(scratch / "full", stream, 0.0)
    per_s = TAILED / full["elapsed_s"]
    stop, got = StopEvent(), []
    folder = scratch / "half"
    EmbeddedStore(folder).close()
    pool = multiprocessing.get_context("spawn").Pool(1)
    pending = pool.apply_async(_writer, (folder, stream, per_s / 2))
    store = EmbeddedStore(folder)
    tail = Tail(store, follow=True, stop=stop)
    threading.Thread(
        target=lambda: (pending.wait(), time.sleep(3), stop.set()), daemon=True
    ).start()
    began_cpu = time.process_time()
    for batch in tail.batches():
        now_s = time.monotonic()
        got.append((now_s, [FRAME_ROUTE.unpack_from(one)[1:] for one in batch]))
    cpu_s = time.process_time() - began_cpu
    half = pending.get()
    pool.close()
    committed: dict[int, list[tuple[int, float]]] = {}
    for symbol_id, next_seq, at_s in half["commits"]:
        committed.setdefault(symbol_id, []).append((next_seq, at_s))
    delays, own, whole_s = [], [], 0.0
    for now_s, routes in got:
        for symbol_id, seq in routes:
            commits = committed[symbol_id]
            while commits[0][0] <= seq:
                commits.pop(0)
            # It cannot be handed on before all that comes before it in the order was committed.
            whole_s = max(whole_s, commits[0][1])
            delays.append(now_s - commits[0][1])
            own.append(now_s - whole_s)
    return {
        "records": len(delays),
        "writer_per_s": round(per_s),
        "half_per_s": round(TAILED / half["elapsed_s"]),
        "delay_p50_ms": _ms(delays, 0.5),
        "delay_p99_ms": _ms(delays, 0.99),
        "delay_max_ms": _ms(delays, 1 - 1e-9),
        "delay_behind_predecessors_p50_ms": _ms(own, 0.5),
        "delay_behind_predecessors_p99_ms": _ms(own, 0.99),
        "late": tail.late,
        "tail_cpu_us_per_record": round(cpu_s / len(delays) * 1e6, 2),
    }


def _writer(folder: Path, stream: Path, per_s: float) -> dict[str, Any]:
    """Write a stream in this process at a rate; when each commit was acknowledged."""
    commits: list[tuple[int, int, float]] = []

    class Noting(EmbeddedStore):
        def commit(self, batches: Sequence[Batch]) -> list[Outcome]:
            outcomes = super().commit(batches)
            at_s = time.monotonic()
            commits.extend((one.symbol_id, one.after.next_seq, at_s) for one in batches)
            return outcomes

    def paced() -> Iterator[Chunk]:
        began_s, done = time.monotonic(), 0
        for chunk in read_places(find_places(str(stream))):
            done += chunk.records
            if per_s:
                time.sleep(max(0.0, began_s + done / per_s - time.monotonic()))
            yield chunk

    store = Noting(folder)
    report = write_stream(paced(), store, _HERE)
    store.close()
    return {"elapsed_s": report.elapsed_s, "commits": commits}
