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

#: Every statement, by name, with the names of tables left open. Conditions compare whole
#: positions, so that equal means equal history.
_STATEMENTS: Final = {
    "bucket": "SELECT DISTINCT symbol_id, bucket, {statics} FROM {log} "
    "WHERE symbol_id = ? AND bucket = ?",
    "begin_bucket": "UPDATE {log} SET epoch = ?, owner = ?, first_seq = ?, start_next = ?, "
    "head_next = ?, head_hash = ?, head_digest = ?, bucket_bytes = 0, closed = false "
    "WHERE symbol_id = ? AND bucket = ? IF epoch = null",
    "claim": "UPDATE {log} SET epoch = ?, owner = ?, first_seq = ?, start_next = ?, "
    "head_next = ?, head_hash = ?, head_digest = ? WHERE symbol_id = ? AND bucket = ? "
    "IF epoch = ? AND head_next = ? AND head_digest = ? AND closed = false",
    "advance": "UPDATE {log} SET head_next = ?, head_hash = ?, head_digest = ?, "
    "bucket_bytes = ?, closed = ? WHERE symbol_id = ? AND bucket = ? "
    "IF epoch = ? AND head_next = ? AND head_hash = ? AND head_digest = ? AND closed = false",
    "block": "INSERT INTO {log} (symbol_id, bucket, output_seq, records, prev_hash, hash, digest, "
    "codec, raw_bytes, checksum, frames) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS",
    "stored": "SELECT records, digest FROM {log} "
    "WHERE symbol_id = ? AND bucket = ? AND output_seq = ?",
    "scan": "SELECT output_seq, records, prev_hash, hash, digest, codec, raw_bytes, checksum, "
    "frames FROM {log} WHERE symbol_id = ? AND bucket = ? AND output_seq >= ? AND output_seq <= ?",
    "before": "SELECT output_seq FROM {log} WHERE symbol_id = ? AND bucket = ? "
    "AND output_seq >= ? AND output_seq <= ? ORDER BY output_seq DESC LIMIT 1",
    "register": "INSERT INTO {symbols} (symbol_id) VALUES (?)",
    "note_bucket": "UPDATE {symbols} SET last_bucket = ? WHERE symbol_id = ?",
    "note_verified": "UPDATE {symbols} SET verified_next = ?, verified_hash = ?, "
    "verified_digest = ? WHERE symbol_id = ?",
    "symbol": "SELECT last_bucket, verified_next, verified_hash, verified_digest "
    "FROM {symbols} WHERE symbol_id = ?",
    "registered": "SELECT symbol_id FROM {symbols}",
    "with_chain": "SELECT DISTINCT symbol_id, bucket FROM {log}",
    "with_parked": "SELECT DISTINCT symbol_id FROM {parked}",
    "parked_changes": "SELECT DISTINCT symbol_id, changes FROM {parked} WHERE symbol_id = ?",
    "parked_first": "UPDATE {parked} SET changes = 1 WHERE symbol_id = ? IF changes = null",
    "parked_change": "UPDATE {parked} SET changes = ? WHERE symbol_id = ? IF changes = ?",
    "park": "INSERT INTO {parked} (symbol_id, seq, digest, reason, body) VALUES (?, ?, ?, ?, ?)",
    "unpark": "DELETE FROM {parked} WHERE symbol_id = ? AND seq = ? AND digest = ?",
    "parked": "SELECT seq, digest, reason, body FROM {parked} "
    "WHERE symbol_id = ? AND seq >= ? AND seq <= ?",
}


def statements(keyspace: str) -> dict[str, str]:
    """Every statement, by name. The keyspace's name was checked (`CqlSettings`)."""
    names = {
        "log": f"{keyspace}.{LOG}",
        "symbols": f"{keyspace}.{SYMBOLS}",
        "parked": f"{keyspace}.{PARKED}",
        "statics": _STATICS,
    }
    return {name: text.format(**names) for name, text in _STATEMENTS.items()}
