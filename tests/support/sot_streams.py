"""Generated streams as chunks, and writes of them into an embedded store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.frames import STREAM_MAGIC, Chunk, join
from headrace.sot.sample_records import GeneratedRecord, StreamSpec, generate
from headrace.sot.store import SotStore
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.write import WriteReport, write_stream


def made(records: int, **settings: object) -> list[GeneratedRecord]:
    """The records of a stream of small ones."""
    return list(generate(StreamSpec(records=records, **settings)))  # type: ignore[arg-type]


def chunks(records: Iterable[GeneratedRecord], per_chunk: int = 50) -> Iterator[Chunk]:
    """Records as a reader would hand them on."""
    chunk = Chunk()
    for record in records:
        chunk.add(record.symbol_id, record.body)
        if chunk.records == per_chunk:
            yield chunk
            chunk = Chunk()
    if chunk.records:
        yield chunk


def write(
    store: SotStore, records: Iterable[GeneratedRecord], *, per_chunk: int = 50, **options: object
) -> WriteReport:
    """Write records with one engine in this process."""
    settings = WriteOptions(**{"processes": 0, "retry_pause_s": 0.01, **options})  # type: ignore[arg-type]
    return write_stream(chunks(records, per_chunk), store, settings)


def written(folder: Path, records: Iterable[GeneratedRecord], **options: object) -> WriteReport:
    """Write records into a store in `folder`, and close it."""
    store = EmbeddedStore(folder)
    try:
        return write(store, records, **options)
    finally:
        store.close()


def frames_of(store: SotStore, symbol_id: int) -> bytes:
    """All that the store has of a symbol."""
    return b"".join(block.frames for block in store.scan(symbol_id))


def run_of(records: Iterable[GeneratedRecord], symbol_id: int) -> bytes:
    """The frames of one symbol in a stream."""
    return join(record.body for record in records if record.symbol_id == symbol_id)


def stream_file(path: Path, records: Iterable[GeneratedRecord]) -> Path:
    """A framed stream in a file."""
    path.write_bytes(STREAM_MAGIC + join(record.body for record in records))
    return path
