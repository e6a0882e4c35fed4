"""Anchor the log: a signed head of all symbols, where the log's writer cannot rewrite it."""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.sot.reports import SotReport
from headrace.sot.requests import AnchorRequest
from tasks.pipeline import pipeline
from tasks.sot import anchor_log, conclude_sot
from tasks.sot_anchors import Anchoring
from tasks.sot_run import open_sot_run


@pipeline("sot-anchor", AnchorRequest)
def sot_anchor(request: AnchorRequest) -> State[SotReport]:
    """Sign where the log ends, and put that where its writer cannot rewrite it."""
    with open_sot_run(request) as run:
        run.anchoring = Anchoring.of(request)
        return conclude_sot(run, anchor_log(run.id))


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("sot", "anchor")
