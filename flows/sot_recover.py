"""Replay the log: every symbol, verified, merged in one order that is the same every time."""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.sot.reports import SotReport
from headrace.sot.requests import RecoverRequest
from tasks.pipeline import pipeline
from tasks.sot import conclude_sot, replay_log
from tasks.sot_run import open_sot_run


@pipeline("sot-recover", RecoverRequest)
def sot_recover(request: RecoverRequest) -> State[SotReport]:
    """Write the log as a stream equal to what came in; nothing damaged is handed on as good."""
    with open_sot_run(request) as run:
        return conclude_sot(run, replay_log(run.id))


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("sot", "recover")
