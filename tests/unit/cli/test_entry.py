"""The first second of the command."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headrace.cli.exits import Exit

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
