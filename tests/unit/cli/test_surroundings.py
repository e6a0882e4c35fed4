"""What surrounds a command gives no traceback and does not decide its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product as combined
from pathlib import Path

import pytest
from support.surroundings import Case, run_cases

from headrace.cli.entry import let_no_warning_be_an_error
from headrace.cli.server.environment import prefect_home, server_environment
from headrace.cli.server.state import StateFolder

#: Commands that need neither a server nor an exchange, and how each ends in an empty folder.
COMMANDS = {
    ("metrics", "list"): 0,
    ("status",): 0,
    ("quota", "status"): 0,
    ("breaker", "status"): 0,
    ("lease", "list"): 0,
    ("looker", "list"): 2,
    ("sot", "head"): 2,
    ("backfill", "--nope"): 2,
    ("backfill", "--help"): 0,
}
FEW = [("status",), ("quota", "status"), ("looker", "list"), ("sot", "head")]
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def ends_as_ever(tmp_path: Path, **different: object) -> None:
    cases = [Case(words, **different) for words in COMMANDS]  # type: ignore[arg-type]
    for case, ended in zip(cases, run_cases(cases, tmp_path / "home"), strict=True):
        assert "Traceback" not in ended.out + ended.err, (case.words, ended.err)
        assert ended.code == COMMANDS[tuple(case.words)], (case.words, ended.err)


@pytest.mark.parametrize(
    "different",
    [
        {"encoding": "latin-1", "set": {"COLUMNS": "60"}},
        {"encoding": "ascii", "set": {"COLUMNS": "60"}},
        {"closed": [0, 1, 2]},
        {"closed": [2]},
        pytest.param({"stderr": "/dev/full"}, marks=FULL),
        {"umask": 0o777},
        {"limits": {"NOFILE": 20}},
        {"set": {"TZ": "No/Where", "TMPDIR": "/not/there", "SOURCE_DATE_EPOCH": "x"}},
    ],
    ids=str,
)
def test_streams_and_limits(tmp_path: Path, different: dict[str, object]) -> None:
    ends_as_ever(tmp_path, **different)


def test_a_terminal_of_any_width(tmp_path: Path) -> None:
    widths = ("0", "1", "2", "-5", "wide", "100000")
    cases = [
        Case(words, set={"COLUMNS": w})
        for words, w in combined([*FEW, ("backfill", "--nope")], widths)
    ]
    for case, ended in zip(cases, run_cases(cases, tmp_path / "home"), strict=True):
        assert (ended.code, "Traceback" in ended.err) == (COMMANDS[tuple(case.words)], False), case


def test_an_impossible_width_hides_nothing(tmp_path: Path) -> None:
    cases = [Case(("config", "show"), set={"COLUMNS": width}) for width in ("0", "1")]
    of_none, of_one, usual = run_cases([*cases, Case(("config", "show"))], tmp_path / "home")
    assert usual.out.strip()
    assert of_none.out == of_one.out == usual.out


ODD_NAMES = (
    "a b", "new\nline", "quo'te\"s", "per%20cent%s", "ha#sh", "qu?estion", "dollar$HOME",
    "back\\slash", "star*[x]", "[bold]", "{run}", "\udcff\udcfe", "ü…", "eq=ual", "~", "-x",
)  # fmt: skip


def test_a_path_with_any_characters(tmp_path: Path) -> None:
    cases = []
    for name, words in combined(ODD_NAMES, FEW):
        place = f"{tmp_path}/{name}"
        paths = {"HOME": "home", "LAKE": "lake", "SOT": "sot", "LOOKER_VAULT": "vault.sqlite"}
        cases.append(
            Case(words, set={f"HEADRACE_{key}": f"{place}/{end}" for key, end in paths.items()})
        )
    for case, ended in zip(cases, run_cases(cases, tmp_path / "home"), strict=True):
        assert (ended.code, "Traceback" in ended.err) == (COMMANDS[tuple(case.words)], False), case
    assert (tmp_path / "qu?estion" / "home" / "prefect").is_dir()


def one(tmp_path: Path, *words: str, **different: object) -> tuple[int, str]:
    [ended] = run_cases([Case(words, **different)], tmp_path / "home")  # type: ignore[arg-type]
    assert "Traceback" not in ended.out + ended.err
    return ended.code, " ".join(ended.err.split())


@ROOT
@pytest.mark.parametrize("home", [{"unset": ["HOME", "HEADRACE_HOME"]}, {"set": {"HOME": ""}}])
def test_a_user_without_a_home_is_said(tmp_path: Path, home: dict[str, object]) -> None:
    unset = home.get("unset", ["HEADRACE_HOME"])
    code, said = one(tmp_path, "status", user=54321, **{**home, "unset": unset})
    assert (code, "Set HEADRACE_HOME" in said) == (2, True), said


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    code, said = one(tmp_path, "status", folder_gone=True)
    assert (code, "Change to another folder" in said) == (2, True), said


@pytest.mark.parametrize("name", [".env", "prefect.toml", "pyproject.toml"])
def test_a_settings_file_that_is_no_text_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    code, said = one(tmp_path, "status")
    assert (code, f"{tmp_path / name} cannot be read" in said) == (2, True), said


@ROOT
def test_threads_that_are_refused_are_one_line(tmp_path: Path) -> None:
    place = {"HOME": "/", "HEADRACE_HOME": "/not/there"}
    code, said = one(tmp_path, "doctor", set=place, folder="/", limits={"NPROC": 1}, user=54321)
    assert (code, said.count("headrace:")) == (1, 1), said
    assert "ulimit -a" in said


def test_a_reader_who_leaves_does_not_change_the_exit_code(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("headrace")
    line = f"'{script}' metrics list | head -c0; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "HEADRACE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_other_packages_of_our_names_and_warnings_that_are_errors(tmp_path: Path) -> None:
    for name in ("flows", "tasks", "blocks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('not ours')")
    program = (
        "import warnings\n"
        "from headrace.cli import entry, main\n"
        "def command():\n"
        "    warnings.warn('old', DeprecationWarning)\n"
        "    import tasks.bounded_map\n"
        "    print(tasks.bounded_map.__file__)\n"
        "main.main = command\n"
        "entry.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout.startswith(str(tmp_path))


def test_children_raise_no_warning_either() -> None:
    environ = {"PYTHONWARNINGS": "ignore::DeprecationWarning,error::ResourceWarning,e"}
    let_no_warning_be_an_error(environ)
    assert environ["PYTHONWARNINGS"] == (
        "ignore::DeprecationWarning,default::ResourceWarning,default"
    )


def test_the_servers_database_is_in_its_folder_whatever_its_name(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "a?b#c%20d")
    url = server_environment(folder, 4200, {})["PREFECT_SERVER_DATABASE_CONNECTION_URL"]
    assert url == "sqlite+aiosqlite:///prefect.db"
    plain = StateFolder(tmp_path / "plain")
    url = server_environment(plain, 4200, {})["PREFECT_SERVER_DATABASE_CONNECTION_URL"]
    assert url == f"sqlite+aiosqlite:///{plain.database}"


def test_prefect_has_a_home_where_the_user_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert prefect_home(tmp_path, {}) == {}
    (tmp_path / "file").touch()
    for nowhere in ("/not/there", str(tmp_path / "file")):
        monkeypatch.setenv("HOME", nowhere)
        assert prefect_home(tmp_path, {}) == {"PREFECT_HOME": str(tmp_path / "prefect-client")}
        assert prefect_home(tmp_path, {"PREFECT_HOME": "/mine"}) == {}
