"""Streams in a bucket: an object, or what lies under a prefix, in spans and in order."""

from __future__ import annotations

import io
from pathlib import Path
from uuid import uuid4

import pytest
from support.sot_streams import made, run_of

from headrace.lake.s3 import S3Store
from headrace.sot.exceptions import MalformedInput, SourceUnusable
from headrace.sot.output import WRITERS
from headrace.sot.sample_records import GeneratedRecord
from headrace.sot.sources import places as places_module
from headrace.sot.sources.places import find_places
from headrace.sot.sources.reading import Format, read_places
from tests.services_fixtures import BUCKET, settings_for

RECORDS = made(90, symbols=3)
pytestmark = pytest.mark.services


def content(format_: Format, records: list[GeneratedRecord]) -> bytes:
    out = io.BytesIO()
    WRITERS[format_]((record.body for record in records), out)
    return out.getvalue()


@pytest.fixture
def prefix(moto_url: str) -> str:
    prefix = f"streams/{uuid4().hex}"
    store = S3Store(BUCKET, prefix, settings_for(moto_url))
    store.put("a.frames", content(Format.FRAMES, RECORDS[:30]))
    store.put("b.jsonl", content(Format.JSON_LINES, RECORDS[30:60]))
    store.put("c.parquet", content(Format.PARQUET, RECORDS[60:]))
    store.put("_SUCCESS", b"")
    store.put("deeper/d.frames", content(Format.FRAMES, RECORDS))
    return f"s3://{BUCKET}/{prefix}"


def runs(source: str, url: str) -> dict[int, bytes]:
    together: dict[int, list[bytes]] = {}
    for chunk in read_places(find_places(source, s3=settings_for(url))):
        for symbol_id, pieces in chunk.runs.items():
            together.setdefault(symbol_id, []).extend(pieces)
    return {symbol_id: b"".join(pieces) for symbol_id, pieces in together.items()}


@pytest.mark.parametrize("span_bytes", [500, 4 * 1024 * 1024])
def test_a_prefix_is_read_by_name(
    prefix: str, moto_url: str, monkeypatch: pytest.MonkeyPatch, span_bytes: int
) -> None:
    monkeypatch.setattr(places_module, "_SPAN_BYTES", span_bytes)
    expected = {symbol_id: run_of(RECORDS, symbol_id) for symbol_id in (1, 2, 3)}
    assert runs(prefix, moto_url) == expected
    assert runs(f"{prefix}/", moto_url) == expected


def test_a_single_object(prefix: str, moto_url: str) -> None:
    expected = {symbol_id: run_of(RECORDS[:30], symbol_id) for symbol_id in (1, 2, 3)}
    assert runs(f"{prefix}/a.frames", moto_url) == expected


def test_nothing_there_is_said(prefix: str, moto_url: str) -> None:
    with pytest.raises(SourceUnusable, match="no such object"):
        find_places(f"{prefix}/z", s3=settings_for(moto_url))


def test_a_cut_object_is_named(prefix: str, moto_url: str, tmp_path: Path) -> None:
    where = prefix.removeprefix(f"s3://{BUCKET}/")
    store = S3Store(BUCKET, where, settings_for(moto_url))
    store.put("a.frames", content(Format.FRAMES, RECORDS[:30])[:-1])
    with pytest.raises(MalformedInput) as raised:
        runs(prefix, moto_url)
    assert raised.value.source == f"{prefix}/a.frames"
    assert "(frame 30)" in raised.value.position
