"""An audit: look at each product, repair it, fetch what it lacks, report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from prefect import Task
from prefect.client.schemas import State
from prefect.states import Completed, Failed

from headrace.audit.auditor import run_audit
from headrace.audit.report import OFFLINE, AuditReport, Healing, ProductAudit, Repair, RepairReceipt
from headrace.audit.sign_receipts import Signed, SignReceipt
from headrace.errors import HeadraceError
from headrace.leases import LeaseHeld, open_leases
from headrace.manifests.anchored import keep_head
from headrace.pull.checkpoints import noted_token
from headrace.pull.ledger import EXCHANGE
from headrace.pull.product_leases import ProductLeases
from headrace.pull.report import ProductReceipt
from headrace.run.report import Status, combined
from headrace.stopping import Stopped
from tasks import kernel
from tasks.audit_run import Audit
from tasks.bounded_map import map_in_waves, thread_pool
from tasks.events import emit_gaps
from tasks.kernel import find_run
from tasks.prefect_defaults import task
from tasks.pull import pull_products


@task(
    name="audit-product",
    task_run_name="audit {product}",
    description="Hold names, footers, checkpoint and newest id of one product together.",
)
def audit_product(run: str, product: str) -> State[ProductAudit]:
    """Audit one product; what is missing or wrong makes the task run Partial, never raises."""
    audit = find_run(Audit, run)
    found = run_audit(
        audit.lake,
        product,
        checkpoints=audit.checkpoints,
        client=audit.pull.client if audit.pull else None,
        delisted=product in audit.chosen.delisted,
        known=audit.known.get(product),
        pending_since=audit.pending_since,
        manifests=audit.manifests,
        deep=audit.request.deep,
        stop=audit.stop,
    )
    if found.newest_answer is not None:
        audit.answers[product] = found.newest_answer
    emit_gaps(product, found.counted.missing)
    if found.status is Status.DONE:
        limits = f" {OFFLINE}" if audit.request.offline else ""
        return Completed(message=f"complete and sound{limits}", data=found)
    message = found.error or ", ".join(f"{n} {kind}" for kind, n in found.kinds.items())
    return Failed(name=found.status.value.title(), message=message, data=found)


@task(
    name="repair",
    task_run_name="repair {product}",
    description="Set aside, sweep, rewrite, and ask for holes that are in doubt.",
)
def repair_product(run: str, product: str) -> RepairReceipt:
    """Repair one product while no run is at it; what was done before a failure is reported, too."""
    audit = find_run(Audit, run)
    product_leases = ProductLeases(
        open_leases(audit.settings.lease_location), EXCHANGE, product, audit.location
    )
    done: list[Repair] = []
    try:
        above = noted_token(audit.checkpoints, EXCHANGE, product)
        with product_leases.acquire_all(
            audit.id, ttl_s=audit.settings.lease_ttl_s, above=above
        ) as leases:
            for step in audit.healer.heal(product, leases, now=datetime.now(UTC)):
                done.append(step)  # noqa: PERF402 - what was done counts, even if the next fails
    except LeaseHeld as error:
        return RepairReceipt(product, Status.RUNNING_ELSEWHERE, error=str(error))
    except HeadraceError as error:
        return RepairReceipt(product, Status.FAILED, tuple(done), str(error))
    return RepairReceipt(product, Status.DONE, tuple(done))


def audit_products(audit: Audit, before: Sequence[ProductAudit] = ()) -> tuple[ProductAudit, ...]:
    """One audit per product, `workers` at once, in the order asked for.

    After a healing, what is there is held against the newest ids found `before` it: the exchange
    goes on meanwhile, and its newest trades would be missing again at each look.
    """
    audit.known.update({each.product: each.newest for each in before if each.asked})
    outcomes = _mapped(audit, audit_product, audit.products)
    return tuple(
        outcome
        if isinstance(outcome := outcomes.get(product), ProductAudit)
        else ProductAudit(product, Status.FAILED, error=_why_none(audit, outcome))
        for product in audit.products
    )


def heal_products(audit: Audit, before: Sequence[ProductAudit]) -> Healing:
    """Repair what is not as it should be, then fetch what is missing, as a backfill does."""
    ailing = [each.product for each in before if each.to_repair]
    audit.progress.parts += len(ailing) + len(audit.products)
    outcomes = _mapped(audit, repair_product, ailing)
    repaired = tuple(
        outcome
        if isinstance(outcome := outcomes.get(product), RepairReceipt)
        else RepairReceipt(product, Status.FAILED, error=_why_none(audit, outcome))
        for product in ailing
    )
    lacking = {each.product for each in before if each.counted.missing}
    lacking |= {each.product for each in repaired if each.made_gaps}
    unrepaired = {each.product for each in repaired if each.status is not Status.DONE}
    to_fetch = [each for each in audit.products if each in lacking - unrepaired]
    return Healing(tuple(before), repaired, _fetched(audit, to_fetch))


def _fetched(audit: Audit, products: Sequence[str]) -> tuple[ProductReceipt, ...]:
    if not products or audit.pull is None:
        return ()
    return tuple(pull_products(replace(audit.pull, request=audit.request.pull_of(products))))


def _mapped(
    audit: Audit,
    task: Task[..., Any],
    products: Sequence[str],
    more: Callable[[str], dict[str, Any]] = lambda _product: {},
) -> dict[str, Any]:
    """What the task returned for each product; a crashed one its error, one called off None."""
    workers = audit.request.workers
    with thread_pool(workers) as pool:
        ended = map_in_waves(
            pool,
            task,
            iter(products),
            as_parameters=lambda product: {"product": product, **more(product)},
            fixed={"run": audit.id},
            width=workers,
            stop=audit.over,
        )
        outcomes = {}
        for each in ended:
            audit.bar.tick()
            if each is not None:
                outcomes[each.call] = each.outcome
                audit.progress.step()
        return outcomes


def _why_none(audit: Audit, outcome: object) -> str:
    if outcome is not None:
        return f"the task run crashed ({outcome!r})"
    cause = audit.pull.client.ending.cause if audit.pull else None
    return str(cause or Stopped().message)


@task(
    name="sign-product",
    task_run_name="sign {product}",
    description="Read what is new of a product, and sign a manifest of all of it.",
)
def sign_product(run: str, product: str, newest: int) -> SignReceipt:
    """Sign one product; what keeps it from being signed is in the receipt."""
    audit = find_run(Audit, run)
    try:
        made = audit.signing.sign(
            product, newest=newest, newest_answer=audit.answers.get(product), now=datetime.now(UTC)
        )
    except HeadraceError as error:
        return SignReceipt(product, error=str(error))
    return SignReceipt(product, made.sequence, made.parts, made.rows)


def sign_products(audit: Audit, audited: Sequence[ProductAudit]) -> Signed | None:
    """Sign a manifest of each product, then where they all end; None if it was not asked for."""
    if not audit.request.sign:
        return None
    misfit = next((each.misfit for each in audit.anchors if each.misfit), "")
    if misfit and not audit.request.accept:
        return Signed((), error=f"an anchor does not fit ({misfit}); --accept REASON signs anyway")
    newest = {each.product: each.newest for each in audited}
    audit.progress.parts += len(audit.products)
    outcomes = _mapped(
        audit, sign_product, audit.products, lambda product: {"newest": newest[product]}
    )
    receipts = tuple(
        outcome
        if isinstance(outcome := outcomes.get(product), SignReceipt)
        else SignReceipt(product, error=_why_none(audit, outcome))
        for product in audit.products
    )
    if all(each.error for each in receipts):
        return Signed(receipts, error="no product was signed")
    try:
        head = audit.manifests.sign_head(audit.signing.seal, datetime.now(UTC))
    except HeadraceError as error:
        return Signed(receipts, error=str(error))
    kept = tuple(keep_head(audit.manifests, head, audit.places))
    return Signed(receipts, head.sequence, kept=kept)


def conclude_audit(
    audit: Audit,
    products: Sequence[ProductAudit],
    healing: Healing | None = None,
    signed: Signed | None = None,
) -> State[AuditReport]:
    """Sum up what was found, and what was done."""
    elsewhere = healing.elsewhere() if healing else set()
    products = tuple(_without_blame(each, elsewhere) for each in products)
    report = AuditReport(
        run=audit.id,
        status=combined([*(each.status for each in products), *_status_of(audit, signed)]),
        lake=audit.location,
        deep=audit.request.deep,
        ui_url=kernel.ui_url(),
        elapsed_s=audit.elapsed_s,
        requests=audit.requests,
        products=products,
        healing=healing,
        anchors=audit.anchors,
        signed=signed,
        stopped=audit.stop.is_set(),
        chosen=audit.chosen.described(),
        offline=audit.request.offline,
    )
    return kernel.conclude(audit, report)


def _status_of(audit: Audit, signed: Signed | None) -> list[Status]:
    """What was not signed, or no anchor proves, makes the audit partial."""
    signing = audit.request.sign  # puts the first head into a place that is empty
    fits = not any(each.problem or not (each.heads or signing) for each in audit.anchors)
    return [] if fits and (signed is None or signed.complete) else [Status.PARTIAL]


def _without_blame(audited: ProductAudit, elsewhere: set[str]) -> ProductAudit:
    """A product that another run works on is no failure of this one."""
    if audited.status is Status.PARTIAL and audited.product in elsewhere:
        return replace(audited, status=Status.RUNNING_ELSEWHERE)
    return audited
