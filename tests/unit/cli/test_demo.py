"""How the demo ends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.cli import demo
from headrace.cli.exit_codes import Exit


class Ended(Exception):
    """The demo has ended; its argument is the exit code."""


def test_an_interrupt_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = SimpleNamespace(stopped=True, products=())
    monkeypatch.setattr(demo, "report_of", lambda *_: stopped)
    monkeypatch.setattr(demo.Display, "show", lambda *_: None)

    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(demo, "bounded_exit", end)
    with pytest.raises(Ended) as ended:
        demo.demo(tmp_path)
    assert ended.value.args == (Exit.INTERRUPTED,)
