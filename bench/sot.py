"""The source-of-truth log: from an input file to a durable acknowledgement, and back.

`rate`: equal symbols over eight shards, frames of 300 bytes and of 1.7 kB, beside the floor of
`bench.sot_floor` (one process of it, and two) in the same run; JSON lines beside them.
`shards`: 1, 2, 4 and 8. `hot`: one symbol with 90 %. `verify`: recomputing. `memory`: ten million
records. Streams and stores lie in a temporary folder on the disk of `TMPDIR`.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machine import machine_state, save
from headrace.sot.output import WRITERS
from headrace.sot.sample_records import StreamSpec, generate
from headrace.sot.sources.reading import Format

SMALL, LARGE = 300, 1700
RECORDS = {SMALL: 1_500_000, LARGE: 400_000}
JSON_RECORDS = {SMALL: 200_000, LARGE: 50_000}
MANY = 10_000_000


def run(arguments: Sequence[str]) -> dict[str, Any]:
    """All parts, or those named in the arguments."""
    parts = {
        "rate": _rate,
        "shards": _shards,
        "hot": _hot,
        "verify": _verify,
        "memory": _memory,
    }
    chosen = [name for name in arguments if name in parts] or list(parts)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in chosen:
            results[name] = parts[name](Path(scratch))
            machine = machine_state()
            save(f"sot-{name}", {name: results[name], "machine": machine})
    return results


def _rate(scratch: Path) -> list[dict[str, Any]]:
    rows = []
    print("input         bytes    records     rec/s    floor/s   ratio   floor on 2   p99 delay ms")
    for size in (SMALL, LARGE):
        stream = _stream(scratch, Format.FRAMES, records=RECORDS[size], size_bytes=size)
        floor = _floor(scratch, stream, 1)
        written = _write(scratch, stream)
        floors = _floor(scratch, stream, 2)
        row = {
            "input": "frames",
            "size_bytes": size,
            "floor_per_s": floor,
            "floor_on_two_per_s": floors,
            "ratio": round(written["per_s"] / floor, 2),
            **written,
        }
        rows.append(row)
        _print_rate(row)
        stream.unlink()
    for size in (SMALL, LARGE):
        stream = _stream(scratch, Format.JSON_LINES, records=JSON_RECORDS[size], size_bytes=size)
        row = {"input": "JSON lines", "size_bytes": size, **_write(scratch, stream)}
        rows.append(row)
        _print_rate(row)
        stream.unlink()
    return rows


def _print_rate(row: dict[str, Any]) -> None:
    floor = f"{row['floor_per_s']:>10,} {row['ratio']:>7}" if "ratio" in row else " " * 18
    two = f"{row['floor_on_two_per_s']:>12,}" if "ratio" in row else " " * 12
    print(
        f"{row['input']:<12} {row['size_bytes']:>6} {row['records']:>10,} {row['per_s']:>9,} "
        f"{floor} {two} {row['delay_p99_ms']:>14}",
        flush=True,
    )


def _shards(scratch: Path) -> list[dict[str, Any]]:
    rows = []
    stream = _stream(scratch, Format.FRAMES, records=RECORDS[SMALL], size_bytes=SMALL)
    print("shards    rec/s   batch p50 ms   batch p99 ms   delay p99 ms")
    for shards in (1, 2, 4, 8):
        row = {"shards": shards, **_write(scratch, stream, shards=shards)}
        rows.append(row)
        print(
            f"{shards:>6} {row['per_s']:>8,} {row['batch_p50_ms']:>14} {row['batch_p99_ms']:>14} "
            f"{row['delay_p99_ms']:>14}",
            flush=True,
        )
    stream.unlink()
    return rows


def _hot(scratch: Path) -> dict[str, Any]:
    """Symbol 1 has 90 %; 9 shares its shard."""
    equal = _stream(scratch, Format.FRAMES, records=RECORDS[SMALL], size_bytes=SMALL, symbols=16)
    even = _write(scratch, equal)
    equal.unlink()
    skewed = _stream(
        scratch, Format.FRAMES, records=RECORDS[SMALL], size_bytes=SMALL, symbols=16, hot_share=0.9
    )
    hot = _write(scratch, skewed)
    skewed.unlink()

    def worst_cold_ms(row: dict[str, Any]) -> float:
        delays = row["delay_p99_by_symbol_ms"]
        return max(value for symbol, value in delays.items() if symbol != "1")

    result = {
        "equal_per_s": even["per_s"],
        "hot_per_s": hot["per_s"],
        "share_of_equal": round(hot["per_s"] / even["per_s"], 2),
        "equal_cold_p99_ms": worst_cold_ms(even),
        "hot_cold_p99_ms": worst_cold_ms(hot),
        "hot_symbol_p99_ms": hot["delay_p99_by_symbol_ms"]["1"],
        "same_shard_p99_ms": hot["delay_p99_by_symbol_ms"]["9"],
        "skew": hot["skew"],
    }
    print(json.dumps(result, indent=1), flush=True)
    return result


def _verify(scratch: Path) -> list[dict[str, Any]]:
    rows = []
    print("bytes    records   on 2 processes/s   on 1 process/s")
    for size in (SMALL, LARGE):
        stream = _stream(scratch, Format.FRAMES, records=RECORDS[size], size_bytes=size)
        _write(scratch, stream, keep=True)
        row: dict[str, Any] = {"size_bytes": size}
        for processes, name in ((2, "two_per_s"), (0, "one_per_s")):
            row |= {name: _verified(scratch / "store", processes, RECORDS[size])}
        row["records"] = RECORDS[size]
        rows.append(row)
        print(
            f"{size:>5} {row['records']:>10,} {row['two_per_s']:>18,} {row['one_per_s']:>16,}",
            flush=True,
        )
        stream.unlink()
        shutil.rmtree(scratch / "store")
    return rows


def _memory(scratch: Path) -> dict[str, Any]:
    """Ten million records: the largest of our processes, and all of them together."""
    stream = _stream(scratch, Format.FRAMES, records=MANY, size_bytes=SMALL)
    row = _write(scratch, stream)
    stream.unlink()
    result = {key: row[key] for key in ("records", "per_s", "peak_mb", "peak_together_mb")}
    print(json.dumps(result), flush=True)
    return result


def _stream(scratch: Path, format_: Format, **spec: Any) -> Path:
    path = scratch / f"stream.{format_}"
    with path.open("wb") as out:
        WRITERS[format_]((made.body for made in generate(StreamSpec(**spec))), out)
    _settle()
    return path


def _write(scratch: Path, stream: Path, *, shards: int = 8, keep: bool = False) -> dict[str, Any]:
    """In a process of its own, so that its memory is its own."""
    store = scratch / "store"
    shutil.rmtree(store, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "bench.sot", str(stream), str(store), str(shards)],
        check=True,
        capture_output=True,
    )
    row: dict[str, Any] = json.loads(done.stdout)
    if not keep:
        shutil.rmtree(store)
    _settle()
    return row


def _floor(scratch: Path, stream: Path, processes: int) -> int:
    started_s = time.perf_counter()
    running = []
    for share in range(processes):
        database = scratch / f"floor-{share}.sqlite"
        running.append(
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "bench.sot_floor"),
                    *map(str, (stream, database, share, processes)),
                ],
                stdout=subprocess.PIPE,
            )
        )
    rows = [json.loads(process.communicate()[0]) for process in running]
    for left in scratch.glob("floor-*"):
        left.unlink()
    _settle()
    # Starting Python is not counted for the floor.
    elapsed_s = max(row["elapsed_s"] for row in rows)
    if elapsed_s > time.perf_counter() - started_s:
        raise RuntimeError("the floor counted more time than passed")
    return round(sum(row["records"] for row in rows) / elapsed_s)


def _verified(store: Path, processes: int, records: int) -> int:
    from headrace.sot.opening import open_store
    from headrace.sot.verify import verify_store
    from headrace.sot.verify_plan import Mode

    opened = open_store(store, create=False)
    report = verify_store(opened, Mode.FULL, processes=processes, mark=False)
    opened.close()
    if not report.good or report.records != records:
        raise RuntimeError(f"{report.records} of {records} records were found good")
    return round(report.records / report.elapsed_s)


def _settle() -> None:
    """Let what is dirty reach the disk, so that it does not count for what comes next."""
    subprocess.run(["sync"], check=True)


def _write_here(stream: Path, store: Path, shards: int) -> dict[str, Any]:
    """What `_write` starts. Starting our own worker processes counts."""
    from headrace.sot.opening import open_store
    from headrace.sot.sources.places import find_places
    from headrace.sot.sources.reading import read_places
    from headrace.sot.writing.options import WriteOptions
    from headrace.sot.writing.write import write_stream

    opened = open_store(store)
    report = write_stream(
        read_places(find_places(str(stream))), opened, WriteOptions(shards=shards)
    )
    opened.close()
    if not report.complete:
        raise RuntimeError(f"not all was written: {report.counts} {report.malformed}")
    first = report.shards[0]
    for other in report.shards[1:]:
        first.commit.merge(other.commit)
        first.delay.merge(other.delay)
    own_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    child_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {
        "records": report.written,
        "per_s": round(report.written / report.elapsed_s),
        "batch_p50_ms": round(first.commit.quantile(0.5) * 1000, 1),
        "batch_p99_ms": round(first.commit.quantile(0.99) * 1000, 1),
        "delay_p99_ms": round(first.delay.quantile(0.99) * 1000, 1),
        "delay_p99_by_symbol_ms": {
            str(symbol): round(delay.quantile(0.99) * 1000, 1)
            for symbol, delay in sorted(report.delays.items())
        },
        "skew": round(report.skew, 2),
        "peak_mb": round(max(own_mb, child_mb)),
        # At most two workers on two cores; each counted at the larger one's peak.
        "peak_together_mb": round(own_mb + 2 * child_mb),
    }


if __name__ == "__main__":
    print(json.dumps(_write_here(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
