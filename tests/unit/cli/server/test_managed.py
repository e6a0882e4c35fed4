"""How long the managed server is waited for, without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.server import ManagedServer, NamedProcess, ProcessRecord
from headrace.cli.server.state import SERVER
from headrace.stopping import StopEvent, Stopped


@pytest.mark.parametrize(("interrupted", "grace_s"), [(False, 30.0), (True, 4.0)])
def test_who_interrupts_does_not_wait_for_the_recorder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: bool, grace_s: float
) -> None:
    record = ProcessRecord(name=SERVER, pid=1, token="0", started_at=0.0, port=4200, kept=False)
    graces: list[float] = []
    monkeypatch.setattr(NamedProcess, "running", lambda self: record)
    monkeypatch.setattr(NamedProcess, "stop", lambda self, *, grace_s: graces.append(grace_s))
    monkeypatch.setattr("headrace.cli.server.address.is_healthy", lambda port: True)
    stop = StopEvent()
    with ManagedServer(tmp_path, stop=stop).used():
        if interrupted:
            stop.set()
    assert graces == [grace_s]


def test_an_interrupt_ends_the_wait_for_a_first_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = ProcessRecord(name=SERVER, pid=1, token="0", started_at=0.0, port=4200)
    monkeypatch.setattr(NamedProcess, "running", lambda self: record)
    monkeypatch.setattr("headrace.cli.server.address.is_healthy", lambda port: False)
    stop = StopEvent()
    stop.set()
    with pytest.raises(Stopped):
        ManagedServer(tmp_path, stop=stop).up()
