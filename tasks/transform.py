"""A transform: take each product, commit those of many together, compact, report."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from prefect import Task
from prefect.client.schemas import State
from prefect.states import Completed, Failed

from blocks.unified import BlockUnifiedStates
from headrace.amounts import counted
from headrace.errors import HeadraceError
from headrace.lake.store import stored_products
from headrace.logs import about
from headrace.pull.exceptions import CheckpointNotSaved
from headrace.pull.ledger import EXCHANGE
from headrace.run.report import Status, combined
from headrace.stopping import Stopped
from headrace.unified.commits import Change
from headrace.unified.compaction import vacuum
from headrace.unified.contents import state_of
from headrace.unified.exceptions import TableBusy
from headrace.unified.raw_changes import COMMIT_ROWS
from headrace.unified.report import ProductTransform, TransformReport
from headrace.unified.request import TransformRequest
from headrace.unified.table import UNIFIED_ROOT
from headrace.unified.transformer import Prepared, with_change
from tasks import kernel
from tasks.bounded_map import map_in_waves, why_none
from tasks.lake_report import publish_page
from tasks.prefect_defaults import task
from tasks.pull_run import Run as PullRun
from tasks.transform_run import Order, Transform, made_transform, transformer_of

log = logging.getLogger(__name__)

#: Changes of several products are committed together, but do not wait for longer than this.
_COMMIT_EVERY_S = 10.0
#: How often another run may come first with a product before this one gives it up.
_ROUNDS = 10


@task(
    name="take",
    task_run_name="take {product}",
    description="Convert what is new or has changed of one product into files of the table.",
)
def take_product(order: Order, product: str) -> State[Prepared]:
    """Take one product; what goes wrong is in the receipt, never raised."""
    with about(product=product):
        try:
            transformer = transformer_of(order)
            if order.rebuild:
                prepared = transformer.rebuild(product, fresh=order.fresh)
            else:
                prepared = transformer.take(product)
        except HeadraceError as error:
            return _failed(product, error)
        rows = prepared.receipt.new_rows + (prepared.change.taken_rows if prepared.change else 0)
        return Completed(message=f"{counted(rows, 'trade')} converted", data=prepared)


@task(
    name="compact",
    task_run_name="compact {product}",
    description="Merge small files of one product, and compare the rows.",
)
def compact_product(order: Order, product: str) -> State[Prepared]:
    """Compact one product; what goes wrong is in the receipt, never raised."""
    with about(product=product):
        try:
            prepared = transformer_of(order).compact(product, all_months=order.all_months)
        except HeadraceError as error:
            return _failed(product, error)
        files = len(prepared.change.trades.removes) if prepared.change else 0
        return Completed(message=f"{counted(files, 'file')} merged", data=prepared)


def take_products(run: Transform) -> None:
    """Take every product and commit; the receipts of the run say what became of each."""
    if run.request.rebuild:
        _rebuild(run)
    else:
        _fail(run, _in_rounds(run, take_product, "transform"), Stopped())


def compact_products(run: Transform) -> None:
    """Compact what is due of every product and commit."""
    sound = [name for name, each in run.receipts.items() if each.status is Status.DONE]
    _in_rounds(run, compact_product, "compact", sound)


def transform_after(run: PullRun) -> TransformReport:
    """The transform of the products of a pull; see `tasks.after_pull`."""
    request = run.request
    stored = stored_products(run.lake.store, EXCHANGE)
    products = tuple(product for product in request.products if product in stored)
    asked = TransformRequest.checked(products=products, lake=request.lake)
    try:
        with made_transform(run.id, asked, products, run.stop) as transform:
            take_products(transform)
            compact_products(transform)
            return report_of(transform)
    except HeadraceError as error:
        return TransformReport(
            run=run.id,
            status=Status.FAILED,
            ui_url=kernel.ui_url(),
            elapsed_s=0.0,
            location=run.lake.store.place(UNIFIED_ROOT),
            version=None,
            products=tuple(
                ProductTransform(product, Status.FAILED, error=str(error)) for product in products
            ),
        )


def conclude_transform(run: Transform) -> State[TransformReport]:
    """Sum up what was done."""
    report = report_of(run)
    publish_page(run, run.lake.store)
    return kernel.conclude(run, report)


def report_of(run: Transform) -> TransformReport:
    """Remove old files, look at the table as it is now, note what was taken, sum up."""
    vacuumed, version = 0, None
    tables = run.transformer.tables
    try:
        if not run.stop.is_set():
            vacuumed = vacuum(tables, grace_h=run.request.grace_hours)
        snapshot = tables.snapshot(tables.trades)
        version = snapshot.version
        state = state_of(snapshot, EXCHANGE)
        for product, each in state.items():
            if product in run.receipts:
                run.receipts[product] = replace(
                    run.receipts[product], files=each.files, rows=each.rows, taken=each.taken
                )
        BlockUnifiedStates(run.lake.location, stop=run.stop).save(
            {
                "lake": run.lake.location,
                "table": tables.trades.uri,
                "version": version,
                "run_id": run.id,
                "updated_at": datetime.now(UTC).isoformat(timespec="seconds"),
                "products": {name: each.as_json() for name, each in state.items()},
            }
        )
    except CheckpointNotSaved as error:
        log.warning("%s", error)
    except HeadraceError as error:
        _fail(run, list(run.receipts), error)
    receipts = tuple(run.receipts.values())
    return TransformReport(
        run=run.id,
        status=combined(each.status for each in receipts),
        ui_url=kernel.ui_url(),
        elapsed_s=run.elapsed_s,
        location=tables.trades.uri,
        version=version,
        products=receipts,
        vacuumed=vacuumed,
        stopped=run.stop.is_set(),
    )


def _in_rounds(
    run: Transform, task: Task[..., Any], operation: str, products: Sequence[str] | None = None
) -> list[str]:
    """Map the task over products; those that others changed meanwhile are mapped again.

    The products that are left are returned, if the run was stopped before it had come to them.
    """
    left = list(run.products if products is None else products)
    for _ in range(_ROUNDS):
        group = _Group(run, operation)
        begun = set()
        for prepared in _mapped(run, task, left):
            if prepared is not None:
                begun.add(prepared.receipt.product)
                group.add(prepared)
            group.commit_if_due()
        group.commit()
        if run.stop.is_set():
            return [product for product in left if product not in begun or product in group.late]
        left = group.late
        if not left:
            return []
    _fail(run, left, TableBusy(run.transformer.tables.trades.uri, _ROUNDS))
    return []


def _rebuild(run: Transform) -> None:
    """Convert everything, then replace the tables' content in one commit."""
    changes: dict[str, Change] = {}
    left = list(run.products)
    for _ in range(_ROUNDS):
        for prepared in _mapped(run, take_product, left):
            if prepared is not None:
                product = prepared.receipt.product
                run.receipts[product] = prepared.receipt
                if prepared.change is not None:
                    changes[product] = prepared.change
        if set(left) - set(changes):
            _give_up_rebuild(run, changes)
            return
        try:
            late = _replaced(run, changes)
        except HeadraceError as error:
            _fail(run, list(run.products), error)
            return
        for product in late:
            changes.pop(product, None)
        left = [product for product in late if product in run.products]
        if not late:
            return
    _fail(run, left, TableBusy(run.transformer.tables.trades.uri, _ROUNDS))


