"""The first second of the command."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from headrace.cli import entry
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


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_while_it_loads_is_quiet(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_WHILE_IT_LOADS.replace("SIGNAL", name), "--help"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (Exit.INTERRUPTED, "", "")


def test_once_loaded_it_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["headrace", "--version"])
    monkeypatch.setattr(signal, "signal", lambda *_: signal.SIG_DFL)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("headrace ")
