"""The first second of the command."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headrace.cli import entry
from headrace.cli.exit_codes import Exit

_INTERRUPTED_WHILE_IT_LOADS = """
import importlib.abc, os, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGNAL)

sys.meta_path.insert(0, Interrupting())
from headrace.cli.entry import main
main()
"""

#: Instead of the command: a signal to itself, when all is loaded. (What a shell starts in the
#: background ignores SIGINT; then there is nothing to be interrupted.)
_INTERRUPTED_ONCE_LOADED = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from headrace.cli import entry, main

def command():
    try:
        os.kill(os.getpid(), signal.SIGNAL)
        signal.pause()
    except KeyboardInterrupt:
        print("the command's own way", flush=True)

main.main = command
entry.main()
"""


def ended(program: str, signal_name: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", program.replace("SIGNAL", signal_name), "--help"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_while_it_loads_is_quiet(name: str) -> None:
    assert ended(_INTERRUPTED_WHILE_IT_LOADS, name) == (Exit.INTERRUPTED, "", "")


def test_once_it_is_loaded_ctrl_c_is_the_commands_own() -> None:
    assert ended(_INTERRUPTED_ONCE_LOADED, "SIGINT") == (0, "the command's own way\n", "")


def test_and_sigterm_ends_it_as_ctrl_c_does() -> None:
    assert ended(_INTERRUPTED_ONCE_LOADED, "SIGTERM") == (Exit.INTERRUPTED, "", "")


_WITHOUT_STREAMS = """
import os, sys
for descriptor in map(int, sys.argv.pop(1).split(",")):
    os.close(descriptor)
sys.stdin = sys.stdout = sys.stderr = None
from headrace.cli import entry, main

def command():
    taken = os.open(os.devnull, os.O_RDONLY)
    print("said", flush=True)
    print("said", file=sys.stderr, flush=True)
    os._exit(taken)

main.main = command
entry.main()
"""


@pytest.mark.parametrize("closed", ["0", "1", "2", "0,1,2"])
def test_closed_streams_are_nowhere_and_no_file_takes_their_place(closed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_STREAMS, closed],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode > 2, done.stderr
    said = {"1": done.stdout, "2": done.stderr}
    for descriptor, text in said.items():
        assert text == ("" if descriptor in closed else "said\n")


_LOADS_ARROW = """
import sys
from headrace.cli import entry, main

def command():
    import pyarrow
    column = pyarrow.array(["a"], pyarrow.string())
    print(column.to_pylist(), sorted({"numpy", "pandas"} & set(sys.modules)))

main.main = command
entry.main()
"""


def test_arrow_loads_without_pandas_and_numpy_where_they_are_installed(tmp_path) -> None:
    for name in ("numpy", "pandas"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('it was loaded')\n")
    done = subprocess.run(
        [sys.executable, "-c", _LOADS_ARROW],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("['a'] []\n", "")


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, [(-8, 2), (-3, 196_608)]),
        ({"MALLOC_ARENA_MAX": "8"}, [(-3, 196_608)]),
        ({"MALLOC_ARENA_MAX": "8", "MALLOC_MMAP_THRESHOLD_": "9"}, []),
    ],
)
def test_the_c_library_keeps_little_unless_configured_otherwise(
    chosen, expected, monkeypatch
) -> None:
    calls: list[tuple[int, int]] = []

    class Glibc:
        def __init__(self, _name: None) -> None:
            pass

        def mallopt(self, parameter: int, value: int) -> None:
            calls.append((parameter, value))

    monkeypatch.setattr(entry.ctypes, "CDLL", Glibc)
    monkeypatch.setattr(entry.gc, "set_threshold", lambda *_counts: None)
    for variable in ("MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in chosen.items():
        monkeypatch.setenv(variable, value)
    entry.keep_memory_small()
    assert calls == expected


def test_another_c_library_is_left_alone(monkeypatch) -> None:
    monkeypatch.setattr(entry.ctypes, "CDLL", lambda _name: object())
    monkeypatch.setattr(entry.gc, "set_threshold", lambda *_counts: None)
    entry.keep_memory_small()
