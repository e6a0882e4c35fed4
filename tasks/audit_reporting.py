"""How an audit ends: its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prefect.states import State

from headrace.audit.report import AuditReport, Healing, ProductAudit
from headrace.run.report import Status, combined
from tasks import kernel
from tasks.audit_runs import Audit


def conclude_audit(
    audit: Audit, products: Sequence[ProductAudit], healing: Healing | None = None
) -> State[AuditReport]:
    """Sum up what was found, and what was done."""
    elsewhere = healing.elsewhere() if healing else set()
    products = tuple(_without_blame(each, elsewhere) for each in products)
    report = AuditReport(
        run=audit.id,
        status=combined(each.status for each in products),
        lake=audit.location,
        deep=audit.request.deep,
        ui_url=kernel.ui_url(),
        elapsed_s=audit.elapsed_s,
        requests=audit.requests,
        products=products,
        healing=healing,
        stopped=audit.stop.is_set(),
    )
    return kernel.conclude(audit, report)


def _without_blame(audited: ProductAudit, elsewhere: set[str]) -> ProductAudit:
    """A product that another run works on is no failure of this one."""
    if audited.status is Status.PARTIAL and audited.product in elsewhere:
        return replace(audited, status=Status.RUNNING_ELSEWHERE)
    return audited
