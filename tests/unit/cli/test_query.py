"""`headrace query` as a user runs it: in a shell, in a pipe, into a file, and stopped."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from headrace.cli.main import main
from tests.support.processes import wait_until
from tests.support.queries import unified_lake

NOON = datetime(2024, 3, 9, 12, tzinfo=UTC)
#: As the installed command does it.
ENTRY = "from headrace.cli.entry import main; main()"
#: Runs for hours, and looks at no signal by itself.
ENDLESS = "SELECT count(*) FROM range(1000000000000) WHERE hash(range) = 0"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    unified_lake(folder, {"BTC-USD": [(n, NOON, f"{n}.50", "1") for n in range(1, 201)]})
    return folder


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def command(*arguments: str, lake: Path | None = None) -> list[str]:
    where = ["--lake", str(lake)] if lake else []
    return [sys.executable, "-c", ENTRY, "query", *arguments, *where]


def run(*arguments: str, lake: Path, stdin: str = "") -> Ended:
    """The command within this process: standard output and error, and its exit code."""
    out, err = io.BytesIO(), io.StringIO()
    text = io.TextIOWrapper(out, "utf-8", write_through=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["headrace", "query", *arguments, "--lake", str(lake)])
        patched.setattr(sys, "stdin", io.StringIO(stdin))
        patched.setattr(sys, "stdout", text)
        patched.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as ended:
            main()
    text.flush()
    return Ended(int(ended.value.code or 0), out.getvalue().decode(), err.getvalue())


def test_a_table_shows_exact_values_and_says_when_there_are_more(lake: Path) -> None:
    done = run("SELECT trade_id, price FROM trades ORDER BY trade_id", lake=lake)

    assert done.code == 0, done.err
    assert "│        1 │   1.5 │" in done.out
    assert "100.5" in done.out
    assert "101.5" not in done.out
    assert "the first 100 rows" in done.err


def test_sql_from_standard_input_and_from_a_file(lake: Path, tmp_path: Path) -> None:
    sql = "SELECT count(*) AS n FROM trades"
    (tmp_path / "count.sql").write_text(sql + ";\n")

    for arguments, stdin in (
        ([], sql),
        (["-"], sql),
        (["--file", str(tmp_path / "count.sql")], ""),
    ):
        done = run(*arguments, "--format", "json", lake=lake, stdin=stdin)
        assert json.loads(done.out) == [{"n": 200}], done.err


def test_a_plan_is_shown_as_it_is(lake: Path) -> None:
    done = run("EXPLAIN SELECT price FROM trades WHERE symbol = 'BTC-USD'", lake=lake)

    assert "READ_PARQUET" in done.out
    assert "explain_key" not in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["SELCT 1"], 'syntax error at or near "SELCT"'),
        (["FROM foo"], "no table foo. There are trades, trades_raw, quarantine, candles"),
        (["FROM trade_raw"], "no table trade_raw. Did you mean trades_raw? There are"),
        (["FROM candels('1 hour')"], "no table candels. Did you mean candles?"),
        (["FROM main.foo"], "no table"),
        (["COPY trades TO 'x'"], "COPY statements are refused"),
        (["FROM read_csv('/etc/passwd')"], "no other files"),
        (["SELECT 1", "--file", "x.sql"], "two SQL texts"),
        (["--file", "/nowhere.sql"], "cannot be read"),
        (["SELECT 1", "--output", "/tmp/x.txt"], "--format"),
        (["SELECT 1", "--output", "/nowhere/x.csv"], "cannot be written"),
        (["SELECT 1", "--memory", "lots"], "lots"),
        (["SELECT 1", "--format", "xml"], "xml"),
    ],
)
def test_wrong_use_is_one_message_and_exit_code_2(
    lake: Path, arguments: list[str], words: str
) -> None:
    done = run(*arguments, lake=lake)

    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
    assert "pg_" not in done.err
    assert done.out == ""


def test_a_place_without_a_lake(tmp_path: Path) -> None:
    done = run("SELECT 1", lake=tmp_path / "none")

    assert done.code == 2
    assert "holds no trades" in done.err


def test_a_table_that_no_transform_has_made_is_wrong_use_too(tmp_path: Path) -> None:
    unified_lake(tmp_path, {"BTC-USD": [(1, NOON, "1.50", "1")]})
    rmtree(tmp_path / "unified")

    for table in ("trades", "candles('1 hour')"):
        done = run(f"SELECT count(*) FROM {table}", lake=tmp_path)
        assert done.code == 2
        assert "headrace transform" in done.err
    assert run("SELECT count(*) FROM trades_raw", lake=tmp_path).code == 0


def test_rows_go_to_a_file_of_the_format_of_its_name(lake: Path, tmp_path: Path) -> None:
    output = tmp_path / "rows.parquet"
    arguments = ["SELECT * FROM trades", "--output", str(output)]

    assert run(*arguments, lake=lake).code == 0
    assert pq.read_table(output).num_rows == 200
    before = output.read_bytes()

    refused = run(*arguments, lake=lake)
    assert refused.code == 2
    assert "--force" in refused.err
    broken = run("SELECT price / 0, 'x'::INTEGER FROM trades", *arguments[1:], "--force", lake=lake)
    assert broken.code == 2
    assert output.read_bytes() == before, "a query that fails leaves the file as it was"
    again = run("SELECT 1 AS one", *arguments[1:], "--force", lake=lake)
    assert again.code == 0, again.err
    assert pq.read_table(output).num_rows == 1
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_no_file_is_written_into_the_lake(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(lake)

    for place in (lake / "raw/trades/rows.csv", tmp_path / "link" / "rows.csv"):
        done = run("SELECT 1", "--output", str(place), lake=lake)
        assert done.code == 2
        assert "is in the lake" in done.err
        assert not place.exists()


def test_a_reader_that_closes_the_pipe_ends_the_query_quietly(lake: Path) -> None:
    for form in ("csv", "parquet"):
        sql = "SELECT range, hash(range) FROM range(1000000000)"
        process = subprocess.Popen(
            command(sql, "--format", form, lake=lake),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(100)
        process.stdout.close()

        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_many_rows_take_no_more_memory(lake: Path) -> None:
    """10 million rows, 160 MB: as many again would show."""
    program = (
        "import resource, sys; from headrace.cli.main import app;"
        "app(sys.argv[1:], standalone_mode=False);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )

    def peak_kb(rows: int) -> int:
        sql = f"SELECT range AS a, range AS b FROM range({rows})"
        arguments = ["query", sql, "--format", "arrow", "--lake", str(lake)]
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True)
        assert len(done.stdout) > rows * 16
        return int(done.stderr.split()[-1])

    assert peak_kb(10_000_000) < peak_kb(1_000_000) + 80_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_long_query(lake: Path, tmp_path: Path, number: signal.Signals) -> None:
    output = tmp_path / "rows.csv"
    sql = f"SELECT 1 AS one UNION ALL ({ENDLESS})"
    spilled = tmp_path / "spilled"
    spilled.mkdir()
    process = subprocess.Popen(
        command(sql, "--output", str(output), lake=lake),
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(spilled)},
    )
    wait_until(lambda: any(spilled.iterdir()))
    time.sleep(0.5)

    process.send_signal(number)

    assert process.wait(30) == 130
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spilled"]
    assert list(spilled.iterdir()) == []
