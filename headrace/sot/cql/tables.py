"""The tables, in CQL that Apache Cassandra and ScyllaDB both understand, and what their rows hold.

A row of `sot_log` is one block: consecutive records of one symbol, compressed, under the sequence
of the first. A symbol's chain lies in partitions (buckets) 0, 1, 2...; each carries, once per
partition, what its writer must know: the epoch, the position behind its last row, and whether the
chain goes on in the next bucket. `Bucket` has these static columns as one value; `Payload` has
frames as a row holds them: compressed, with a check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
from xxhash import xxh3_64_intdigest

from headrace.sot.chain import DIGEST_BYTES, Position
from headrace.sot.encoding import from_signed
from headrace.sot.exceptions import DamagedLog
from headrace.sot.store import Head

FORMAT: Final = 1

LOG: Final = "sot_log"
SYMBOLS: Final = "sot_symbols"
PARKED: Final = "sot_parked"
META: Final = "sot_meta"
TILES: Final = "sot_tiles"

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
    TILES: """(
        symbol_id int,
        level int,
        part int,
        number bigint,
        tile blob,
        PRIMARY KEY ((symbol_id, level, part), number)
    )""",
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
    "note": "SELECT value FROM {meta} WHERE name = ?",
    "new_note": "INSERT INTO {meta} (name, value) VALUES (?, ?) IF NOT EXISTS",
    "tiles": "SELECT number, tile FROM {tiles} "
    "WHERE symbol_id = ? AND level = ? AND part = ? AND number >= ? AND number < ?",
    "keep_tile": "INSERT INTO {tiles} (symbol_id, level, part, number, tile) "
    "VALUES (?, ?, ?, ?, ?)",
    "parked": "SELECT seq, digest, reason, body FROM {parked} "
    "WHERE symbol_id = ? AND seq >= ? AND seq <= ?",
}


def statements(keyspace: str) -> dict[str, str]:
    """Every statement, by name. The keyspace's name was checked (`CqlSettings`)."""
    names = {
        "log": f"{keyspace}.{LOG}",
        "symbols": f"{keyspace}.{SYMBOLS}",
        "parked": f"{keyspace}.{PARKED}",
        "meta": f"{keyspace}.{META}",
        "tiles": f"{keyspace}.{TILES}",
        "statics": _STATICS,
    }
    return {name: text.format(**names) for name, text in _STATEMENTS.items()}


_LEAST_NEXT, _MOST_NEXT = 0, 2**64


@dataclass(frozen=True, slots=True)
class Bucket:
    """A part of one symbol's chain: one partition.

    Attributes:
        number: from 0, without gaps.
        epoch, owner: of the last claim; `owner` is a new one each time, so that a claim whose
            answer was lost is not taken for another's.
        first_seq: where the symbol's chain begins.
        start_next: the sequence with which this bucket begins.
        head: the position behind its last row.
        size_bytes: stored size of its rows.
        closed: nothing is added to it any more, and its epoch stays.
    """

    symbol_id: int
    number: int
    epoch: int
    owner: UUID | None
    first_seq: int
    start_next: int
    head: Position
    size_bytes: int
    closed: bool

    @property
    def symbol_head(self) -> Head:
        """The symbol's head, if this is its last bucket."""
        return Head(self.symbol_id, self.epoch, self.first_seq, self.head)

    @property
    def empty(self) -> bool:
        """Whether the chain itself has no record yet."""
        return self.number == 0 and self.head.next_seq == self.first_seq


def partition(keyspace: str, symbol_id: int, number: int) -> str:
    """A bucket's name in messages."""
    return f"{keyspace}.{LOG}, symbol_id {symbol_id}, bucket {number}"


def bucket_of(row: Any, keyspace: str, symbol_id: int, number: int) -> Bucket | None:
    """The bucket that a row of static columns describes, None if it was never begun.

    Raises:
        DamagedLog: some of the columns are missing or impossible.
    """
    if row.epoch is None and row.head_next is None and row.head_digest is None:
        return None
    values = (row.epoch, row.first_seq, row.start_next, row.head_next, row.head_hash)
    sound = (
        all(value is not None for value in values)
        and row.epoch >= 1
        and _LEAST_NEXT <= row.start_next <= row.head_next <= _MOST_NEXT
        and row.head_digest is not None
        and len(row.head_digest) == DIGEST_BYTES
        and row.closed is not None
    )
    if not sound:
        raise DamagedLog(
            partition(keyspace, symbol_id, number),
            "its head is incomplete or impossible",
            symbol_id=symbol_id,
        )
    return Bucket(
        symbol_id=symbol_id,
        number=number,
        epoch=row.epoch,
        owner=row.owner,
        first_seq=from_signed(row.first_seq),
        start_next=row.start_next,
        head=Position(row.head_next, from_signed(row.head_hash), row.head_digest),
        size_bytes=row.bucket_bytes or 0,
        closed=row.closed,
    )


CODEC_NONE: Final = 0
CODEC_ZSTD: Final = 1
_ZSTD_LEVEL: Final = 1
#: A payload that claims to be larger is damage, not data.
MAX_RAW_BYTES: Final = 64 * 2**20


class BadPayload(Exception):
    """These bytes are not what was written; the message says how that showed."""


@dataclass(frozen=True, slots=True)
class Payload:
    """What one row keeps of a run of frames.

    Attributes:
        checksum: xxh3-64 of `stored`.
    """

    codec: int
    raw_bytes: int
    checksum: int
    stored: bytes


def compress(frames: bytes) -> Payload:
    """The payload of a run."""
    stored = pa.Codec("zstd", _ZSTD_LEVEL).compress(frames, asbytes=True)
    codec = CODEC_ZSTD
    if len(stored) >= len(frames):
        codec, stored = CODEC_NONE, frames
    return Payload(codec, len(frames), xxh3_64_intdigest(stored), stored)


def decompress(payload: Payload) -> bytes:
    """The run of a payload.

    Raises:
        BadPayload: it fails its check, or does not decompress to its size.
    """
    if xxh3_64_intdigest(payload.stored) != payload.checksum:
        raise BadPayload("its frames fail their check")
    if not 0 <= payload.raw_bytes <= MAX_RAW_BYTES:
        raise BadPayload(f"it claims {payload.raw_bytes} bytes of frames")
    if payload.codec == CODEC_NONE:
        frames = payload.stored
    elif payload.codec == CODEC_ZSTD:
        try:
            frames = pa.Codec("zstd").decompress(payload.stored, payload.raw_bytes, asbytes=True)
        except (OSError, pa.ArrowException) as error:
            raise BadPayload(f"its frames do not decompress: {error}") from error
    else:
        raise BadPayload(f"its codec is {payload.codec}, which this version does not know")
    if len(frames) != payload.raw_bytes:
        raise BadPayload(f"its frames have {len(frames)} bytes, not {payload.raw_bytes}")
    return frames
