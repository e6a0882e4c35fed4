"""Audits in words: the same sentences for the terminal, the states of runs and the UI."""

from __future__ import annotations

import re

from headrace.audit.findings import Finding
from headrace.audit.report import AuditReport, ProductAudit
from headrace.pull.receipts import Status
from headrace.pull.wording import duration

_ENDINGS = {
    Status.DONE: "complete and sound",
    Status.PARTIAL: "something is missing or wrong",
    Status.FAILED: "the audit failed",
    Status.RUNNING_ELSEWHERE: "somebody else is at work on what has to be healed",
}
#: Findings of one product that are spelled out for people; `--json` has them all.
SHOWN = 20


def one_line(report: AuditReport) -> str:
    """The outcome of an audit in one line."""
    return f"{ending(report)}: {totals_line(report)}"


def ending(report: AuditReport) -> str:
    """How the audit ended, and which products are not as they should be."""
    if report.stopped:
        return "stopped on request, not everything was looked at"
    troubled = [each.product for each in report.products if each.status is not Status.DONE]
    return _ENDINGS[report.status] + (f" ({', '.join(troubled)})" if troubled else "")


def totals_line(report: AuditReport) -> str:
    """Parts, trades, requests and time."""
    parts = sum(each.parts for each in report.products)
    rows = sum(each.counted.rows for each in report.products)
    looked = "rows" if report.deep else "footers"
    return (
        f"{looked} of {parts:,} parts with {rows:,} trades, {report.requests:,} requests, "
        f"{duration(report.elapsed_s)}"
    )


def remarks(report: AuditReport) -> list[str]:
    """What was done, then what was found, a line each; what is wrong comes first."""
    lines = healing_lines(report)
    for each in report.products:
        if each.error:
            lines.append(f"{each.product}: {each.error.removeprefix(f'{each.product}: ')}")
        lines += [described(finding) for finding in each.findings[:SHOWN]]
        if len(each.findings) > SHOWN:
            left = len(each.findings) - SHOWN
            lines.append(f"{each.product}: and {left:,} more findings; --json has them all")
    return lines


def described(finding: Finding) -> str:
    """One finding in one line."""
    where = f" {finding.range[0]}-{finding.range[1]}" if finding.range else ""
    repair = f" [{finding.repair}]" if finding.repair else ""
    return f"{finding.product}: {finding.kind.value}{where}: {finding.message}{repair}"


def healing_lines(report: AuditReport) -> list[str]:
    """What a healing did, a line per step."""
    if report.healing is None:
        return []
    lines = [
        f"{step.product}: {step.action.value.replace('_', ' ')}: {step.message}"
        for receipt in report.healing.repaired
        for step in receipt.repairs
    ]
    lines += [f"{each.product}: {each.error}" for each in report.healing.repaired if each.error]
    for fetched in report.healing.fetched:
        said = f" ({fetched.error})" if fetched.error else ""
        lines.append(f"{fetched.product}: fetched {fetched.new_rows:,} trades{said}")
    return lines


def summary_row(audited: ProductAudit) -> dict[str, str | int]:
    """One row of the table of products; `missing` and `absent` (at the exchange) count ids."""
    counted = audited.counted
    return {
        "product": audited.product,
        "status": audited.status.value,
        "parts": audited.parts,
        "trades": counted.rows,
        "watermark": counted.watermark,
        "newest": audited.newest,
        "missing": counted.missing.count,
        "absent": counted.absent_ids,
        "wrong": len(audited.wrong),
        "notes": len(audited.findings) - len(audited.wrong),
    }


def markdown_report(report: AuditReport) -> str:
    """The audit as an artifact; after a healing, with what was before."""
    lines = [f"## {plain(one_line(report))}", "", f"- lake `{report.lake}`", ""]
    if report.healing is not None:
        lines += ["### Before", "", *_table(report.healing.before), "", "### Done", ""]
        lines += [f"- {plain(line)}" for line in healing_lines(report)] or ["- nothing"]
        lines += ["", "### After", ""]
    lines += [*_table(report.products), ""]
    lines += [f"- {plain(line)}" for line in remarks(report)[len(healing_lines(report)) :]]
    return "\n".join(lines)


def plain(text: str) -> str:
    """Text from outside as text: no markup, one line."""
    escaped = re.sub(r"([\\`*_{}\[\]<>()#+|!-])", r"\\\1", text)
    return " ".join(escaped.split())


def _table(products: tuple[ProductAudit, ...]) -> list[str]:
    rows = [summary_row(each) for each in products]
    if not rows:
        return []
    head = list(rows[0])
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = (f"{cell:,}" if isinstance(cell, int) else plain(cell) for cell in row.values())
        lines.append(f"| {' | '.join(cells)} |")
    return lines
