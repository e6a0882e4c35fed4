"""A transform under way: everything that its tasks share, in this process and in others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from prefect.task_runners import TaskRunner

from blocks.resolve import lake_of
from headrace.amounts import counted
from headrace.extras import require
from headrace.lake import Lake
from headrace.lake.store import stored_products
from headrace.products.choice import to_look_at
from headrace.pull.ledger import EXCHANGE
from headrace.run.progress import StepProgress
from headrace.settings import load_settings
from headrace.stopping import StopEvent
from headrace.unified.report import ProductTransform
from headrace.unified.request import TransformRequest
from headrace.unified.transformer import Transformer
from tasks.bounded_map import task_pool
from tasks.kernel import PipelineRun, ProgressArtifact, announce, find_run, opening, registered


@dataclass(frozen=True, slots=True)
class Order:
    """What a task needs to work on a product, wherever it runs.

    Attributes:
        run: id of the flow run.
        lake: as the request names it.
        file_bytes: how large files may grow.
        rebuild: take everything again.
        fresh: the tables cannot be read.
        all_months: compact the newest month like the others.
    """

    run: str
    lake: str
    file_bytes: int
    rebuild: bool
    fresh: bool
    all_months: bool


@dataclass
class RowProgress(StepProgress):
    """Products done, and trades converted."""

    rows: int = 0

    def add(self, rows: int) -> None:
        """So many more trades are converted."""
        with self._lock:
            self.rows += rows

    def described(self) -> str:
        """The whole of it in words."""
        return f"{StepProgress.described(self)}, {counted(self.rows, 'trade')}"

    so_far = described


@dataclass(kw_only=True)
class Transform(PipelineRun[TransformRequest]):
    """One run of a transform. Made by `open_transform`, closed with it.

    Attributes:
        products: what is transformed, in this order.
        transformer: does it.
        fresh: the tables cannot be read, and are made again.
        receipts: what became of each product so far.
        pool: where its tasks run.
    """

    kept = "what was committed"

    products: tuple[str, ...]
    lake: Lake
    transformer: Transformer
    fresh: bool
    progress: RowProgress
    bar: ProgressArtifact
    receipts: dict[str, ProductTransform] = field(default_factory=dict)
    pool: TaskRunner[Any] = field(init=False)

    @property
    def width(self) -> int:
        """How many products are at hand at once."""
        return min(self.request.workers, len(self.products))

    @property
    def order(self) -> Order:
        """What its tasks are given."""
        request = self.request
        return Order(
            run=self.id,
            lake=request.lake,
            file_bytes=request.file_bytes,
            rebuild=request.rebuild,
            fresh=self.fresh,
            all_months=request.compact_only,
        )


@contextmanager
def open_transform(request: TransformRequest) -> Iterator[Transform]:
    """Everything that a transform needs; a lake that is not there is not made.

    Raises:
        ExtraMissing: deltalake or prefect-dask is not installed.
        NothingStored, NotInLake, NothingChosen: there is nothing to take.
        LakeUnusable: the lake is a file, or cannot be reached.
        TableDamaged, TableTooNew, TableUnreachable: there is a table that cannot be used.
    """
    store = lake_of(request.lake).store()
    chosen = to_look_at(request, store, EXCHANGE).products
    # A set may name products of which nothing is stored.
    stored = stored_products(store, EXCHANGE)
    products = tuple(product for product in chosen if product in stored)
    with opening() as begun, made_transform(begun.run_id, request, products, begun.stop) as run:
        announce(run)
        yield run


@contextmanager
def made_transform(
    run_id: str, request: TransformRequest, products: tuple[str, ...], stop: StopEvent
) -> Iterator[Transform]:
    """The transform of some products within a flow run; raises as `open_transform`."""
    require("unified")
    if request.runner != "threads":
        require("dask")
    lake = lake_of(request.lake).open(stop)
    progress = RowProgress("products", len(products))
    transformer = Transformer(
        lake, EXCHANGE, file_bytes=request.file_bytes, stop=stop, on_rows=progress.add
    )
    fresh = request.rebuild and not transformer.tables.readable()
    if not fresh:
        transformer.tables.make()
    with ProgressArtifact(progress, "unified-progress") as bar:
        run = Transform(
            id=run_id,
            request=request,
            settings=load_settings(),
            stop=stop,
            products=products,
            lake=lake,
            transformer=transformer,
            fresh=fresh,
            progress=progress,
            bar=bar,
            receipts={product: ProductTransform(product) for product in products},
        )
        with registered(run), task_pool(request.runner, run.width) as run.pool:
            yield run


def transformer_of(order: Order) -> Transformer:
    """The run's own in its process; in a process of a cluster, one that is kept for the next task.

    Raises:
        LakeUnusable: the lake cannot be reached from here.
    """
    try:
        return find_run(Transform, order.run).transformer
    except LookupError:
        return _opened(order)


@lru_cache(maxsize=2)
def _opened(order: Order) -> Transformer:
    lake = lake_of(order.lake).open(StopEvent())
    return Transformer(lake, EXCHANGE, file_bytes=order.file_bytes)
