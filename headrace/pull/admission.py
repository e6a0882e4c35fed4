"""Who may begin: answered at once, before a run loads what it needs to work.

Loading Prefect and starting its server take seconds. A second start of the same run has to end
before that, and two at the same instant must not both think that they are the first: so the leases
that the run will want first are taken here, and the run finds them (`headrace.leases.claim`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from headrace.lake.opening import canonical_location, make_store
from headrace.leases import LeaseHeld, open_leases
from headrace.products.choice import to_fetch
from headrace.pull.ledger import EXCHANGE
from headrace.pull.product_leases import ProductLeases
from headrace.pull.report import ProductReceipt, Summary
from headrace.pull.request import BLOCK_PREFIX, PullRequest
from headrace.run.report import Costs, QuotaUse, Status
from headrace.wire.transport import quota_name


def with_products(request: PullRequest) -> PullRequest:
    """The request with the products that it means, as the run will choose them.

    Left as it is where the lake is a saved block, whose place only Prefect knows.

    Raises:
        ConfigurationError: it means none, or the lake's location has a form that cannot work.
        ListDamaged, StoreError: the list of products cannot be read.
    """
    if not request.way or request.lake.startswith(BLOCK_PREFIX):
        return request
    return request.of(to_fetch(request, make_store(request.lake), EXCHANGE).products)


@contextmanager
def admission(request: PullRequest, *, leases: str, ttl_s: float) -> Iterator[dict[str, LeaseHeld]]:
    """For a `with` block around a run: the leases that other runs hold, by product.

    What the run can begin with is taken, as many products as its workers. If there is nothing like
    that, the products that come later are looked at: all are held, or there is work to do.

    Nothing is asked where this run will write nothing (a dry run, one whose products are spread
    over child runs), nor for a lake that is a saved block, whose place only Prefect knows: the run
    itself finds out then.

    Args:
        request: what is to be run.
        leases: where leases are kept.
        ttl_s: their time to live.

    Raises:
        LakeUnusable: the lake's location has a form that cannot work.
        HeadraceError: the store of leases cannot be used.
    """
    with ExitStack() as claimed:
        by_products = request.spread > 1 and len(request.products) > 1
        if request.dry_run or by_products or request.lake.startswith(BLOCK_PREFIX):
            yield {}
            return
        store, lake = open_leases(leases), canonical_location(request.lake)

        def product_leases(product: str) -> ProductLeases:
            return ProductLeases(store, EXCHANGE, product, lake)

        first, later = request.products[: request.workers], request.products[request.workers :]
        held: dict[str, LeaseHeld] = {}
        for product in first:
            try:
                claimed.enter_context(product_leases(product).claim(request.planner, ttl_s=ttl_s))
            except LeaseHeld as other:
                held[product] = other
        if len(held) == len(first):
            held |= _held_later(later, product_leases, request.planner)
        yield held


def _held_later(
    products: Iterable[str], product_leases: Callable[[str], ProductLeases], planner: str
) -> dict[str, LeaseHeld]:
    """Leases held on the products that come later, up to the first that is free."""
    held: dict[str, LeaseHeld] = {}
    for product in products:
        try:
            product_leases(product).check_free(planner)
        except LeaseHeld as other:
            held[product] = other
        else:
            break
    return held


def summarize_refusal(
    request: PullRequest, held: Mapping[str, LeaseHeld], *, elapsed_s: float
) -> Summary:
    """The summary of a run that did not begin, because others are at all that it was to do."""
    named = request.base_url.startswith(BLOCK_PREFIX)
    return Summary(
        run="",
        status=Status.RUNNING_ELSEWHERE,
        ui_url=None,
        costs=Costs(
            0,
            0,
            0,
            elapsed_s,
            QuotaUse(request.base_url if named else quota_name(request.base_url), request.rate),
        ),
        products=tuple(
            ProductReceipt(product, Status.RUNNING_ELSEWHERE, error=str(held[product]))
            for product in request.products
        ),
    )
