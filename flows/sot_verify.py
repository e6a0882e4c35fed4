"""Verify the log: is what is stored what was written, recomputed from content."""

from __future__ import annotations

from prefect import flow
from prefect.states import State

from flows.sot_requests import (
    Blocks,
    Heads,
    Mode,
    Processes,
    StoreLocation,
    Symbols,
    sot_request,
)
from headrace.sot.reports import SotReport
from headrace.sot.requests import VerifyRequest
from tasks.runs import flow_run_id
from tasks.sot_reading import verified_report
from tasks.sot_runs import open_sot_run
from tasks.sot_telling import conclude_sot


@flow(name="sot-verify", persist_result=False, log_prints=False)
def sot_verify(
    store: StoreLocation = "",
    mode: Mode = "full",
    symbols: Symbols = [],  # noqa: B006 - the form reads it, nobody changes it
    blocks: Blocks = 8,
    processes: Processes = -1,
    heads: Heads = True,
) -> State[SotReport]:
    """Find any damage, gap, fork or reordering in the log, and name it.

    Args:
        store: A folder, cql://HOST/KEYSPACE or block:NAME; empty for the configured one.
        mode: full recomputes everything, since what is new since the last time, sampled some.
        symbols: Only these; empty for all.
        blocks: Blocks of each symbol that are looked at when sampled.
        processes: Processes over which the work is spread; -1 chooses by the store.
        heads: Hold the chains against the heads that writes have saved as a block, too.
    """
    request = sot_request(VerifyRequest, locals())
    with open_sot_run(flow_run_id(), request) as run:
        return conclude_sot(run, verified_report(run))


if __name__ == "__main__":
    from headrace.cli.main import run_command

    run_command("sot verify")
