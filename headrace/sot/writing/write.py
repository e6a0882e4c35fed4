"""Write a stream of records into a store, and say what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from headrace.errors import ConfigurationError
from headrace.sot.chain import Position
from headrace.sot.exceptions import MalformedInput
from headrace.sot.frames import Chunk
from headrace.sot.opening import is_embedded
from headrace.sot.sources.reading import Records
from headrace.sot.store import SotStore
from headrace.sot.writing.messages import Ack, Finished
from headrace.sot.writing.options import MAX_SHARDS, WriteOptions, processors
from headrace.sot.writing.pool import InProcess, OnAcks, Processes, WriterPool
from headrace.sot.writing.stats import Histogram, Problem, Problems, ShardStats, skew
from headrace.stopping import STOP, StopEvent


@dataclass(slots=True)
class WriteReport:
    """What a write did.

    Attributes:
        read: records taken from the source.
        written: made durable by this run.
        duplicates: stored already, with the same content.
        parked: waiting in the store for a predecessor, over the symbols of this stream.
        refused: neither stored nor parked.
        problems, counts: what was wrong; the first ones by name, all by kind.
        malformed: the source ended here, because what followed was no record.
        stopped: the stop was asked for before the source was at its end.
        heads: where the chain of each symbol of the stream ends.
        shards: statistics per shard.
        delays: per symbol, seconds from reading a record to its acknowledgement.
        repairs: what the store repaired on its way, such as a torn tail that was cut.
        elapsed_s: all of it.
    """

    read: int = 0
    read_bytes: int = 0
    written: int = 0
    duplicates: int = 0
    parked: int = 0
    refused: int = 0
    problems: list[Problem] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    malformed: MalformedInput | None = None
    stopped: bool = False
    heads: dict[int, Position] = field(default_factory=dict)
    shards: list[ShardStats] = field(default_factory=list)
    delays: dict[int, Histogram] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)
    elapsed_s: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every record of the source is in the store's chains."""
        return not (self.counts or self.malformed or self.stopped or self.refused)

    @property
    def skew(self) -> float:
        """See `headrace.sot.writing.stats.skew`."""
        return skew(self.shards)


def write_stream(
    chunks: Iterable[Chunk],
    store: SotStore,
    options: WriteOptions | None = None,
    *,
    on_acks: Callable[[list[Ack]], None] | None = None,
    on_read: Callable[[int], None] | None = None,
    stop: StopEvent = STOP,
) -> WriteReport:
    """Put the records into their chains; returns when what was read is durable, or parked.

    Args:
        chunks: what a reader hands on. A `MalformedInput` out of it ends the stream; what came
            before is kept, and the error is in the report.
        store: where to. With processes it is opened again in each by its location.
        options: shards, processes, limits.
        on_acks: called with what became durable, in order per symbol, from one thread at a time.
        on_read: called with how many records a chunk held.
        stop: stops reading; what was read is still written.

    Raises:
        StoreUnavailable: the store gave up, or a writer process died; what was acknowledged is
            stored, and writing the stream again goes on from there.
        ConfigurationError: options that cannot work.
    """
    options = options or WriteOptions()
    _check(options)
    report = WriteReport()
    started_s = time.monotonic()
    pool = _open_pool(store, options, on_acks or (lambda _: None))
    try:
        try:
            for chunk in chunks:
                if stop.is_set():
                    report.stopped = True
                    break
                pool.send(time.monotonic(), chunk.runs)
                report.read += chunk.records
                report.read_bytes += chunk.size_bytes
                if on_read is not None:
                    on_read(chunk.records)
        except MalformedInput as error:
            report.malformed = error
        parts = pool.finish()
    except BaseException:
        pool.abandon()
        raise
    _gather(report, parts)
    if isinstance(chunks, Records):
        report.problems = _located(report.problems, chunks)
    report.elapsed_s = time.monotonic() - started_s
    return report


def _located(problems: list[Problem], records: Records) -> list[Problem]:
    """Malformed records with their place in the source: known here, but not where they are met."""
    wanted = {
        (problem.symbol_id, problem.seq)
        for problem in problems
        if problem.kind == "malformed" and problem.symbol_id is not None and problem.seq is not None
    }
    if not wanted:
        return problems
    places = records.locate(wanted)
    return [
        replace(problem, where=places.get((problem.symbol_id or 0, problem.seq or 0), ""))
        if problem.kind == "malformed"
        else problem
        for problem in problems
    ]


def _open_pool(store: SotStore, options: WriteOptions, on_acks: OnAcks) -> WriterPool:
    count = options.processes
    if count is None:
        count = min(processors(), options.shards) if is_embedded(store.location) else 0
    if count == 0:
        return InProcess(store, options, on_acks)
    return Processes(store.location, options, count, on_acks)


def _check(options: WriteOptions) -> None:
    for name, value, low, high in (
        ("shards", options.shards, 1, MAX_SHARDS),
        ("batch_records", options.batch_records or 1, 1, 1_000_000),
        ("processes", options.processes or 0, 0, MAX_SHARDS),
        ("first_seq", options.first_seq, 0, 2**64 - 1),
        ("attempts", options.attempts, 1, 100),
    ):
        if not low <= value <= high:
            raise ConfigurationError(f"{name} is {value}, it has to be within {low} and {high}")


def _gather(report: WriteReport, parts: list[Finished]) -> None:
    problems = Problems()
    for part in parts:
        problems.merge(part.problems, part.counts)
        report.duplicates += part.duplicates
        report.refused += part.refused
        report.repairs += part.repairs
        report.shards += part.shards
        for symbol in part.symbols:
            report.parked += symbol.parked
            report.heads[symbol.symbol_id] = symbol.end.position
            if symbol.delay is not None:
                report.delays[symbol.symbol_id] = symbol.delay
    report.shards.sort(key=lambda shard: shard.shard)
    report.written = sum(shard.records for shard in report.shards)
    report.problems = problems.named
    report.counts = dict(problems.counts)
