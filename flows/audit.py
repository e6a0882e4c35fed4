"""Audit: is every trade in the lake, once and readable; and if asked, make it so.

Audits, repairs, fetches (as a backfill does), audits again and signs, mapped over the products each
time.
"""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.audit.report import AuditReport
from headrace.audit.request import AuditRequest
from tasks.audit import audit_products, conclude_audit, heal_products, sign_products
from tasks.audit_run import open_audit
from tasks.pipeline import pipeline


@pipeline("audit", AuditRequest)
def audit(request: AuditRequest) -> State[AuditReport]:
    """Find out whether products are complete and sound in the lake."""
    with open_audit(request) as run:
        found = audit_products(run)
        if not request.heal:
            return conclude_audit(run, found, signed=sign_products(run, found))
        healing = heal_products(run, found)
        found = audit_products(run, found)
        return conclude_audit(run, found, healing, sign_products(run, found))


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("audit")
