"""Verify the log: is what is stored what was written, recomputed from content."""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.sot.reports import SotReport
from headrace.sot.requests import VerifyRequest
from tasks.pipeline import pipeline
from tasks.sot import conclude_sot, verify_log
from tasks.sot_anchors import Witnesses
from tasks.sot_run import open_sot_run


@pipeline("sot-verify", VerifyRequest)
def sot_verify(request: VerifyRequest) -> State[SotReport]:
    """Find any damage, gap, fork or reordering in the log, and name it."""
    with open_sot_run(request) as run:
        run.witnesses = Witnesses.of(request)
        return conclude_sot(run, verify_log(run.id))


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("sot", "verify")
