"""The log through its flows and commands: what goes in comes out, what is wrong is named."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.metrics import samples

from blocks.sot import BlockHeads, SotStoreBlock
from headrace.cli.main import main
from headrace.lake.names import location_digest
from headrace.leases import hold, open_leases
from headrace.run.report import Status
from headrace.settings import load_settings
from headrace.sot.acknowledged_heads import HeadsUnreadable
from headrace.sot.chain import link
from headrace.sot.frames import STREAM_MAGIC, frame, join
from headrace.sot.opening import open_store
from headrace.sot.output import write_json_lines
from headrace.sot.reports import SotReport
from headrace.sot.sample_records import StreamSpec, generate
from headrace.sot.sources.places import find_places
from headrace.sot.sources.reading import read_places
from headrace.sot.unsharded_log import OldLog
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.write import write_stream

pytestmark = pytest.mark.flows

SYMBOLS = (0, 7, 8, 4096)
BODIES = [made.body for made in generate(StreamSpec(records=400, symbol_ids=SYMBOLS))]
STREAM = STREAM_MAGIC + join(BODIES)


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, Any]:
        [line] = self.out.splitlines()
        found: dict[str, Any] = json.loads(line)
        return found


@pytest.fixture
def headrace(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """The command in this process; it ends with an exception instead of the process."""
    monkeypatch.setattr("headrace.cli.running.bounded_exit", lambda code, drain_s: sys.exit(code))

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["headrace", *map(str, arguments)])
        capfd.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capfd.readouterr()
        assert "Traceback" not in said.err, said.err
        return Ended(code, said.out, said.err)

    return run


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.sot"
    path.write_bytes(STREAM)
    return path


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(tmp_path / "log")


def write(source: Path | str, log: str, **parameters: Any) -> SotReport:
    from flows.sot_write import sot_write

    given = {"processes": 0, "shards": 2, **parameters}
    state = sot_write(str(source), log, **given, return_state=True)
    outcome = state.result(raise_on_failure=False)
    if isinstance(outcome, BaseException):
        raise outcome
    assert isinstance(outcome, SotReport)
    return outcome


def test_written_verified_replayed_and_heads_remembered(
    headrace: Any, source: Path, log: str, tmp_path: Path
) -> None:
    written = headrace("sot", "write", source, "--store", log, "--shards", 3, "--verify", "--json")
    assert written.code == 0
    assert written.summary["written"] == written.summary["verified"] == 400
    assert sum(shard["records"] for shard in written.summary["shards"]) == 400
    kept = BlockHeads(str(Path(log).absolute())).load()
    assert kept is not None
    store = open_store(log)
    assert kept.positions == {s: store.head(s).position for s in SYMBOLS}  # type: ignore[union-attr]
    store.close()
    again = headrace("sot", "write", source, "--store", log, "--shards", 8, "--json")
    assert (again.code, again.summary["written"], again.summary["duplicates"]) == (0, 0, 400)
    assert headrace("sot", "verify", "--store", log).code == 0
    recovered = headrace("sot", "recover", tmp_path / "out.sot", "--store", log, "--json")
    assert (recovered.code, recovered.summary["records"]) == (0, 400)
    assert (tmp_path / "out.sot").read_bytes() == STREAM
    heads = headrace("sot", "head", "--store", log, "--json").summary["symbols"]
    assert [(row["symbol"], row["next_seq"]) for row in heads] == [(s, "101") for s in SYMBOLS]


def test_a_log_that_lost_its_end_is_not_what_the_heads_say(
    headrace: Any, source: Path, log: str, tmp_path: Path
) -> None:
    write(source, log)
    shorter = tmp_path / "shorter.sot"
    shorter.write_bytes(STREAM_MAGIC + join(BODIES[:200]))
    for file in Path(log).iterdir():
        file.unlink()
    store = open_store(log)
    write_stream(read_places(find_places(str(shorter))), store, WriteOptions(processes=0))
    store.close()
    verified = headrace("sot", "verify", "--store", log, "--json")
    assert verified.code == 4
    assert len([text for text in verified.summary["problems"] if "acknowledged" in text]) == 4
    assert headrace("sot", "verify", "--store", log, "--no-heads", "--json").code == 0
    recovered = headrace("sot", "recover", tmp_path / "out.sot", "--store", log, "--json")
    assert recovered.code == 4
    assert recovered.summary["out"].endswith(".partial")


MALFORMED = [
    ("cut.sot", STREAM[:-5], 4, "cut.sot"),
    ("cut-first.sot", STREAM[:60], 1, "cut-first.sot"),
    ("newer.sot", STREAM_MAGIC[:6] + b"\x09\x00" + STREAM[8:], 1, "newer.sot"),
]


@pytest.mark.parametrize(("name", "content", "code", "named"), MALFORMED)
def test_a_damaged_stream_is_named_and_what_came_before_is_kept(
    headrace: Any, tmp_path: Path, log: str, name: str, content: bytes, code: int, named: str
) -> None:
    (tmp_path / name).write_bytes(content)
    ended = headrace("sot", "write", tmp_path / name, "--store", log, "--json")
    assert ended.code == code
    assert any(named in problem for problem in ended.summary["problems"])
    if code == 4:
        assert ended.summary["written"] == 399


def lines() -> list[bytes]:
    out = io.BytesIO()
    write_json_lines(BODIES[:20], out)
    return out.getvalue().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{not json\n", ("line 11",)),
        (b'{"output_seq": 18446744073709551616, "input": {"input_seq": 1}}\n', ("line 11",)),
        (b'{"output_seq": 5, "hash": 1, "prev_hash": 0}\n', ("line 11", "input")),
        (b'{"output_seq": 5, "input": {"input_seq": 1}}\n', ("line 11", "hash")),
        (b"\xff\xfe\n", ("line 11",)),
    ],
)
def test_a_bad_line_is_named_by_file_line_and_field(
    headrace: Any, tmp_path: Path, log: str, line: bytes, words: tuple[str, ...]
) -> None:
    good = lines()
    (tmp_path / "in.jsonl").write_bytes(b"".join([*good[:10], line, *good[10:]]))
    ended = headrace("sot", "write", tmp_path / "in.jsonl", "--store", log, "--json")
    assert (ended.code, ended.summary["written"]) == (4, 10)
    (problem,) = ended.summary["problems"]
    assert all(word in problem for word in ("in.jsonl", *words)), problem


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("write", "absent.sot", "--store", "{log}"), "no such file"),
        (("write", "{source}", "--store", "ftp://x/y"), "not supported"),
        (("write", "{source}", "--store", "cql://user:secret@host/ks"), "cannot be used"),
        (("write", "{source}", "--store", "cql://host/Bad-Name"), "keyspace"),
        (("verify", "--store", "{log}"), "there is none"),
        (("recover", "{source}", "--store", "{log}"), "exists already"),
        (("recover", "-", "--json", "--store", "{log}"), "cannot hold both"),
        (("head", "--store", "{log}"), "there is none"),
        (("gen", "{source}"), "exists already"),
        (("gen", "x.sot", "--faults", "gap"), "KIND:COUNT"),
        (("gen", "x.sot", "--faults", "nap:1"), "no fault"),
        (("migrate", "absent.sqlite", "--store", "{log}"), "no such file"),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_code_2(
    headrace: Any,
    source: Path,
    log: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = headrace("sot", *(word.format(source=source, log=log) for word in arguments))
    assert ended.code == 2, ended
    said = [line for line in ended.err.splitlines() if line.startswith("headrace:")]
    assert len(said) == 1
    assert words in said[0]
    assert "secret" not in ended.err


def test_a_second_writer_of_a_store_is_refused(headrace: Any, source: Path, log: str) -> None:
    leases = open_leases(load_settings().lease_location)
    name = f"sot@{location_digest(str(Path(log).absolute()))}:write"
    with hold(leases, name, run_id="the-other"):
        ended = headrace("sot", "write", source, "--store", log, "--json")
    assert ended.code == 3
    assert ended.summary["status"] == "running_elsewhere"
    assert "the-other" in ended.summary["message"]


def test_faults_in_a_stream_are_counted_by_kind_and_named(
    headrace: Any, log: str, tmp_path: Path
) -> None:
    stream = tmp_path / "faulty.sot"
    faults = ("--faults", "fork:2", "--faults", "gap:1", "--faults", "duplicate:3")
    assert headrace("sot", "gen", stream, "--records", 800, *faults, "--json").code == 0
    ended = headrace("sot", "write", stream, "--store", log, "--json")
    assert ended.code == 4
    kinds = ended.summary["refused_by_kind"]
    assert kinds["fork"] == 2
    reported = ended.summary
    assert reported["duplicates"] >= 1
    assert reported["parked"] > 0
    # Every record that came has its place: none is lost without a word.
    assert reported["read"] == sum(
        reported[name] for name in ("written", "duplicates", "parked", "refused")
    )
    assert all("symbol" in problem for problem in ended.summary["problems"])


def test_a_saved_block_is_a_store(source: Path, log: str) -> None:
    SotStoreBlock(location=log).save("ours-for-tests", overwrite=True, _sync=True)
    assert write(source, "block:ours-for-tests").status is Status.DONE


def test_heads_of_a_newer_version_are_refused(headrace: Any, source: Path, log: str) -> None:
    write(source, log)
    keeper = BlockHeads(str(Path(log).absolute()))
    kept = keeper.load()
    assert kept is not None
    keeper.save(kept.model_copy(update={"schema_version": 99}))
    with pytest.raises(HeadsUnreadable, match="newer"):
        keeper.load()
    ended = headrace("sot", "verify", "--store", log)
    assert ended.code == 1
    assert "version 99 is newer" in ended.err
    assert write(source, log).status is Status.DONE, "a write does not hang on them"


@pytest.mark.long
def test_a_migration_through_the_flow(headrace: Any, log: str, tmp_path: Path) -> None:
    chained, prev_hash = [], 0
    for number, body in enumerate(BODIES, 1):
        framed, prev_hash = link(
            frame(body[:16] + number.to_bytes(8, "little") + body[24:]), prev_hash
        )
        chained.append(framed)
    (tmp_path / "old.sot").write_bytes(STREAM_MAGIC + b"".join(chained))
    old = str(tmp_path / "old.sqlite")
    OldLog(old, create=True)
    codes = [
        headrace("sot", "migrate", old, "--store", log, "--json", "--action", *action).code
        for action in (
            ("write", "--source", tmp_path / "old.sot"),
            ("switch",),
            ("begin",),
            ("backfill",),
            ("switch",),
            ("end",),
        )
    ]
    assert codes == [0, 2, 0, 0, 0, 0]
    ended = headrace("sot", "migrate", old, "--store", log, "--json")
    assert (ended.summary["phase"], ended.summary["reads"]) == ("ended", "new")


def test_metrics_of_a_write_are_published_by_shard(
    headrace: Any, source: Path, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "headrace.prom"
    monkeypatch.setenv("HEADRACE_METRICS", f"prometheus:{path}")
    ended = headrace("sot", "write", source, "--store", log, "--shards", 4, "--json")
    assert ended.code == 0, ended.err
    metrics = samples(path)

    by_shard = {row["shard"]: row["records"] for row in ended.summary["shards"] if row["records"]}
    for shard, records in by_shard.items():
        assert metrics["headrace_log_records_total", str(shard)] == records
        assert metrics["headrace_log_delay_seconds_count", str(shard)] == records
        assert metrics["headrace_log_commit_seconds_count", str(shard)] >= 1
        assert metrics["headrace_log_queue_bytes", str(shard)] > 0
    assert metrics["headrace_log_skew_ratio", ""] == pytest.approx(ended.summary["skew"], abs=0.01)
    assert metrics["headrace_log_problems_total", ""] == 0
    assert metrics["headrace_runs_total", "sot-write"] == 1


def test_a_log_is_anchored_and_held_to_its_anchors(
    headrace: Any, source: Path, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SIGNING_KEY", str(tmp_path / "key.pem"))
    store = open_store(log)
    write_stream(read_places(find_places(str(source))), store, WriteOptions(processes=0))
    store.close()
    anchors = str(tmp_path / "anchors.jsonl")
    to_anchors = ("--store", log, "--anchors", anchors, "--json")
    missing = headrace("sot", "anchor", *to_anchors)
    assert missing.code == 2
    assert "key make" in missing.err
    assert headrace("sot", "anchor", "--store", log).code == 2, "no anchor is named"
    key = headrace("evidence", "key", "make", "--json").summary
    anchored = headrace("sot", "anchor", *to_anchors, "--anchors", "git:/no/such/folder")
    assert anchored.code == 2
    mistyped = headrace("sot", "verify", *to_anchors)
    assert mistyped.code == 2
    assert "the file does not exist" in mistyped.err
    Path(anchors).touch()
    empty = headrace("sot", "verify", *to_anchors)
    assert empty.code == 4
    assert "holds no head; nothing is proven" in empty.summary["problems"][0]
    Path(anchors).unlink()
    anchored = headrace("sot", "anchor", *to_anchors)
    assert anchored.code == 0
    assert anchored.summary["head"]["key_id"] == key["key_id"]
    assert headrace("evidence", "key", "rotate", "--yes").code == 0
    assert headrace("sot", "anchor", *to_anchors).code == 0
    held = headrace("sot", "verify", *to_anchors, "--trust", key["key_id"])
    assert held.code == 0
    [place] = held.summary["anchors"]
    assert (place["heads"], place["misfit"]) == (2, "")
    assert "fits 2 heads" in held.summary["message"]

    shorter = tmp_path / "shorter.sot"
    shorter.write_bytes(STREAM_MAGIC + join(BODIES[:200]))
    store_id = (Path(log) / "store.id").read_text()
    for path in Path(log).iterdir():
        if path.name.startswith("volume-"):
            path.unlink()
    store = open_store(log)
    write_stream(read_places(find_places(str(shorter))), store, WriteOptions(processes=0))
    store.close()
    assert (Path(log) / "store.id").read_text() == store_id
    broken = headrace("sot", "verify", *to_anchors, "--no-heads")
    assert broken.code == 4
    assert any("anchors.jsonl, line 1: symbol" in text for text in broken.summary["problems"])
    unknown = headrace("sot", "verify", *to_anchors, "--trust", "0" * 32)
    assert unknown.code == 2
