"""A check: look at the names and the rows of each product, report what breaches a bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from prefect.client.schemas import State
from prefect.states import Completed, Failed

from blocks.checkpoint import BlockCheckpoints
from blocks.resolve import lake_of
from headrace.audit.coverage import load
from headrace.checks.checker import Known, checked
from headrace.checks.layers import Layers
from headrace.checks.report import CheckReport, ProductChecks
from headrace.checks.request import CheckRequest
from headrace.coverage import EMPTY, IntervalSet
from headrace.errors import HeadraceError
from headrace.lake import Grid, RawLake, Store
from headrace.lake.grid import recorded_grid
from headrace.lake.store import stored_products
from headrace.leases import LeaseStore, open_leases
from headrace.products.choice import Chosen, to_look_at
from headrace.pull.checkpoints import Checkpoint
from headrace.pull.ledger import EXCHANGE
from headrace.pull.product_leases import ProductLeases
from headrace.run.progress import StepProgress
from headrace.run.report import Status, combined
from headrace.unified.exceptions import TableDamaged, TableMissing, TableTooNew, TableUnreachable
from tasks import kernel
from tasks.bounded_map import map_in_waves, thread_pool, why_none
from tasks.events import emit_breaches
from tasks.kernel import PipelineRun, ProgressArtifact, announce, find_run, opening, registered
from tasks.prefect_defaults import task
from tasks.pull_run import Run as PullRun


@dataclass(kw_only=True)
class Checking(PipelineRun[CheckRequest]):
    """One run of a check. Made by `open_check`, closed with it.

    Args:
        chosen: the products, in this order, and how they were named.
        layers: the unified table as it was at the beginning, if it is to be compared.
        only: by product, the ids whose rows are looked at; all of a product that is not in it.
        lake: read only.
        progress: products looked at, shown in the UI by `bar`.
        began: what ages are counted from.
    """

    chosen: Chosen
    layers: Layers | HeadraceError | None
    only: Mapping[str, IntervalSet] = field(default_factory=dict)
    lake: RawLake
    checkpoints: BlockCheckpoints
    leases: LeaseStore
    progress: StepProgress
    bar: ProgressArtifact
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def known(self, product: str) -> Known:
        """What is known of a product beside its parts."""
        product_leases = ProductLeases(self.leases, EXCHANGE, product, self.lake.store.location)
        found = load(self.checkpoints, EXCHANGE, product)
        noted = found.coverage if isinstance(found, Checkpoint) else EMPTY
        return Known(
            noted,
            product in self.chosen.delisted,
            product_leases.is_under_way,
            self.layers,
            self.only.get(product),
        )


@contextmanager
def open_check(request: CheckRequest) -> Iterator[Checking]:
    """Everything that a check needs; nothing is written, and a lake that is not there not made.

    Raises:
        NothingStored, NotInLake, NothingChosen: there is nothing to look at.
        LakeUnusable: the lake is a file, or cannot be reached.
        ExtraMissing: there is a unified table, and deltalake is not installed.
        ConfigurationError, StateError: something cannot be used.
    """
    store = lake_of(request.lake).store()
    chosen = to_look_at(request, store, EXCHANGE)
    lake = RawLake(store, EXCHANGE, recorded_grid(store, EXCHANGE) or Grid())
    layers = _layers(request, store)
    progress = StepProgress("products", len(chosen.products))
    with opening() as begun, ProgressArtifact(progress) as bar:
        run = Checking(
            id=begun.run_id,
            request=request,
            settings=begun.settings,
            stop=begun.stop,
            greeting=chosen.described(),
            chosen=chosen,
            layers=layers,
            lake=lake,
            checkpoints=BlockCheckpoints(store.location),
            leases=open_leases(begun.settings.lease_location),
            progress=progress,
            bar=bar,
        )
        run.checkpoints.read_together(EXCHANGE, chosen.products)
        announce(run)
        with registered(run):
            yield run


def _layers(request: CheckRequest, store: Store) -> Layers | HeadraceError | None:
    """The unified table, or why it cannot be read: that is a breach, and no end of the check."""
    if not request.unified:
        return None
    try:
        return Layers.opened(store, EXCHANGE)
    except (TableMissing, TableDamaged, TableTooNew, TableUnreachable) as error:
        return error


def check_after(run: PullRun) -> CheckReport:
    """The check of what a pull stored; see `tasks.after_pull`."""
    stored = stored_products(run.lake.store, EXCHANGE)
    products = tuple(product for product in run.request.products if product in stored)
    progress = StepProgress("products", len(products))
    request = CheckRequest.checked(products=products, lake=run.request.lake)
    try:
        layers = _layers(request, run.lake.store)
    except HeadraceError as error:
        layers = error
    with ProgressArtifact(progress, "headrace-check-progress") as bar:
        checking = Checking(
            id=run.id,
            request=request,
            settings=run.settings,
            stop=run.stop,
            chosen=replace(run.chosen, products=products),
            layers=layers,
            only={product: job.stored for product, job in run.jobs.items()},
            lake=run.lake,
            checkpoints=run.checkpoints,
            leases=run.leases,
            progress=progress,
            bar=bar,
        )
        with registered(checking):
            return report_of(checking, check_products(checking))


@task(
    name="check-product",
    task_run_name="check {product}",
    description="Hold names and rows of one product against their bounds.",
)
def check_product(run: str, product: str) -> State[ProductChecks]:
    """Check one product; a breach makes the task run Partial, never raises."""
    checking = find_run(Checking, run)
    try:
        known = checking.known(product)
    except HeadraceError as error:
        found = ProductChecks(product, Status.FAILED, error=str(error))
    else:
        found = checked(
            checking.lake, product, checking.request, known, now=checking.began, stop=checking.stop
        )
    emit_breaches(found.breaches)
    if found.status is Status.DONE:
        return Completed(message="every check passed", data=found)
    message = found.error or ", ".join(breach.check.value for breach in found.breaches)
    return Failed(name=found.status.value.title(), message=message, data=found)


def check_products(checking: Checking) -> tuple[ProductChecks, ...]:
    """What was found of each product, `workers` at once, in the order asked for."""
    outcomes: dict[str, object] = {}
    with thread_pool(checking.request.workers) as pool:
        for ended in map_in_waves(
            pool,
            check_product,
            iter(checking.chosen.products),
            as_parameters=lambda product: {"product": product},
            fixed={"run": checking.id},
            width=checking.request.workers,
            stop=checking.stop,
        ):
            checking.bar.tick()
            if ended is not None:
                outcomes[ended.call] = ended.outcome
                checking.progress.step()
    return tuple(_found(product, outcomes.get(product)) for product in checking.chosen.products)


def _found(product: str, outcome: object) -> ProductChecks:
    if isinstance(outcome, ProductChecks):
        return outcome
    return ProductChecks(product, Status.FAILED, error=why_none(outcome))


def conclude_check(checking: Checking, found: Sequence[ProductChecks]) -> State[CheckReport]:
    """Sum up what was found."""
    return kernel.conclude(checking, report_of(checking, found))


def report_of(checking: Checking, found: Sequence[ProductChecks]) -> CheckReport:
    """What was found of all products."""
    last = checking.request.last
    return CheckReport(
        run=checking.id,
        status=combined(each.status for each in found),
        lake=checking.lake.store.location,
        ui_url=kernel.ui_url(),
        elapsed_s=checking.elapsed_s,
        products=tuple(found),
        since=checking.began - last if last is not None else None,
        stopped=checking.stop.is_set(),
        chosen=checking.chosen.described(),
    )
