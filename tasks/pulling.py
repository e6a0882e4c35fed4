"""Map product tasks over a run's products, and show how far they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from prefect import Task
from prefect.task_runners import ThreadPoolTaskRunner

from headrace.pull.receipts import PlanReceipt, ProductReceipt
from headrace.run.report import Status
from headrace.stopping import Stopped
from tasks.kernel import ProgressArtifact, announce
from tasks.products import plan_product, pull_product
from tasks.runs import Run
from tasks.waves import Ended, map_in_waves

Receipt = TypeVar("Receipt")


def pull_products(run: Run) -> list[ProductReceipt]:
    """One receipt per product, in the order of the request."""
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
    return list(receipts.values())


def plan_products(run: Run) -> list[PlanReceipt]:
    """One plan per product, in the order of the request; nothing is fetched or written."""
    plans = {ended.call: ended.outcome for ended in _mapped(run, plan_product) if ended}
    return [plans[product] for product in run.request.products if product in plans]


def _mapped(run: Run, task: Task[..., Any]) -> Iterator[Ended[str] | None]:
    with ThreadPoolTaskRunner(max_workers=run.request.workers) as pool:
        yield from map_in_waves(
            pool,
            task,
            iter(run.request.products),
            as_parameters=lambda product: {"product": product},
            fixed={"run": run.id},
            width=run.request.workers,
            stop=run.stop,
        )


def _product_receipt(ended: Ended[str]) -> ProductReceipt:
    if isinstance(ended.outcome, ProductReceipt):
        return ended.outcome
    if ended.outcome is None:
        return ProductReceipt(ended.call, Status.FAILED, error=Stopped().message)
    return ProductReceipt(
        ended.call, Status.FAILED, error=f"the task run crashed ({ended.outcome!r})"
    )
