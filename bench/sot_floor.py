"""`python -m bench.sot_floor STREAM DATABASE [SHARE OF]`: the least that such a write can do.

A bare script: parse frames, hash each twice, compress 500 at a time, one SQLite commit with
synchronous FULL for each 500. No check of anything, no order but the file's, no second writer, no
reader. It prints records and seconds. With SHARE and OF it takes every symbol of one share only, so
that several of it show what more processes give.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import struct
import sys
import time
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
from xxhash import xxh3_64_intdigest

_ROUTE = struct.Struct("<IQIIQQ")
_BATCH = 500


def main(stream: Path, database: Path, share: int, of: int) -> None:
    """Write the stream."""
    db = sqlite3.connect(database, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE log (symbol INTEGER, first INTEGER, hash, digest, content BLOB)")
    digests: dict[int, bytes] = defaultdict(lambda: bytes(32))
    pending: dict[int, list[bytes]] = defaultdict(list)
    hashes: dict[int, int] = {}
    firsts: dict[int, int] = {}
    codec = pa.Codec("zstd", 1)
    records = 0

    def flush(symbol: int) -> None:
        content = codec.compress(b"".join(pending[symbol]), asbytes=True)
        row = (symbol, firsts[symbol], hashes[symbol] >> 1, digests[symbol], content)
        db.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?)", row)
        pending[symbol].clear()

    started_s = time.perf_counter()
    with stream.open("rb") as file:
        file.read(8)
        rest = b""
        while data := file.read(1024 * 1024):
            run = rest + data
            offset, size = 0, len(run)
            while size - offset >= _ROUTE.size:
                length, _, _, symbol, seq, _ = _ROUTE.unpack_from(run, offset)
                stop = offset + 4 + length
                if stop > size:
                    break
                if symbol % of == share:
                    frame = run[offset:stop]
                    hashes[symbol] = xxh3_64_intdigest(frame[12:])
                    digests[symbol] = hashlib.sha256(digests[symbol] + frame).digest()
                    bunch = pending[symbol]
                    if not bunch:
                        firsts[symbol] = seq
                    bunch.append(frame)
                    records += 1
                    if len(bunch) == _BATCH:
                        flush(symbol)
                offset = stop
            rest = run[offset:]
    for symbol, bunch in pending.items():
        if bunch:
            flush(symbol)
    elapsed_s = time.perf_counter() - started_s
    db.close()
    print(json.dumps({"records": records, "elapsed_s": elapsed_s}))


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        int(sys.argv[3]) if len(sys.argv) > 3 else 0,
        int(sys.argv[4]) if len(sys.argv) > 4 else 1,
    )
