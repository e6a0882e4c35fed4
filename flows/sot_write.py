"""Write an engine's outputs into the log: sharded, chained, durable, exactly once.

    sot-write
    └── write-shard        one per shard: link, batch, commit its symbols

One reader feeds all shards; where the store is a folder they run as processes. The heads of the
chains are saved as a block on the way and at the end.
"""

from __future__ import annotations

from prefect import flow
from prefect.states import State

from flows.sot_requests import (
    Batch,
    Chain,
    FirstSeq,
    InFormat,
    Processes,
    Shards,
    Source,
    StoreLocation,
    VerifyToo,
    sot_request,
)
from headrace.sot.reports import SotReport
from headrace.sot.requests import WriteRequest
from tasks.runs import flow_run_id
from tasks.sot_concluding import conclude_write
from tasks.sot_runs import open_sot_run
from tasks.sot_writing import write_shards


@flow(name="sot-write", persist_result=False, log_prints=False)
def sot_write(
    source: Source,
    store: StoreLocation = "",
    format: InFormat = "auto",  # noqa: A002 - the option's name
    shards: Shards = 8,
    processes: Processes = -1,
    batch: Batch = 0,
    chain: Chain = False,
    first_seq: FirstSeq = 1,
    verify: VerifyToo = False,
) -> State[SotReport]:
    """Put every record of a stream into its symbol's chain; what is there already is left alone.

    Args:
        source: A file, a folder, s3://bucket/prefix, or - for standard input.
        store: A folder, cql://HOST/KEYSPACE or block:NAME; empty for the configured one.
        format: How the source is written; auto looks at how it begins.
        shards: Writers; a symbol belongs to the shard of its id modulo this. May differ each time.
        processes: Processes over which the shards are spread; -1 chooses by the store.
        batch: Records per commit at most; 0 for what the store takes.
        chain: Compute the hashes of a stream that has none.
        first_seq: Where new chains begin.
        verify: Recompute what is new afterwards.
    """
    request = sot_request(WriteRequest, locals())
    with open_sot_run(flow_run_id(), request, create=True, alone=True) as run:
        return conclude_write(run, write_shards(run))


if __name__ == "__main__":
    from headrace.cli.main import run_command

    run_command("sot write")
