"""Replay the log: every symbol, verified, merged in one order that is the same every time."""

from __future__ import annotations

from prefect import flow
from prefect.states import State

from flows.sot_requests import (
    Heads,
    Out,
    PastDamage,
    ReplayFormat,
    StoreLocation,
    Symbols,
    sot_request,
)
from headrace.sot.reports import SotReport
from headrace.sot.requests import RecoverRequest
from tasks.runs import flow_run_id
from tasks.sot_reading import replayed_report
from tasks.sot_runs import open_sot_run
from tasks.sot_telling import conclude_sot


@flow(name="sot-recover", persist_result=False, log_prints=False)
def sot_recover(
    out: Out,
    store: StoreLocation = "",
    format: ReplayFormat = "frames",  # noqa: A002 - the option's name
    symbols: Symbols = [],  # noqa: B006 - the form reads it, nobody changes it
    past_damage: PastDamage = False,
    heads: Heads = True,
) -> State[SotReport]:
    """Write the log as a stream equal to what came in; nothing damaged is handed on as good.

    Args:
        out: A file that does not exist yet, or - for standard output.
        store: A folder, cql://HOST/KEYSPACE or block:NAME; empty for the configured one.
        format: frames, jsonl or parquet.
        symbols: Only these; empty for all.
        past_damage: Go on with the other symbols behind the damage of one, instead of ending there.
        heads: Hold the chains against the heads that writes have saved as a block, too.
    """
    request = sot_request(RecoverRequest, locals())
    with open_sot_run(flow_run_id(), request) as run:
        return conclude_sot(run, replayed_report(run))


if __name__ == "__main__":
    from headrace.cli.main import run_command

    run_command("sot recover")
