"""Send requests with the API keys of one source, each with a time to live.

    keyed-requests
    └── deliver            what earlier runs left, then those of a file or made

What is accepted is in the queue's journal until it ends: a success, expired, or in the graveyard.
"""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.delivery.report import SendReport, refused
from headrace.delivery.request import SendRequest
from tasks.delivery import conclude_delivery, deliver
from tasks.delivery_run import open_delivery
from tasks.pipeline import pipeline


@pipeline("keyed-requests", SendRequest, refused=refused)
def keyed_requests(request: SendRequest) -> State[SendReport]:
    """Send requests of a file, or made ones, over all keys; account for every one of them."""
    with open_delivery(request) as run:
        deliver(run.id)
        return conclude_delivery(run)


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("requests", "send")
