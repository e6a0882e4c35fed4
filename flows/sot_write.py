"""Write an engine's outputs into the log: sharded, chained, durable, exactly once.

    sot-write
    └── write-shard        one per shard: link, batch, commit its symbols

One reader feeds all shards; where the store is a folder they run as processes. The heads of the
chains are saved as a block on the way and at the end.
"""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.sot.reports import SotReport, refused
from headrace.sot.requests import WriteRequest
from tasks.pipeline import pipeline
from tasks.sot import conclude_write
from tasks.sot_run import open_sot_run
from tasks.sot_write import write_shards


@pipeline("sot-write", WriteRequest, refused=refused)
def sot_write(request: WriteRequest) -> State[SotReport]:
    """Put every record of a stream into its symbol's chain; what is there already is left alone."""
    with open_sot_run(request, create=True, alone=True) as run:
        return conclude_write(run, write_shards(run))


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("sot", "write")
