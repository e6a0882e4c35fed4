"""`headrace sot get` and `sot tail` as a user runs them: pipes, signals, cursors, wrong input."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import main
from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.frames import STREAM_MAGIC, join
from tests.support.sot_streams import made, write

RECORDS = made(3000, symbol_ids=(1, 2, 3), size_bytes=300)
STREAM = STREAM_MAGIC + join(record.body for record in RECORDS)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reads") / "log"
    store = EmbeddedStore(folder)
    write(store, RECORDS, per_chunk=1000, batch_records=100)
    store.close()
    return folder


def command(log: Path, *arguments: object) -> list[str]:
    program = "from headrace.cli.entry import main; main()"
    return [sys.executable, "-c", program, "sot", *map(str, arguments), "--store", str(log)]


def run(log: Path, *arguments: object) -> Any:
    done = subprocess.run(command(log, *arguments), capture_output=True, timeout=60)
    assert b"Traceback" not in done.stderr
    return done


def test_get_writes_what_was_asked_for(log: Path) -> None:
    done = run(log, "get", 2, "17..18")
    assert [json.loads(line)["output_seq"] for line in done.stdout.splitlines()] == [17, 18]
    own = [record.body for record in RECORDS if record.symbol_id == 2]
    assert run(log, "get", 2, "999..", "--format", "frames").stdout == STREAM_MAGIC + join(
        own[998:]
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("get", 2, "0"), b"It has seq 1 to 1000"),
        (("get", 2, "999..1001"), b"has no seq 1001"),
        (("get", 4, "1"), b"has no symbol 4"),
        (("get", 2, "5..4"), b"no range"),
        (("get", 2, "..4"), b"is no sequence"),
        (("get", 2, 2**64), b"below 2**64"),
        (("tail", "--symbols", 4), b"has no symbol 4"),
        (("tail", "--cursor", "/dev/null/c.json"), b"cursor"),
        (("tail", "--cursor", __file__), b"cursor"),
    ],
)
def test_wrong_input_is_one_line(
    log: Path,
    arguments: tuple[object, ...],
    words: bytes,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    words_of_it = ["headrace", "sot", *map(str, arguments), "--store", str(log)]
    monkeypatch.setattr(sys, "argv", words_of_it)
    with pytest.raises(SystemExit) as ended:
        main()
    said = capfdbinary.readouterr()
    assert ended.value.code == 2
    assert said.out == b""
    assert len(said.err.splitlines()) == 1
    assert words in said.err


def test_a_closed_pipe_ends_it_and_its_cursor_loses_nothing(log: Path, tmp_path: Path) -> None:
    cursor = tmp_path / "cursor.json"
    arguments = ("tail", "--format", "frames", "--cursor", cursor)
    with subprocess.Popen(
        command(log, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        begin = process.stdout.read(1000)
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""
    assert STREAM.startswith(begin)
    second = run(log, *arguments)
    # What was in the pipe when it was closed is written again: the batch did not get out whole.
    assert second.stdout == STREAM
    assert run(log, *arguments).stdout == STREAM_MAGIC


def test_an_interrupted_tail_goes_on_where_it_was(log: Path, tmp_path: Path) -> None:
    cursor = tmp_path / "cursor.json"
    arguments = ("tail", "--follow", "--format", "frames", "--cursor", cursor)
    with subprocess.Popen(
        command(log, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(len(STREAM)) == STREAM
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""
        assert process.wait(60) == 130
    assert run(log, "tail", "--format", "frames", "--cursor", cursor).stdout == STREAM_MAGIC
