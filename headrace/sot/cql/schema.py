"""The tables, in CQL that Apache Cassandra and ScyllaDB both speak.

A row of `sot_log` is one block: consecutive records of one symbol, compressed, under the sequence
of the first. A symbol's chain lies in partitions (buckets) 0, 1, 2...; each carries, once per
partition, what its writer must know: the epoch, the position behind its last row, and whether the
chain goes on in the next bucket.
"""

from __future__ import annotations

from typing import Final

FORMAT: Final = 1

LOG: Final = "sot_log"
SYMBOLS: Final = "sot_symbols"
PARKED: Final = "sot_parked"
META: Final = "sot_meta"

#: `symbol_id`, `output_seq`, hashes: unsigned, as the signed value with the same bits. The `_next`
#: columns are one beyond a sequence, which may be 2**64, so they are varints.
TABLES: Final = {
    LOG: """(
        symbol_id int,
        bucket int,
        output_seq bigint,
        epoch bigint static,
        owner uuid static,
        first_seq bigint static,
        start_next varint static,
        head_next varint static,
        head_hash bigint static,
        head_digest blob static,
        bucket_bytes bigint static,
        closed boolean static,
        records int,
        prev_hash bigint,
        hash bigint,
        digest blob,
        codec int,
        raw_bytes int,
        checksum bigint,
        frames blob,
        PRIMARY KEY ((symbol_id, bucket), output_seq)
    ) WITH CLUSTERING ORDER BY (output_seq ASC)""",
    SYMBOLS: """(
        symbol_id int PRIMARY KEY,
        last_bucket int,
        verified_next varint,
        verified_hash bigint,
        verified_digest blob
    )""",
    PARKED: """(
        symbol_id int,
        seq bigint,
        digest blob,
        changes bigint static,
        reason text,
        body blob,
        PRIMARY KEY ((symbol_id), seq, digest)
    )""",
    META: "(name text PRIMARY KEY, value text)",
}

_STATICS: Final = (
    "epoch, owner, first_seq, start_next, head_next, head_hash, head_digest, bucket_bytes, closed"
)

#: Every statement, by name. Conditions compare whole positions, so that equal means equal history.
STATEMENTS: Final = {
    "bucket": f"SELECT DISTINCT symbol_id, bucket, {_STATICS} FROM {LOG} "
    "WHERE symbol_id = ? AND bucket = ?",
    "begin_bucket": f"UPDATE {LOG} SET epoch = ?, owner = ?, first_seq = ?, start_next = ?, "
    "head_next = ?, head_hash = ?, head_digest = ?, bucket_bytes = 0, closed = false "
    "WHERE symbol_id = ? AND bucket = ? IF epoch = null",
    "claim": f"UPDATE {LOG} SET epoch = ?, owner = ?, first_seq = ?, start_next = ?, "
    "head_next = ?, head_hash = ?, head_digest = ? WHERE symbol_id = ? AND bucket = ? "
    "IF epoch = ? AND head_next = ? AND head_digest = ? AND closed = false",
    "advance": f"UPDATE {LOG} SET head_next = ?, head_hash = ?, head_digest = ?, "
    "bucket_bytes = ?, closed = ? WHERE symbol_id = ? AND bucket = ? "
    "IF epoch = ? AND head_next = ? AND head_hash = ? AND head_digest = ? AND closed = false",
    "block": f"INSERT INTO {LOG} (symbol_id, bucket, output_seq, records, prev_hash, hash, digest, "
    "codec, raw_bytes, checksum, frames) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS",
    "stored": f"SELECT records, digest FROM {LOG} "
    "WHERE symbol_id = ? AND bucket = ? AND output_seq = ?",
    "scan": "SELECT output_seq, records, prev_hash, hash, digest, codec, raw_bytes, checksum, "
    f"frames FROM {LOG} WHERE symbol_id = ? AND bucket = ? AND output_seq >= ? AND output_seq <= ?",
    "before": f"SELECT output_seq FROM {LOG} WHERE symbol_id = ? AND bucket = ? "
    "AND output_seq >= ? AND output_seq <= ? ORDER BY output_seq DESC LIMIT 1",
    "register": f"INSERT INTO {SYMBOLS} (symbol_id) VALUES (?)",
    "note_bucket": f"UPDATE {SYMBOLS} SET last_bucket = ? WHERE symbol_id = ?",
    "note_verified": f"UPDATE {SYMBOLS} SET verified_next = ?, verified_hash = ?, "
    "verified_digest = ? WHERE symbol_id = ?",
    "symbol": "SELECT last_bucket, verified_next, verified_hash, verified_digest "
    f"FROM {SYMBOLS} WHERE symbol_id = ?",
    "registered": f"SELECT symbol_id FROM {SYMBOLS}",
    "with_chain": f"SELECT DISTINCT symbol_id, bucket FROM {LOG}",
    "with_parked": f"SELECT DISTINCT symbol_id FROM {PARKED}",
    "parked_changes": f"SELECT DISTINCT symbol_id, changes FROM {PARKED} WHERE symbol_id = ?",
    "parked_first": f"UPDATE {PARKED} SET changes = 1 WHERE symbol_id = ? IF changes = null",
    "parked_change": f"UPDATE {PARKED} SET changes = ? WHERE symbol_id = ? IF changes = ?",
    "park": f"INSERT INTO {PARKED} (symbol_id, seq, digest, reason, body) VALUES (?, ?, ?, ?, ?)",
    "unpark": f"DELETE FROM {PARKED} WHERE symbol_id = ? AND seq = ? AND digest = ?",
    "parked": f"SELECT seq, digest, reason, body FROM {PARKED} "
    "WHERE symbol_id = ? AND seq >= ? AND seq <= ?",
}