def _replaced(run: Transform, changes: dict[str, Change]) -> list[str]:
    """Commit what was converted; the products of which others committed meanwhile.

    All is in one commit, unless another one of the same product comes in its very moment.
    """
    tables = run.transformer.tables
    # Another run may have made them again since they were looked at.
    run.fresh = run.fresh and not tables.readable()
    if run.fresh:
        tables.replace(list(changes.values()), "rebuild")
        late = []
    elif late := tables.stale(changes.values()):
        tables.discard(late)
        return [change.symbol for change in late]
    else:
        removals = run.transformer.removals(run.products)
        late = tables.commit([*changes.values(), *removals], "rebuild")
    for product, change in list(changes.items()):
        if change not in late:
            receipt = with_change(run.receipts[product], change)
            run.receipts[product] = replace(receipt, replaced_files=0)
            del changes[product]
    return [change.symbol for change in late]


def _give_up_rebuild(run: Transform, changes: dict[str, Change]) -> None:
    """One product could not be converted, or the run is to stop: the table stays as it is."""
    run.transformer.tables.discard(changes.values())
    _fail(run, list(run.products), HeadraceError("not rebuilt: not all products were converted"))


class _Group:
    """Changes of several products that are committed together."""

    def __init__(self, run: Transform, operation: str) -> None:
        self._run = run
        self._operation = operation
        self._changes: list[Change] = []
        self._rows = 0
        self._since = time.monotonic()
        self.late: list[str] = []

    def add(self, prepared: Prepared) -> None:
        product = prepared.receipt.product
        before = self._run.receipts[product]
        self._run.receipts[product] = before.plus_counts(prepared.receipt)
        if prepared.change is not None:
            self._changes.append(prepared.change)
            self._rows += prepared.change.taken_rows

    def commit_if_due(self) -> None:
        waited_s = time.monotonic() - self._since
        if self._rows >= COMMIT_ROWS or (self._changes and waited_s >= _COMMIT_EVERY_S):
            self.commit()

    def commit(self) -> None:
        changes, self._changes, self._rows = self._changes, [], 0
        self._since = time.monotonic()
        if not changes:
            return
        receipts = self._run.receipts
        try:
            late = self._run.transformer.tables.commit(changes, self._operation)
        except HeadraceError as error:
            _fail(self._run, [change.symbol for change in changes], error)
            return
        self.late += [change.symbol for change in late]
        for change in changes:
            if change not in late:
                receipts[change.symbol] = with_change(receipts[change.symbol], change)


def _mapped(
    run: Transform, task: Task[..., Any], products: Sequence[str]
) -> Iterator[Prepared | None]:
    """What the task prepared of each product, and None from time to time."""
    for ended in map_in_waves(
        run.pool,
        task,
        iter(products),
        as_parameters=lambda product: {"product": product},
        fixed={"order": run.order},
        width=run.width,
        stop=run.stop,
    ):
        run.bar.tick()
        if ended is None:
            yield None
        elif isinstance(ended.outcome, Prepared):
            run.progress.step()
            yield ended.outcome
        else:
            _fail(run, [ended.call], HeadraceError(why_none(ended.outcome)))


def _failed(product: str, error: HeadraceError) -> State[Prepared]:
    receipt = ProductTransform(product, Status.FAILED, error=str(error))
    log.warning("%s", error)
    return Failed(message=str(error), data=Prepared(receipt))


def _fail(run: Transform, products: Sequence[str], error: HeadraceError) -> None:
    for product in products:
        receipt = run.receipts[product]
        run.receipts[product] = replace(
            receipt, status=Status.FAILED, error=receipt.error or str(error)
        )
