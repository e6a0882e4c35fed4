"""Extract from a simulated Looker into a vault without Prefect, and hold the two together."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from headrace.looker.client import LookerClient, LookerConnection, open_client
from headrace.looker.client.client import LookerRetryPolicy
from headrace.looker.content_types import TYPES, in_stages
from headrace.looker.extract.context import (
    Context,
    choose_session,
    ending_of,
    resolve_folders,
)
from headrace.looker.extract.job import TypeJob
from headrace.looker.extract.report import TypeReceipt
from headrace.looker.extract.request import ExtractRequest
from headrace.looker.extract.writer import BATCHES_PER_WORKER, Writer
from headrace.looker.promote.reading import in_threads
from headrace.looker.vault import Vault
from headrace.looker.vault.secrets import without_secrets
from headrace.quota import BreakerConfig, QuotaConfig, open_gate, parse_rates
from headrace.run.progress import RunProgress
from headrace.run.report import Status, combined
from headrace.sim.looker import Library
from headrace.stopping import Ending, StopEvent
from headrace.wire.transport import Timeouts

#: Tests do not wait for a server to think better of it.
QUICK = LookerRetryPolicy(first_pause_s=0.01, longest_pause_s=0.05)
SECRET = "simulated-secret"


def client_of(
    url: str,
    *,
    rates: str = "none",
    secret: str = SECRET,
    total_s: float = 20.0,
    workers: int = 8,
    policy: LookerRetryPolicy = QUICK,
    stop: StopEvent | None = None,
    home: Path | None = None,
    outage_limit_s: float = 5.0,
) -> LookerClient:
    """A client with a quota of its own."""
    home = home or Path(tempfile.mkdtemp(prefix="headrace-quota-"))
    quota = QuotaConfig(name="looker", rates=parse_rates(rates))
    gate = open_gate(home, quota, BreakerConfig(cooldown_s=0.05), outage_limit_s=outage_limit_s)
    connection = LookerConnection(
        url, "headrace", SecretStr(secret), timeouts=Timeouts(5.0, total_s, total_s)
    )
    return open_client(connection, gate, workers=workers, policy=policy, stop=stop)


@dataclass
class Extracted:
    """What an extraction did."""

    status: Status
    receipts: dict[str, TypeReceipt]
    session: int
    resumed: bool
    requests: int
    outage: str

    def __getitem__(self, type_: str) -> TypeReceipt:
        return self.receipts[type_]


def extract(
    url: str,
    vault_path: Path,
    *,
    total_s: float = 20.0,
    stop: StopEvent | None = None,
    policy: LookerRetryPolicy = QUICK,
    **fields: Any,
) -> Extracted:
    """One extraction, its session ended as a run ends it."""
    request = ExtractRequest.checked(vault=str(vault_path), **fields)
    stop = stop or StopEvent()
    ending = Ending(stop)
    with (
        client_of(
            url, total_s=total_s, workers=request.workers, policy=policy, stop=ending.stop,
            home=vault_path.parent / "quota", outage_limit_s=min(request.outage_limit_s, 5.0),
        ) as client,
        Vault.open(vault_path, create=True) as vault,
    ):  # fmt: skip
        folders = resolve_folders(client, request.folder_ids, recursive=request.recursive)
        vault.bind("looker")
        chosen = choose_session(vault, request, "run")
        receipts = {}
        most_batches = BATCHES_PER_WORKER * request.workers
        with Writer(vault, chosen.id, may_write=lambda: None, most_batches=most_batches) as writer:
            context = Context(
                client, vault, writer, chosen.id, request, chosen.resumed, folders,
                RunProgress("items"), ending,
            )  # fmt: skip
            for type_ in chain.from_iterable(in_stages(request.chosen)):
                job = TypeJob.of(context, type_)
                receipts[type_] = job.run(in_threads(job, request.workers, ending.stop))
        status = combined(receipt.status for receipt in receipts.values())
        ended = ending_of(status.value, cut_off=ending.stop.is_set())
        vault.sessions.end(chosen.id, ended, summary={"resumed": chosen.resumed})
        return Extracted(
            status,
            receipts,
            chosen.id,
            chosen.resumed,
            client.stats.requests,
            str(ending.cause or ""),
        )


def assert_vault_equals(
    library: Library, vault_path: Path, types: Sequence[str] = TYPES, *, sample: int = 200
) -> None:
    """The vault holds what the Looker lists, and bodies byte for byte (of the first of each)."""
    with Vault.open(vault_path) as vault:
        for type_ in types:
            truth = library.content(type_)
            held = {row.id for row in vault.contents.rows(type_)}
            assert held == set(truth), f"{type_}: {sorted(held ^ set(truth))[:5]}"
            for item_id, body in list(truth.items())[:sample]:
                expected = without_secrets(type_, body)
                assert vault.contents.body(type_, item_id).body == expected, f"{type_} {item_id}"


def main() -> None:
    """`python -m support.looker URL VAULT JSON`: an extraction as a process that can be killed."""
    url, vault_path, fields = sys.argv[1:4]
    done = extract(url, Path(vault_path), **json.loads(fields))
    print(json.dumps({"status": done.status.value, "resumed": done.resumed}))


if __name__ == "__main__":
    main()
