"""A pull: one task run per product, which maps its chunks onto a pool of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, TypeVar

from prefect import Task
from prefect.client.schemas import State
from prefect.runtime import task_run
from prefect.states import Completed, Failed

from headrace.errors import HeadraceError
from headrace.exchange.exceptions import UnknownProduct
from headrace.exchange.planning import Chunk, page_count
from headrace.leases import LeaseHeld
from headrace.logs import about
from headrace.products.list_file import with_closest
from headrace.pull.exceptions import TokenBehind
from headrace.pull.job import ProductJob
from headrace.pull.ledger import EXCHANGE
from headrace.pull.report import ChunkReceipt, PlanReceipt, ProductReceipt, log_product
from headrace.run.report import Status
from headrace.stopping import Stopped
from tasks.bounded_map import Ended, map_in_waves, thread_pool, why_none
from tasks.events import emit_if_up_to_date
from tasks.kernel import ProgressArtifact, announce
from tasks.prefect_defaults import task
from tasks.pull_run import Run, run_of
from tasks.spread import spread_ids, spread_products

log = logging.getLogger(__name__)


@task(
    name="chunk",
    task_run_name="{product} {lo}-{hi}",
    description="Walk one chunk of the id grid and store it as a part of the lake.",
)
def fetch_chunk(run: str, product: str, lo: int, hi: int) -> ChunkReceipt | State[ChunkReceipt]:
    """Fetch every trade of [lo, hi]; a failure costs this chunk alone and is not raised."""
    with about(product=product, chunk=f"{lo}-{hi}"):
        receipt = run_of(run).jobs[product].fetch(Chunk(lo, hi, page_count(lo, hi)))
        if receipt.error:
            return Failed(message=receipt.error, data=receipt)
        facts = {"rows": receipt.rows, "pages": receipt.pages}
        log.info("stored", extra={"event": "chunk-stored", "facts": facts})
        return receipt


@task(
    name="product",
    task_run_name="{product}",
    description="Plan one product, map its chunks, commit what is complete.",
)
def pull_product(run: str, product: str) -> State[ProductReceipt]:
    """Pull one product. Never raises for what can go wrong with it: the receipt says it."""
    under_way = run_of(run)
    under_way.task_runs[product] = str(task_run.id)
    with about(product=product):
        receipt = under_way.explained(_pulled(under_way, product))
        log_product(receipt)
    under_way.progress.end(product, receipt.status.value, receipt.error)
    emit_if_up_to_date(under_way.request, receipt)
    if receipt.status is Status.RUNNING_ELSEWHERE:
        return Completed(name="AlreadyRunning", message=receipt.error, data=receipt)
    if receipt.status is Status.DONE:
        return Completed(message=f"{receipt.new_rows} new trades", data=receipt)
    return Failed(name=receipt.status.value.title(), message=receipt.error, data=receipt)


@task(
    name="plan",
    task_run_name="plan {product}",
    description="Say what one product would cost, without fetching or writing anything.",
)
def plan_product(run: str, product: str) -> PlanReceipt:
    """Plan one product, for a dry run."""
    under_way = run_of(run)
    job = under_way.new_job(product)
    try:
        job.prepare(lease=None)
        return job.plan_receipt(under_way.sizing)
    except UnknownProduct as error:
        return PlanReceipt(product, None, error=with_closest(error, under_way.lake.store, EXCHANGE))
    except HeadraceError as error:
        return PlanReceipt(product, None, error=str(error))


def _pulled(run: Run, product: str, *, above: int = 0) -> ProductReceipt:
    job = run.new_job(product)
    try:
        if not job.has_work():
            return job.receipt()
        with job.product_leases.acquire(
            run.request.work,
            run.id,
            ttl_s=run.settings.lease_ttl_s,
            replaces=run.request.full_refresh,
            stop=run.stop,
            on_lost=job.lease_lost,
            above=max(above, job.noted_token),
        ) as lease:
            job.prepare(lease)
            by_ids = run.request.spread > 1 and run.request.planner == "backfill"
            if not (by_ids and spread_ids(run, job)):
                _map_chunks(run, job)
            job.commit(last=True)
    except TokenBehind as behind:
        return _pulled(run, product, above=behind.noted)
    except LeaseHeld as error:
        return ProductReceipt(product, Status.RUNNING_ELSEWHERE, error=str(error))
    except UnknownProduct as error:
        return job.receipt(error=with_closest(error, run.lake.store, EXCHANGE))
    except HeadraceError as error:
        return job.receipt(error=str(error))
    return job.receipt()


def _map_chunks(run: Run, job: ProductJob) -> None:
    """Send the chunks out in waves; keep what comes back, and commit from time to time."""
    width = run.pool_width
    with thread_pool(width) as pool:
        for ended in map_in_waves(
            pool,
            fetch_chunk,
            job.chunks(run.sizing),
            as_parameters=lambda chunk: {"lo": chunk.lo, "hi": chunk.hi},
            fixed={"run": run.id, "product": job.product},
            width=width,
            stop=job.stop,
        ):
            if ended is not None:
                job.keep(_receipt(ended.call, ended.outcome))
            if job.commit_due():
                job.commit()


def _receipt(chunk: Chunk, outcome: object) -> ChunkReceipt:
    """The chunk's own receipt; a task run that crashed has none, which is a failed chunk too."""
    if isinstance(outcome, ChunkReceipt):
        return outcome
    if outcome is None:
        return ChunkReceipt(chunk.span, error=Stopped().message)
    return ChunkReceipt(chunk.span, error=f"the task run crashed ({outcome})")


Receipt = TypeVar("Receipt")


def pull_products(run: Run) -> list[ProductReceipt]:
    """One receipt per product, in the order of the request."""
    if run.request.spread > 1 and len(run.request.products) > 1:
        return spread_products(run)
    receipts = {
        product: ProductReceipt(product, Status.FAILED, error=Stopped().message)
        for product in run.request.products
    }
    announce(run)
    with ProgressArtifact(run.progress) as shown:
        for ended in _mapped(run, pull_product):
            shown.tick()
            if ended is not None:
                receipts[ended.call] = _product_receipt(ended)
    return [run.explained(receipt) for receipt in receipts.values()]


def plan_products(run: Run) -> list[PlanReceipt]:
    """One plan per product, in the order of the request; nothing is fetched or written."""
    plans = {ended.call: ended.outcome for ended in _mapped(run, plan_product) if ended}
    return [plans[product] for product in run.request.products if product in plans]


def _mapped(run: Run, task: Task[..., Any]) -> Iterator[Ended[str] | None]:
    with thread_pool(run.request.workers) as pool:
        yield from map_in_waves(
            pool,
            task,
            iter(run.request.products),
            as_parameters=lambda product: {"product": product},
            fixed={"run": run.id},
            width=run.request.workers,
            stop=run.over,
        )


def _product_receipt(ended: Ended[str]) -> ProductReceipt:
    if isinstance(ended.outcome, ProductReceipt):
        return ended.outcome
    return ProductReceipt(ended.call, Status.FAILED, error=why_none(ended.outcome))
