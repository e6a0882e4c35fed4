"""A run that is spread: its parts, and what they did as one report."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager

from headrace.leases import LeaseStoreMisconfigured, LeaseStoreUnavailable, hold
from headrace.pull.job import ProductJob
from headrace.pull.ledger import EXCHANGE
from headrace.pull.product_leases import ProductLeases
from headrace.pull.report import Part, PartEnd, ProductReceipt
from headrace.pull.spread import PartRequest, lease_of_part, ranges_of, request_of, sets_of
from headrace.run.report import Status
from headrace.stopping import StopEvent, Stopped
from tasks.child_runs import Children
from tasks.kernel import ProgressArtifact, announce
from tasks.pull_run import Run

log = logging.getLogger(__name__)


def spread_products(run: Run) -> list[ProductReceipt]:
    """Have sets of the products pulled by child runs; a receipt each, as `pull_products`."""
    receipts: dict[str, ProductReceipt] = {}
    announce(run)
    parts = sets_of(run.request.products, run.request.spread)
    with ProgressArtifact(run.progress) as shown, closing(_ends(run, parts, run.over)) as ends:
        for end in ends:
            shown.tick()
            if end is None:
                continue
            receipts |= {receipt.product: receipt for receipt in end.receipts}
            for product in end.part.products:
                error = end.error or Stopped().message
                receipts.setdefault(product, ProductReceipt(product, Status.FAILED, error=error))
                run.progress.end(product, receipts[product].status.value, receipts[product].error)
    return [receipts[product] for product in run.request.products]


def spread_ids(run: Run, job: ProductJob) -> bool:
    """Have ranges of the product's ids pulled by child runs; commit what they store meanwhile.

    Returns:
        False, with nothing done, if there are no two ranges to fetch.

    Raises:
        LeaseHeld: parts of an earlier run, which is gone, are still at the product.
    """
    parts = ranges_of(job.product, job.to_fetch, run.lake.grid, run.request.spread)
    if len(parts) < 2:
        return False
    job.product_leases.check_no_parts(run.request.work)
    with closing(_ends(run, parts, job.stop)) as ends:
        for end in ends:
            if end is not None:
                job.keep_part(end)
            elif not job.stop.is_set():
                job.commit_parts()
    return True


def _ends(
    run: Run, parts: Sequence[Part], stop: StopEvent
) -> Generator[PartEnd | None, None, None]:
    assert run.part_deployment is not None
    asked = [(part, request_of(part, run.request, run.id)) for part in parts]
    requests = {part.number: request for part, request in asked}
    children = Children(run.part_deployment, asked, leases=run.leases, stop=stop)
    with closing(children.ends()) as ends:
        for end in ends:
            if end is not None:
                run.parts.append(end)
                _forget_leases(run, requests[end.part.number])
            yield end


def _forget_leases(run: Run, part: PartRequest) -> None:
    """Remove the leases whose names are of this run alone, unless the part still lives."""
    names = [lease_of_part(part.spread_run, part.number)]
    if part.by_ids:
        own = ProductLeases(run.leases, EXCHANGE, part.products[0], run.checkpoints.lake)
        names.append(own.run(part.work))
    try:
        for name in names:
            run.leases.forget(name)
    except (LeaseStoreMisconfigured, LeaseStoreUnavailable) as error:
        log.info("leases of %s stay in the list: %s", part.number, error)


@contextmanager
def living_part(run: Run) -> Iterator[None]:
    """Show the spread run that this part lives: a lease, for a `with` block.

    Raises:
        LeaseHeld: the part was started twice, and the first one lives.
    """
    request = run.request
    assert isinstance(request, PartRequest)
    with hold(
        run.leases,
        lease_of_part(request.spread_run, request.number),
        run_id=run.id,
        ttl_s=run.settings.lease_ttl_s,
        stop=run.stop,
        on_lost=run.client.ending.end,
    ):
        yield
