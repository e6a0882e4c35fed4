"""How a stream is written."""

from __future__ import annotations

import os
import sys
from typing import Final

import msgspec

from headrace.sot.chain import DEFAULT_FIRST_SEQ

DEFAULT_SHARDS: Final = 8
MAX_SHARDS: Final = 256


class WriteOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a write. None of them is stored: each run may have others.

    Attributes:
        shards: writers; a symbol belongs to shard `symbol_id % shards`.
        processes: over how many processes the shards are spread; 0 runs them in this one, and None
            takes as many as there are processors (in this one for a store that is not a folder).
        batch_records: records per batch, at most; None is what the store takes.
        chain: compute the hashes of a stream that has none.
        first_seq: where new chains begin.
        in_flight_bytes: records read and neither durable nor parked yet, over all shards: what
            bounds memory.
        linger_s: how long a record may wait for others to share its batch.
        held_bytes: records per shard held in memory for a missing predecessor; more are parked.
        parked_records: records per symbol that may be parked; more are refused.
        attempts: at a commit that a store did not answer.
        retry_pause_s: before the second attempt; doubled each time.
    """

    shards: int = DEFAULT_SHARDS
    processes: int | None = None
    batch_records: int | None = None
    chain: bool = False
    first_seq: int = DEFAULT_FIRST_SEQ
    in_flight_bytes: int = 64 * 1024 * 1024
    linger_s: float = 0.02
    held_bytes: int = 8 * 1024 * 1024
    parked_records: int = 100_000
    attempts: int = 6
    retry_pause_s: float = 0.1


def shard_of(symbol_id: int, shards: int) -> int:
    """The shard that writes a symbol: the same in every run with this many shards."""
    return symbol_id % shards


def child_environment() -> dict[str, str]:
    """The environment in which a child finds the same modules as this process."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
