"""What is read, and how malformed input is named: file, place, field; what came before is kept."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.sot_streams import made, run_of, stream_file

from headrace.lake.exceptions import LakeUnusable
from headrace.sot.encoding import decode
from headrace.sot.exceptions import MalformedInput, SourceUnusable
from headrace.sot.frames import STREAM_MAGIC, STREAM_NAME, Chunk
from headrace.sot.output import WRITERS
from headrace.sot.sample_records import GeneratedRecord
from headrace.sot.sources.parquet import SCHEMA
from headrace.sot.sources.places import Place, find_places
from headrace.sot.sources.reading import Format, read_places
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.write import write_stream

RECORDS = made(30, symbols=3, size_bytes=400)


def read(path: Path, **settings: object) -> list[Chunk]:
    return list(read_places(find_places(str(path)), **settings))  # type: ignore[arg-type]


def until_error(chunks: Iterable[Chunk]) -> tuple[int, MalformedInput]:
    records = 0
    with pytest.raises(MalformedInput) as raised:  # noqa: PT012 - the loop is what raises
        for chunk in chunks:
            records += chunk.records
    return records, raised.value


def runs(chunks: list[Chunk]) -> dict[int, bytes]:
    together: dict[int, list[bytes]] = {}
    for chunk in chunks:
        for symbol_id, pieces in chunk.runs.items():
            together.setdefault(symbol_id, []).extend(pieces)
    return {symbol_id: b"".join(pieces) for symbol_id, pieces in together.items()}


def in_format(path: Path, format_: Format, records: list[GeneratedRecord] = RECORDS) -> Path:
    with path.open("wb") as out:
        WRITERS[format_]((record.body for record in records), out)
    return path


def json_lines(records: list[GeneratedRecord] = RECORDS) -> list[bytes]:
    return [msgspec.json.encode(decode(record.body)) for record in records]


@pytest.mark.parametrize("format_", list(WRITERS))
def test_every_format_gives_the_same_records(tmp_path: Path, format_: Format) -> None:
    path = in_format(tmp_path / "stream", format_)
    expected = {symbol_id: run_of(RECORDS, symbol_id) for symbol_id in (1, 2, 3)}
    assert runs(read(path)) == expected
    assert runs(read(path, format_=format_)) == expected


def test_a_folder_is_read_by_name_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    in_format(tmp_path / "b.jsonl", Format.JSON_LINES, RECORDS[10:20])
    in_format(tmp_path / "a.frames", Format.FRAMES, RECORDS[:10])
    in_format(tmp_path / "c.parquet", Format.PARQUET, RECORDS[20:])
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / ".part").write_bytes(b"junk")
    (tmp_path / "folder").mkdir()
    assert runs(read(tmp_path)) == {s: run_of(RECORDS, s) for s in (1, 2, 3)}


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert read(tmp_path / "empty") == []
    (tmp_path / "begun").write_bytes(STREAM_MAGIC)
    assert read(tmp_path / "begun") == []


def test_what_is_no_source_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceUnusable, match=r"nothing/here cannot be read.*no such file"):
        find_places("nothing/here")
    with pytest.raises(LakeUnusable, match="ftp:// is not supported"):
        find_places("ftp://host/file")
    with pytest.raises(SourceUnusable, match="no files"):
        find_places(str(tmp_path))


@pytest.mark.parametrize("chunk_bytes", [100, 401, 5000])
def test_frames_may_be_cut_anywhere_by_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr("headrace.sot.sources.reading.CHUNK_BYTES", chunk_bytes)
    path = stream_file(tmp_path / "s", RECORDS)
    assert runs(read(path)) == {s: run_of(RECORDS, s) for s in (1, 2, 3)}


@pytest.mark.parametrize("cut", [1, 3, 4, 80, 399])
def test_a_truncated_frame(tmp_path: Path, cut: int) -> None:
    path = stream_file(tmp_path / "s", RECORDS)
    whole = path.read_bytes()
    path.write_bytes(whole[: 8 + 400 * 12 + cut])
    records, error = until_error(read_places(find_places(str(path))))
    assert records == 12
    assert error.source == str(path)
    assert error.position == f"byte {8 + 400 * 12} (frame 13)"
    assert f"cut off after {cut} bytes" in error.reason


@pytest.mark.parametrize("length", [0, 10, 2**31])
def test_a_length_that_no_frame_has(tmp_path: Path, length: int) -> None:
    path = stream_file(tmp_path / "s", RECORDS)
    content = bytearray(path.read_bytes())
    content[8 + 400 * 5 : 8 + 400 * 5 + 4] = length.to_bytes(4, "little")
    path.write_bytes(content)
    records, error = until_error(read_places(find_places(str(path))))
    assert (records, error.field) == (5, "length")
    assert error.position == f"byte {8 + 400 * 5} (frame 6)"


def test_an_unknown_stream_version(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(STREAM_NAME + (7).to_bytes(2, "little") + b"x" * 100)
    _, error = until_error(read_places(find_places(str(path))))
    assert error.field == "stream version"
    assert "is 7, this version knows 1" in str(error)
    assert "Upgrade" in str(error)


def test_something_else_said_to_be_frames(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(b"GIF89a, really")
    _, error = until_error(read_places(find_places(str(path)), format_=Format.FRAMES))
    assert error.field == "stream name"


def changed(line: bytes, **fields: object) -> bytes:
    row = msgspec.json.decode(line)
    for name, value in fields.items():
        *path, last = name.split("__")
        at = row
        for step in path:
            at = at[int(step) if step.isdigit() else step]
        if value is None:
            del at[last]
        else:
            at[last] = value
    return msgspec.json.encode(row)


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"output_seq": None}, "output_seq", "is missing"),
        ({"input": None}, "input", "is missing"),
        ({"hash": None}, "hash", "is missing"),
        ({"output_seq": 2**64 - 1, "input__crc": 2**32}, "input.crc", "4294967295"),
        ({"output_seq": -1}, "output_seq", ">= 0"),
        ({"output_seq": "5"}, "output_seq", "Expected `int`"),
        ({"output_seq": 1.5}, "output_seq", "Expected `int`"),
        ({"surprise": 1}, "surprise", "is not known"),
        ({"trades__0__price": None}, "trades[0].price", "is missing"),
        ({"trades__0__taker_side": 256}, "trades[0].taker_side", "255"),
        ({"input__data": "not base64!"}, "input.data", "base64"),
        ({"symbol_id": 77}, "symbol_id", "its content belongs to"),
    ],
)
def test_a_bad_line_names_line_and_field(
    tmp_path: Path, fields: dict[str, object], field: str, reason: str
) -> None:
    lines = json_lines()
    lines[16] = changed(lines[16], **fields)
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    records, error = until_error(read_places(find_places(str(path))))
    assert records == 16
    assert (error.source, error.position, error.field) == (str(path), "line 17", field)
    assert reason.lower() in error.reason.lower()
    assert "\n" not in str(error)


def test_a_sequence_of_two_to_the_64(tmp_path: Path) -> None:
    lines = json_lines()
    lines[3] = lines[3].replace(b'"output_seq":2', f'"output_seq":{2**64}'.encode(), 1)
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join(lines))
    records, error = until_error(read_places(find_places(str(path))))
    assert (records, error.position, error.field) == (3, "line 4", "output_seq")
    assert str(2**64) in error.reason


@pytest.mark.parametrize(
    "bad", [b"{", b"not json", b"[]", b"null", b'{"output_seq": 1', b"\xff\xfe"]
)
def test_a_line_that_is_no_json(tmp_path: Path, bad: bytes) -> None:
    lines = json_lines()
    lines[5] = bad
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join(lines))
    records, error = until_error(read_places(find_places(str(path))))
    assert (records, error.position) == (5, "line 6")


def test_empty_lines_are_counted_and_passed_over(tmp_path: Path) -> None:
    lines = json_lines()
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n\r\n".join(lines[:3]) + b"\nbad\n")
    records, error = until_error(read_places(find_places(str(path))))
    assert (records, error.position) == (3, "line 6")


def test_unchained_lines_need_the_option(tmp_path: Path) -> None:
    plain = made(6, symbols=1, chained=False)
    lines = [changed(line, hash=None, prev_hash=None, hash_version=None) for line in
             json_lines(plain)]  # fmt: skip
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join(lines))
    _, error = until_error(read_places(find_places(str(path))))
    assert "--chain" in error.hint
    assert runs(read(path, chained=False)) == {1: run_of(plain, 1)}


def test_the_symbol_may_be_left_out_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join(changed(line, symbol_id=None) for line in json_lines()))
    assert runs(read(path)) == {s: run_of(RECORDS, s) for s in (1, 2, 3)}


def test_a_bad_row_of_parquet(tmp_path: Path) -> None:
    rows = [msgspec.json.decode(line) for line in json_lines()]
    for row in rows:
        row["input"]["data"] = b""
    rows[7]["symbol_id"] = 99
    path = tmp_path / "s.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    records, error = until_error(read_places(find_places(str(path))))
    assert (records, error.position, error.field) == (7, "row 8", "symbol_id")


def test_damaged_parquet(tmp_path: Path) -> None:
    path = in_format(tmp_path / "s.parquet", Format.PARQUET)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    _, error = until_error(read_places(find_places(str(path))))
    assert error.source == str(path)
    assert error.position == "behind row 0"


def test_parquet_in_a_pipe_is_refused() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    place = Place("standard input", lambda: io.BufferedReader(Pipe(b"PAR1....")), again=False)
    with pytest.raises(SourceUnusable, match="random access"):
        list(read_places([place]))


def test_what_came_before_a_bad_line_is_stored(tmp_path: Path) -> None:
    from headrace.sot.embedded.store import EmbeddedStore

    lines = json_lines()
    lines[20] = b"{"
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join(lines))
    store = EmbeddedStore(tmp_path / "sot")
    report = write_stream(read_places(find_places(str(path))), store, WriteOptions(processes=0))
    store.close()
    assert report.malformed is not None
    assert report.malformed.position == "line 21"
    assert (report.read, report.written) == (20, 20)
    assert not report.complete


def test_a_malformed_frame_is_located_in_its_file(tmp_path: Path) -> None:
    """Its framing is sound: who follows the chain finds it, and it is looked up afterwards."""
    from headrace.sot.embedded.store import EmbeddedStore

    folder = tmp_path / "in"
    folder.mkdir()
    stream_file(folder / "a", RECORDS[:10])
    path = stream_file(folder / "b", RECORDS[10:])
    content = bytearray(path.read_bytes())
    content[8 + 400 * 4 + 12] = 5  # the encoding version of the fifth record in it
    path.write_bytes(content)
    store = EmbeddedStore(tmp_path / "sot")
    report = write_stream(read_places(find_places(str(folder))), store, WriteOptions(processes=0))
    store.close()
    malformed = [problem for problem in report.problems if problem.kind == "malformed"]
    assert [str(problem) for problem in malformed] == [
        f"{path}, byte {8 + 400 * 4} (frame 5): symbol {RECORDS[14].symbol_id}, "
        f"seq {RECORDS[14].seq}: encoding_version: is 5, this version knows 1"
    ]
    assert report.counts["malformed"] == 1
    other = {1, 2, 3} - {RECORDS[14].symbol_id}
    assert all(report.heads[symbol_id].next_seq == 11 for symbol_id in other)


class Trickle(io.RawIOBase):
    """A pipe: a few bytes at a time, as they come."""

    def __init__(self, content: bytes, at_once: int) -> None:
        super().__init__()
        self._left = io.BytesIO(content)
        self._at_once = at_once
        self.given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        piece = self._left.read(min(len(buffer), self._at_once))
        buffer[: len(piece)] = piece
        self.given += len(piece)
        return len(piece)


@pytest.mark.parametrize("at_once", [1, 5, 7, 399, 4096])
@pytest.mark.parametrize("asked", [Format.AUTO, None])
@pytest.mark.parametrize("format_", [Format.FRAMES, Format.JSON_LINES])
def test_a_pipe_may_give_its_bytes_in_any_pieces(
    tmp_path: Path, format_: Format, asked: Format | None, at_once: int
) -> None:
    content = in_format(tmp_path / "s", format_).read_bytes()
    pipe = io.BufferedReader(Trickle(content, at_once))  # type: ignore[type-var]
    place = Place("standard input", lambda: pipe, again=False)
    chunks = list(read_places([place], format_=asked or format_))
    assert runs(chunks) == {s: run_of(RECORDS, s) for s in (1, 2, 3)}


def test_what_has_arrived_in_a_pipe_does_not_wait_for_what_has_not(tmp_path: Path) -> None:
    content = in_format(tmp_path / "s", Format.FRAMES).read_bytes()
    raw = Trickle(content, 1000)
    place = Place("standard input", lambda: io.BufferedReader(raw), again=False)  # type: ignore[type-var]
    first = next(iter(read_places([place])))
    assert first.records >= 1
    assert raw.given < len(content) / 2


def test_a_closed_standard_input_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(SourceUnusable, match=r"standard input.*closed"):
        list(read_places(find_places("-")))


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(json_lines()) + b"\r\n")
    assert runs(read(path)) == {s: run_of(RECORDS, s) for s in (1, 2, 3)}


@pytest.mark.parametrize("between", [b"\n", b"\r\n", b""])
def test_files_joined_with_their_byte_order_marks_are_named(tmp_path: Path, between: bytes) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(between.join(b"\xef\xbb\xbf" + line for line in json_lines()[:2]))
    records, error = until_error(read_places(find_places(str(path))))
    assert (records, error.position) == ((1, "line 2") if between else (0, "line 1"))
    assert "byte order mark" in error.hint
    assert "files were joined" in error.hint


def test_a_byte_order_mark_in_a_text_is_no_joint(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines = [changed(json_lines()[0], order_update__client_order_id="\ufeffa", surprise=1)]
    path.write_bytes(lines[0])
    _, error = until_error(read_places(find_places(str(path))))
    assert (error.field, error.hint) == ("surprise", "")


def test_joined_streams_of_frames_are_named(tmp_path: Path) -> None:
    path = stream_file(tmp_path / "s", RECORDS)
    path.write_bytes(path.read_bytes() * 2)
    records, error = until_error(read_places(find_places(str(path))))
    assert (records, error.field) == (len(RECORDS), "length")
    assert "files were joined" in error.hint


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b""])
def test_text_that_is_not_utf8_is_named(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "s.jsonl"
    order = "utf-16-be" if mark == b"\xfe\xff" else "utf-16-le"
    path.write_bytes(mark + b"\n".join(json_lines()).decode().encode(order))
    with pytest.raises(SourceUnusable, match=r"s\.jsonl.*it is UTF-16 text.* iconv -f UTF-16"):
        read(path)
    path.write_bytes(json_lines()[0] + b"\n" + json_lines()[1].decode().encode(order))
    records, error = until_error(read_places(find_places(str(path))))
    assert (records, error.position) == (1, "line 2")
    assert "UTF-16" in error.hint


@pytest.mark.parametrize("format_", [Format.AUTO, Format.JSON_LINES])
def test_what_is_packed_otherwise_is_named(tmp_path: Path, format_: Format) -> None:
    path = tmp_path / "s"
    for pack, name in ((bz2.compress, "bzip2"), (lzma.compress, "xz")):
        path.write_bytes(pack(b"\n".join(json_lines())))
        with pytest.raises(SourceUnusable, match=f"compressed with {name}.*{name} -dc FILE"):
            read(path, format_=format_)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("s.jsonl", json_lines()[0])
    with pytest.raises(SourceUnusable, match=r"a zip archive.*unzip -p FILE"):
        read(path, format_=format_)


@pytest.mark.parametrize("at_once", [None, 1, 7, 4096])
@pytest.mark.parametrize("format_", [Format.FRAMES, Format.JSON_LINES])
def test_gzip_is_unpacked(tmp_path: Path, format_: Format, at_once: int | None) -> None:
    """Two members: as `cat a.gz b.gz` joins them."""
    whole = in_format(tmp_path / "s", format_).read_bytes()
    content = gzip.compress(whole[:3000]) + gzip.compress(whole[3000:])
    expected = {s: run_of(RECORDS, s) for s in (1, 2, 3)}
    if at_once is None:
        (tmp_path / "s.gz").write_bytes(content)
        assert runs(read(tmp_path / "s.gz")) == expected
        assert runs(read(tmp_path / "s.gz", format_=format_)) == expected
        return
    pipe = io.BufferedReader(Trickle(content, at_once))  # type: ignore[type-var]
    chunks = list(read_places([Place("standard input", lambda: pipe, again=False)]))
    assert runs(chunks) == expected


@pytest.mark.parametrize("format_", [Format.FRAMES, Format.JSON_LINES])
def test_gzip_that_is_damaged_or_cut_off_is_named(tmp_path: Path, format_: Format) -> None:
    path = tmp_path / "s.gz"
    content = gzip.compress(in_format(tmp_path / "s", format_).read_bytes())
    cut, corrupt, check = content[:-20], bytearray(content), bytearray(content)
    corrupt[len(content) // 2] ^= 0xFF
    check[-6] ^= 0xFF
    for bad in (cut, corrupt, check):
        path.write_bytes(bad)
        with pytest.raises((MalformedInput, SourceUnusable)) as raised:
            read(path)
        assert raised.value.source == str(path)
    path.write_bytes(content[:5])
    with pytest.raises(SourceUnusable, match=r"s\.gz.*ended before"):
        read(path)


def test_a_malformed_frame_is_located_within_gzip(tmp_path: Path) -> None:
    content = bytearray(stream_file(tmp_path / "s", RECORDS).read_bytes())
    content[8 + 400 * 4 + 12] = 5
    (tmp_path / "s.gz").write_bytes(gzip.compress(content))
    places = find_places(str(tmp_path / "s.gz"))
    key = RECORDS[4].symbol_id, RECORDS[4].seq
    assert read_places(places).locate({key}) == {
        key: f"{tmp_path / 's.gz'}, byte {8 + 400 * 4} (frame 5)"
    }


def test_parquet_within_gzip_is_refused(tmp_path: Path) -> None:
    path = in_format(tmp_path / "s", Format.PARQUET)
    path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(SourceUnusable, match=r"random access.*gzip"):
        read(path)


def _with_a_key_twice(value: object, path: str = "") -> Iterator[tuple[str, bytes]]:
    """Every field of a JSON value by its path, and the value as text with that key twice."""
    encode, raw = msgspec.json.encode, msgspec.Raw
    if isinstance(value, dict):
        for name, item in value.items():
            field = f"{path}.{name}" if path else name
            first = encode({name: item})[:-1]
            yield field, first + b"," + encode(value)[1:]
            for inner, text in _with_a_key_twice(item, field):
                yield inner, encode({**value, name: raw(text)})
    elif isinstance(value, list):
        for place, item in enumerate(value):
            for inner, text in _with_a_key_twice(item, f"{path}[{place}]"):
                yield inner, encode([*value[:place], raw(text), *value[place + 1 :]])


def test_a_key_that_is_there_twice_is_refused_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines = json_lines()
    whole = msgspec.json.decode(json_lines(made(1, size_bytes=3000))[0])
    assert all(items for items in whole.values() if isinstance(items, list))
    fields = dict(_with_a_key_twice(whole))
    assert len(fields) > 100
    for field, line in fields.items():
        path.write_bytes(b"\n".join([*lines[:3], line, *lines[3:]]))
        records, error = until_error(read_places(find_places(str(path))))
        assert (records, error.position, error.field) == (3, "line 4", field)
        assert "more than once" in error.reason


def test_a_key_that_is_there_twice_is_named_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    for old, new, field in (
        (b'"output_seq":1', b'"output_seq":9,"output_seq":1', "output_seq"),
        (b'"delta":', b'"delta":0,\t"delta" :', "balance_events[0].delta"),
        (b'"crc":', b'"crc":0,"c\\u0072c":', "input.crc"),
        (b'"order_completions":[]', b'"trades":[],"order_completions":[]', "trades"),
    ):
        line = json_lines()[0]
        assert old in line
        path.write_bytes(line.replace(old, new, 1))
        _, error = until_error(read_places(find_places(str(path))))
        assert (error.position, error.field) == ("line 1", field)


@pytest.mark.parametrize("text", ["a:b", "::", 'a"b', "\\:", "\u00e9:"])
def test_a_colon_in_a_text_is_no_second_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.jsonl"
    plain = [changed(line, order_update__client_order_id=text, hash=None, prev_hash=None,
                     hash_version=None) for line in json_lines(made(6, chained=False))]  # fmt: skip
    path.write_bytes(b"\n".join(plain))
    assert sum(chunk.records for chunk in read(path, chained=False)) == 6
    twice = plain[0].replace(b'"side":', b'"side":0,"side":', 1)
    path.write_bytes(twice)
    _, error = until_error(read_places(find_places(str(path)), chained=False))
    assert error.field == "order_update.side"


def test_what_may_be_left_out_of_a_line_in_any_combination(tmp_path: Path) -> None:
    """What was left out and what was given twice must not make up for each other."""
    path = tmp_path / "s.jsonl"
    dice = random.Random(4)
    optional = ("input__crc", "input__data", "order_update__client_order_id", "symbol_id",
                "order_placements", "order_completions", "balance_events", "hash_version",
                "hash", "prev_hash")  # fmt: skip
    [line] = json_lines(made(1, symbols=1, chained=False))
    for _ in range(200):
        left_out = dict.fromkeys(dice.sample(optional, dice.randint(0, len(optional))))
        if not left_out.keys() >= {"hash", "prev_hash"}:
            left_out |= {"hash": None, "prev_hash": None}
        short = changed(line, **left_out)
        path.write_bytes(short)
        assert sum(chunk.records for chunk in read(path, chained=False)) == 1
        path.write_bytes(short.replace(b'"price":', b'"price":1,"price":', 1))
        _, error = until_error(read_places(find_places(str(path)), chained=False))
        assert error.field == "order_update.price"


def test_a_column_that_is_there_twice_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    numbers = pa.array([1, 2], pa.uint64())
    twice = pa.StructArray.from_arrays([numbers, numbers], ["crc", "crc"])
    listed = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), twice)
    for names, columns, field in (
        (["output_seq", "output_seq"], [numbers, numbers], "output_seq"),
        (["output_seq", "input"], [numbers, twice], "input.crc"),
        (["output_seq", "trades"], [numbers, listed], "trades.crc"),
    ):
        pq.write_table(pa.Table.from_arrays(columns, names=names), path)
        records, error = until_error(read_places(find_places(str(path))))
        assert (records, error.field) == (0, field)
        assert "more than once" in error.reason


@pytest.mark.parametrize("bad", [b'"\\ud83d"', b'"\xff"'])
def test_text_that_is_no_utf8_is_named_by_its_field(tmp_path: Path, bad: bytes) -> None:
    lines = json_lines()
    lines[3] = lines[3].replace(b'"client_order_id":"', b'"client_order_id":' + bad + b',"x":"')
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join(lines))
    records, error = until_error(read_places(find_places(str(path))))
    assert (records, error.position) == (3, "line 4")
    assert error.field == "order_update.client_order_id"


def test_a_null_anywhere_in_parquet_is_a_field_that_is_left_out(tmp_path: Path) -> None:
    plain = made(6, symbols=1, size_bytes=400, chained=False)
    rows = [msgspec.to_builtins(decode(record.body), builtin_types=(bytes,)) for record in plain]
    for row in rows:
        row |= {"hash": None, "prev_hash": None, "balance_events": None}
        row["input"] |= {"crc": None, "data": None}
        row["order_update"]["client_order_id"] = None
    path = tmp_path / "s.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    [chunk] = read(path, chained=False)
    [first, *_] = [decode(piece[4:]) for piece in chunk.runs[1]]
    assert (first.input.crc, first.input.data, first.balance_events) == (0, b"", ())
    assert first.order_update is not None
    assert first.order_update.client_order_id == ""
    rows[4]["trades"][0]["price"] = None
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    records, error = until_error(read_places(find_places(str(path)), chained=False))
    assert (records, error.position, error.field) == (4, "row 5", "trades[0].price")


def test_text_in_parquet_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    offsets = pa.py_buffer(bytes([0, 0, 0, 0, 2, 0, 0, 0]))
    text = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"\xff\xfe"))
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"output_seq": pa.array([1]), "note": text}), path)
    _, error = until_error(read_places(find_places(str(path))))
    assert error.position == "behind row 0"


class Failing(io.BytesIO):
    """A disk that gives an error behind what it has."""

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        count = super().readinto(buffer)
        if not count:
            raise OSError(5, "Input/output error")
        return count


def test_a_source_that_fails_on_the_way_keeps_what_came_before(tmp_path: Path) -> None:
    content = STREAM_MAGIC + run_of(RECORDS, 1)
    good = Place("good", lambda: io.BytesIO(content))
    failing = Place("bad", lambda: io.BufferedReader(Failing(content)), again=False)  # type: ignore[type-var]
    gone = [good, *find_places(str(in_format(tmp_path / "gone", Format.FRAMES)))]
    (tmp_path / "gone").unlink()
    for places, expected in (([failing], 10), ([good, failing], 20), (gone, 10)):
        records, error = until_error(read_places(places))
        assert records == expected
        assert error.source == places[-1].name
        assert "cannot be read" in error.reason
    with pytest.raises(SourceUnusable, match="gone"):
        list(read_places(gone[1:]))
    empty = Place("empty", lambda: Failing(b""))
    with pytest.raises(SourceUnusable, match=r"empty.*Input/output error"):
        list(read_places([empty]))


def test_a_source_that_is_gone_before_its_malformed_record_is_located(tmp_path: Path) -> None:
    path = stream_file(tmp_path / "s", RECORDS)
    places = find_places(str(path))
    path.unlink()
    assert read_places(places).locate({(1, 1)}) == {}
