"""Extractions in words: the same sentences for the terminal, the logs and the UI."""

from __future__ import annotations

from headrace.looker.extract.progress import ExtractProgress
from headrace.looker.extract.receipts import ExtractSummary
from headrace.pull.wording import duration, ended, plain

_FEW = 5


def one_line(summary: ExtractSummary) -> str:
    """The outcome in one line."""
    items = sum(receipt.items for receipt in summary.types)
    fresh = sum(receipt.new + receipt.changed for receipt in summary.types)
    return (
        f"{ending(summary)}: {items:,} items, {fresh:,} of them new or changed, with "
        f"{summary.requests:,} requests in {duration(summary.elapsed_s)}"
    )


def ending(summary: ExtractSummary) -> str:
    """How the run ended, and which types did not come to a good end."""
    if summary.stopped:
        return "stopped on request, what came is kept"
    return ended(summary.status, ((receipt.type, receipt.status) for receipt in summary.types))


def remarks(summary: ExtractSummary) -> list[str]:
    """A line per type that has an error or lacks something, and what to do about it."""
    lines = []
    for receipt in summary.types:
        if receipt.error:
            lines.append(f"{receipt.type}: {receipt.error.removeprefix(f'{receipt.type}: ')}")
        if receipt.missing:
            lines.append(f"{receipt.type}: not read: {_some(receipt.missing)}")
        if receipt.failures:
            lines.append(f"{receipt.type}: did not come: {_some(receipt.failures)}")
    if any(receipt.missing or receipt.failures for receipt in summary.types):
        lines.append(
            "the next run fetches only what is missing; `headrace looker failures` lists it"
        )
    if summary.stale:
        lines.append("the checkpoint in Prefect is older than the vault; the vault is what counts")
    return lines


def described_progress(progress: ExtractProgress) -> str:
    """One line per type: items, speed, time left, state."""
    now_s = progress.clock()
    lines = []
    for entry in list(progress.types.values()):
        of = f"/{entry.expected:,}" if entry.expected > entry.items else ""
        eta_s = entry.eta_s(now_s)
        left = f", {duration(eta_s)} left" if eta_s is not None else ""
        lines.append(
            f"{entry.type}: {entry.items:,}{of} items, {entry.per_s(now_s):,.1f}/s{left}, "
            f"{entry.state}"
        )
    return "; ".join(lines) or "beginning"


def markdown_summary(summary: ExtractSummary) -> str:
    """The run's summary as an artifact."""
    share = summary.quota.used_share
    used = f"{share:.1%} of it used" if share is not None else "no limit"
    lines = [
        f"## {one_line(summary)}",
        "",
        f"- requests: {summary.requests:,}, throttled {summary.throttled:,}, repeated "
        f"{summary.retries:,}, logins {summary.logins:,}",
        f"- quota `{summary.quota.name}` {summary.quota.rates}: {used}",
        f"- vault {plain(summary.vault)}, session {summary.session}"
        + (" (gone on with)" if summary.resumed else ""),
        "",
        "| type | status | items | new | changed | unchanged | deleted | failed |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r.type} | {r.status.value} | {r.items:,} | {r.new:,} | {r.changed:,} "
        f"| {r.unchanged:,} | {r.deleted:,} | {len(r.failures) + len(r.missing):,} |"
        for r in summary.types
    ]
    lines += ["", *(f"- {plain(remark)}" for remark in remarks(summary))]
    return "\n".join(lines)


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more
