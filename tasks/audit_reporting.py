"""How an audit ends: its report, in the UI and to the caller, and the state that Prefect shows."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed, State

from blocks.api import API_ERRORS, require_api
from headrace.audit.report import AuditReport, Healing, ProductAudit
from headrace.audit.wording import markdown_report, one_line, summary_row
from headrace.pull.receipts import Status, combined
from tasks.audit_runs import Audit

log = logging.getLogger(__name__)

#: Findings in the UI's table; `--json` has them all.
_MOST_ROWS = 500


def conclude_audit(
    audit: Audit, products: Sequence[ProductAudit], healing: Healing | None = None
) -> State[AuditReport]:
    """Sum up, publish, and choose the state: Completed, Partial, Failed, Cancelled."""
    elsewhere = healing.elsewhere() if healing else set()
    products = tuple(_as_told(each, elsewhere) for each in products)
    report = AuditReport(
        run=audit.id,
        status=combined(each.status for each in products),
        lake=audit.location,
        deep=audit.request.deep,
        ui_url=flow_run.ui_url or None,
        elapsed_s=time.monotonic() - audit.started,
        requests=audit.requests,
        products=products,
        healing=healing,
        stopped=audit.stop.is_set(),
    )
    _publish(report)
    return _state(report)


def _as_told(audited: ProductAudit, elsewhere: set[str]) -> ProductAudit:
    """A product that is not well because somebody else is at it is no failure of this run."""
    if audited.status is Status.PARTIAL and audited.product in elsewhere:
        return replace(audited, status=Status.RUNNING_ELSEWHERE)
    return audited


def _publish(report: AuditReport) -> None:
    """The tables of the UI; an absent API is no failure of the audit."""
    findings = [finding for each in report.products for finding in each.findings]
    findings.sort(key=lambda finding: not finding.wrong)
    try:
        require_api()
        create_table_artifact(
            table=[summary_row(each) for each in report.products],
            key="headrace-audit",
            description="What of each product is in the lake, and whether it is sound",
        )
        create_table_artifact(
            table=[finding.as_row() for finding in findings[:_MOST_ROWS]],
            key="headrace-audit-findings",
            description=f"{len(findings):,} findings, what is wrong first",
        )
        create_markdown_artifact(
            markdown=markdown_report(report),
            key="headrace-audit-summary",
            description="What the audit found",
        )
    except API_ERRORS as error:
        log.warning("the audit is not shown in the UI: %s", error)


def _state(report: AuditReport) -> State[AuditReport]:
    message = one_line(report)
    if report.stopped:
        return Cancelled(message=message, data=report)
    if report.status is Status.DONE:
        return Completed(message=message, data=report)
    if report.status is Status.RUNNING_ELSEWHERE:
        return Completed(name="AlreadyRunning", message=message, data=report)
    return Failed(name=report.status.value.title(), message=message, data=report)
