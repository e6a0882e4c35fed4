"""An extraction under way, everything its tasks share; and how a run reaches its Looker."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from blocks.looker import BlockTypeCheckpoints
from blocks.quota import Quota
from blocks.resolve import looker_of, looker_quota_of, quota_place
from headrace.leases import Lease
from headrace.logs import hide
from headrace.looker.client import LookerClient, LookerConnection, open_client
from headrace.looker.common_parameters import LookerAccess
from headrace.looker.extract.context import Context, choose_session, resolve_folders
from headrace.looker.extract.job import TypeJob
from headrace.looker.extract.metrics import ExtractMetrics
from headrace.looker.extract.request import ExtractRequest, vault_lease
from headrace.looker.extract.writer import BATCHES_PER_WORKER, Writer
from headrace.looker.vault import Vault
from headrace.paths import real_path
from headrace.quota import Gate
from headrace.run.progress import RunProgress
from headrace.stopping import Ending, StopEvent
from tasks.events import emit
from tasks.kernel import Opening, QuotaRun, announce, opening, registered

log = logging.getLogger(__name__)

#: How often the store of leases is asked whether the vault is still ours to write.
_LEASE_CHECK_S = 1.0
#: Events of one kind that a run emits.
_MOST_EVENTS = 20


def connection_of(request: LookerAccess) -> LookerConnection:
    """Where the Looker of a request is; from now on no log says its secret.

    Raises:
        ConfigurationError: there is no such block, or something is missing.
    """
    connection = looker_of(request.base_url).within(request.timeout_s)
    hide(connection.client_secret.get_secret_value())
    return connection


def connect(
    request: LookerAccess,
    connection: LookerConnection,
    begun: Opening,
    *,
    workers: int,
    stop: StopEvent,
) -> tuple[Quota, Gate, LookerClient]:
    """The quota of a Looker, its gate, and a client that is logged in; closed with the run.

    Raises:
        LoginRefused: the credentials are wrong.
        ConnectionFailed: nothing listens at the address.
    """
    settings = begun.settings
    quota = looker_quota_of(request.rate, breaker_cooldown_s=settings.breaker_cooldown_s)
    host = urlsplit(connection.base_url).netloc.rpartition("@")[2]
    gate = quota.gate(quota_place(settings), host, outage_limit_s=request.outage_limit_s)
    begun.keep_open(gate)
    client = open_client(connection, gate, workers=workers, stop=stop)
    client.check_reachable()
    begun.resources.callback(client.close)
    client.login()
    return quota, gate, client


@dataclass(kw_only=True)
class Extraction(QuotaRun[ExtractRequest]):
    """One extraction. Made by `open_extraction`, closed with it.

    `stop` is set on request, that of the context also when an outage ends the run. `stale`: a block
    was not saved.
    """

    kept: ClassVar[str] = "what came"

    client: LookerClient
    vault: Vault
    lease: Lease
    context: Context
    checkpoints: BlockTypeCheckpoints
    progress: RunProgress
    jobs: dict[str, TypeJob] = field(default_factory=dict)
    stale: bool = False

    def new_job(self, type_: str) -> TypeJob:
        """The job of one content type, known to its tasks by the type's name."""
        job = self.jobs[type_] = TypeJob.of(self.context, type_)
        return job


@contextmanager
def open_extraction(request: ExtractRequest) -> Iterator[Extraction]:
    """Everything that an extraction needs, checked before any work is spent; closed at the end.

    Raises:
        LeaseHeld: another run extracts into this vault.
        ConfigurationError: something cannot be used: the address, the credentials, a folder.
        ConnectionFailed: nothing listens at the address.
        StateError: the vault is damaged, or that of another Looker.
    """
    connection = connection_of(request)
    with opening() as begun:
        run_id, settings, stop, opened = (
            begun.run_id, begun.settings, begun.stop, begun.resources
        )  # fmt: skip
        path = real_path(request.vault)
        lease = begun.hold(vault_lease(path), lambda _loss: stop.set())
        ending = Ending(stop)
        quota, gate, client = connect(
            request, connection, begun, workers=request.workers, stop=ending.stop
        )
        folders = resolve_folders(client, request.folder_ids, recursive=request.recursive)
        vault = opened.enter_context(Vault.open(path, create=True))
        vault.bind(connection.base_url)
        chosen = choose_session(vault, request, run_id)
        progress = RunProgress("items", waiting_for=gate.waiting_for)
        writer = opened.enter_context(
            Writer(
                vault,
                chosen.id,
                may_write=_still_ours(lease),
                most_batches=BATCHES_PER_WORKER * request.workers,
            )
        )
        context = Context(
            client=client,
            vault=vault,
            writer=writer,
            session=chosen.id,
            request=request,
            resumed=chosen.resumed,
            folders=folders,
            progress=progress,
            ending=ending,
            per_s=gate.per_s,
            listener=_EventEmitter(),
        )
        checkpoints = BlockTypeCheckpoints(str(path), stop=stop)
        run = Extraction(
            id=run_id,
            request=request,
            settings=settings,
            stop=stop,
            client=client,
            gate=gate,
            vault=vault,
            lease=lease,
            context=context,
            checkpoints=checkpoints,
            progress=progress,
            rates=quota.rates,
            per_s=context.per_s,
            greeting=f"going on with session {chosen.id}" if chosen.resumed else "",
        )
        opened.enter_context(registered(run))
        if meter := begun.meter():
            metrics = ExtractMetrics(
                meter,
                source=gate.config.name,
                requests=run.publish_requests(meter, "looker"),
                progress=progress,
            )
            run.on_end.append(metrics.ended)
        announce(run)
        yield run


def _still_ours(lease: Lease) -> Callable[[], None]:
    """Looks at the lease before every transaction, and asks its store once a second."""
    asked_s = 0.0

    def check() -> None:
        nonlocal asked_s
        now_s = time.monotonic()
        if lease.lost or now_s - asked_s >= _LEASE_CHECK_S:
            lease.check()
            asked_s = now_s

    return check


class _EventEmitter:
    """Emits what happens as Prefect events and as log lines; of each kind so many, and no more."""

    def __init__(self) -> None:
        self._emitted: Counter[str] = Counter()

    def __call__(self, name: str, facts: dict[str, object]) -> None:
        self._emitted[name] += 1
        if self._emitted[name] > _MOST_EVENTS:
            return  # the vault has them all
        emit("looker", str(facts["type"]), name, facts)
        level = logging.WARNING if "failed" in name else logging.INFO
        log.log(level, "%s: %s", name, ", ".join(f"{k} {v}" for k, v in facts.items()))
