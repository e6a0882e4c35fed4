"""A pull under way: everything its tasks share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from prefect.client.schemas.responses import DeploymentResponse
from pydantic import SecretStr

from blocks.checkpoint import BlockCheckpoints
from blocks.quota import Quota
from blocks.resolve import exchange_of, lake_of, quota_of, quota_place
from headrace.exchange.planning import Sizing
from headrace.exchange.signing import Credentials
from headrace.exchange.source import Source
from headrace.extras import require
from headrace.lake import RawLake
from headrace.lake.listings import Listings
from headrace.leases import LeaseStore, open_leases
from headrace.logs import hide
from headrace.products.choice import Chosen, to_fetch
from headrace.pull.checkpoints import CheckpointStore
from headrace.pull.job import ProductJob, pull_progress
from headrace.pull.ledger import EXCHANGE, Listener
from headrace.pull.memory_budget import MemoryBudget
from headrace.pull.metrics import PullMetrics
from headrace.pull.product_leases import ProductLeases
from headrace.pull.report import PartEnd, ProductReceipt
from headrace.pull.request import MAX_IN_FLIGHT, PullRequest
from headrace.pull.spread import CheckpointsOfRange, PartRequest
from headrace.quota import Gate, KeyPool, PoolKey
from headrace.quota.location import Place
from headrace.run.progress import RunProgress
from headrace.run.report import Costs
from headrace.stopping import StopEvent
from headrace.wire.transport import quota_name
from tasks.child_runs import part_deployment
from tasks.events import emit_and_log
from tasks.kernel import QuotaRun, find_run, opening, registered


@dataclass(kw_only=True)
class Run(QuotaRun[PullRequest]):
    """One run of a pull. Made by `open_run`, closed with it.

    Args:
        chosen: how the products of the request were named.
        part_deployment: what runs the parts of a spread run; None for one that is not.
        parts: those that have ended.
        task_runs: their ids by product.
    """

    chosen: Chosen
    client: Source
    lake: RawLake
    leases: LeaseStore
    checkpoints: BlockCheckpoints
    listings: Listings
    progress: RunProgress
    memory: MemoryBudget = field(default_factory=MemoryBudget)
    part_deployment: DeploymentResponse | None = None
    parts: list[PartEnd] = field(default_factory=list)
    jobs: dict[str, ProductJob] = field(default_factory=dict)
    task_runs: dict[str, str] = field(default_factory=dict)
    listeners: list[Listener] = field(default_factory=lambda: [emit_and_log])

    @property
    def pool_width(self) -> int:
        """Chunks at once per product: as asked, or by Little's law from the latency seen so far."""
        asked = self.request.chunk_concurrency
        return asked or self._width_by_latency()

    @property
    def in_flight(self) -> int:
        """Chunks at once over all products."""
        return self._products_at_once * self.pool_width

    @property
    def sizing(self) -> Sizing:
        """How large chunks may be, given the quota, the pools and the lake's grid."""
        stats = self.client.stats
        return Sizing(
            cell_pages=self.lake.grid.cell_pages,
            in_flight=self.in_flight,
            pool=self.pool_width,
            pages_per_s=self.per_s,
            latency_s=stats.mean_latency_s if self.per_s else stats.least_latency_s,
            pages_per_chunk=self.request.pages_per_chunk,
        )

    @property
    def over(self) -> StopEvent:
        """Set when the run is to end: on request, or since nothing more would be answered."""
        return self.client.ending.stop

    def explained(self, receipt: ProductReceipt) -> ProductReceipt:
        """The receipt of a product that came to no good end since the whole run had to end."""
        cause = self.client.ending.cause
        return replace(receipt, error=str(cause)) if cause and not receipt.status.quiet else receipt

    def costs(self, *, logins: int | None = None) -> Costs:
        """What all requests have cost, those of child runs too."""
        own = super().costs(logins=logins)
        if not self.parts:
            return own
        names = ("requests", "throttled", "retries")
        sums = {
            name: getattr(own, name) + sum(end.report.get(name, 0) for end in self.parts)
            for name in names
        }
        share = round(sums["requests"] / (own.elapsed_s * self.per_s), 4) if self.per_s else None
        return replace(own, **sums, quota=replace(own.quota, used_share=share))

    def new_job(self, product: str) -> ProductJob:
        """The job of one product, known to its chunk tasks by the product's id."""
        job = ProductJob(
            product,
            self.request,
            run_id=self.id,
            client=self.client,
            lake=self.lake,
            checkpoints=self._checkpoints_of(product),
            leases=self.leases,
            progress=self.progress,
            stop=self.over,
            listings=self.listings,
            listener=self._on_event,
            memory=self.memory,
        )
        self.jobs[product] = job
        return job

    def _checkpoints_of(self, product: str) -> CheckpointStore:
        request = self.request
        if not (isinstance(request, PartRequest) and request.by_ids):
            return self.checkpoints
        return CheckpointsOfRange(
            self.checkpoints,
            ProductLeases(self.leases, EXCHANGE, product, self.checkpoints.lake),
            request,
            run_id=self.id,
            ttl_s=self.settings.lease_ttl_s,
        )

    def _on_event(self, name: str, facts: Mapping[str, object]) -> None:
        for listener in self.listeners:
            listener(name, facts)

    def _width_by_latency(self) -> int:
        """Wide enough that one product alone can use the whole quota, as the last one will."""
        latency_s = self.client.stats.mean_latency_s
        most = min(50, MAX_IN_FLIGHT // self._products_at_once)
        if latency_s is None or self.per_s is None:
            return min(UNMEASURED_WIDTH, most)
        return max(1, min(most, math.ceil(self.per_s * latency_s * LATENCY_ROOM)))

    @property
    def _products_at_once(self) -> int:
        return min(self.request.workers, len(self.request.products))


#: Requests in flight beyond rate x latency, so that a slow answer leaves no permit unused.
LATENCY_ROOM = 1.4

#: The width of a pool where no latency is known, or no quota makes it matter.
UNMEASURED_WIDTH = 5


def run_of(run_id: str) -> Run:
    """The pull under way with this id; see `find_run`."""
    return find_run(Run, run_id)


@contextmanager
def open_run(request: PullRequest) -> Iterator[Run]:
    """Everything that a run needs, checked before any work is spent; closed at the end.

    The products are chosen here, once: later changes of the list do not reach the run.

    Raises:
        ConfigurationError, StateError: something cannot be used.
        ConnectionFailed: nothing listens at the exchange's address.
    """
    if request.transform:
        require("unified")
    is_spread = request.spread > 1 and not request.dry_run
    deployment = part_deployment() if is_spread else None
    exchange = exchange_of(request.base_url)
    credentials = exchange.credentials()
    for each in credentials:
        hide(each.key, each.secret, each.passphrase)
    with opening() as begun:
        settings, stop, opened = begun.settings, begun.stop, begun.resources
        quota = quota_of(request.rate, breaker_cooldown_s=settings.breaker_cooldown_s)
        lake = lake_of(request.lake).open(stop)
        chosen = to_fetch(request, lake.store, EXCHANGE)
        request = request.of(chosen.products)
        host = quota_name(exchange.base_url)
        gate = _open_permits(quota, quota_place(settings), host, credentials, request)
        begun.keep_open(gate)
        client = exchange.open_source(gate, max_connections=MAX_IN_FLIGHT, stop=stop)
        opened.callback(client.close)
        raw = lake.raw(EXCHANGE)
        run = Run(
            id=begun.run_id,
            request=request,
            chosen=chosen,
            greeting=chosen.described(),
            settings=settings,
            client=client,
            gate=gate,
            lake=raw,
            leases=open_leases(settings.lease_location),
            checkpoints=BlockCheckpoints(lake.location, stop=stop),
            listings=Listings(raw, request.products),
            progress=pull_progress(),
            stop=stop,
            rates=gate.rates if isinstance(gate, KeyPool) else quota.rates,
            per_s=gate.per_s,
            part_deployment=deployment,
        )
        if isinstance(gate, KeyPool):
            gate.on_key_change(run.key_changed)
        run.checkpoints.read_together(EXCHANGE, request.products)
        run.progress.places = run.in_flight
        opened.enter_context(registered(run))
        if meter := begun.meter():
            metrics = PullMetrics(
                meter,
                source=gate.config.name,
                # An audit fetches, too.
                requests=run.publish_requests(meter, request.planner),
                lake=run.lake,
                new_rows=lambda: {name: job.new_rows for name, job in list(run.jobs.items())},
            )
            run.listeners.append(metrics.on_event)
            run.on_end.append(metrics.ended)
        yield run


def _open_permits(
    quota: Quota, place: Place, host: str, credentials: Sequence[Credentials], request: PullRequest
) -> Gate | KeyPool:
    """The quota of the host, or those of its API keys where there are several."""
    limit_s = request.outage_limit_s
    if len(credentials) < 2:
        return quota.gate(place, host, outage_limit_s=limit_s)
    keys = [PoolKey(str(nth), SecretStr(own.key)) for nth, own in enumerate(credentials, 1)]
    return quota.key_pool(place, host, keys, outage_limit_s=limit_s)
