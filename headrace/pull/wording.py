"""Runs in words: the same sentences for the terminal, the logs and the UI."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from headrace.pull.progress import RunProgress
from headrace.pull.receipts import ProductReceipt, QuotaUse, Status, Summary

_ENDINGS = {
    Status.DONE: "complete",
    Status.PARTIAL: "partial: something failed or is missing",
    Status.FAILED: "failed",
    Status.RUNNING_ELSEWHERE: "already running elsewhere",
}


def one_line(summary: Summary) -> str:
    """The outcome of a run in one line."""
    rows = sum(receipt.new_rows for receipt in summary.products)
    return (
        f"{ending(summary)}: {rows:,} new trades with {summary.requests:,} requests "
        f"in {duration(summary.elapsed_s)}"
    )


def ending(summary: Summary) -> str:
    """How the run ended, and which products did not come to a good end."""
    if summary.stopped:
        return "stopped on request, what is complete is kept"
    return ended(summary.status, ((r.product, r.status) for r in summary.products))


def ended(status: Status, parts: Iterable[tuple[str, Status]]) -> str:
    """How a run ended, and which parts of it (products, content types) came to no good end."""
    troubled = [name for name, of_part in parts if of_part is not Status.DONE]
    return _ENDINGS[status] + (f" ({', '.join(troubled)})" if troubled else "")


class Costs(Protocol):
    """What the summary of every run of requests says of them."""

    @property
    def requests(self) -> int:
        """Requests sent."""

    @property
    def throttled(self) -> int:
        """Of these, answered 429."""

    @property
    def retries(self) -> int:
        """Sent once more."""

    @property
    def elapsed_s(self) -> float:
        """Seconds from start to end."""

    @property
    def quota(self) -> QuotaUse:
        """What was allowed, and how much of it was used."""


def spent(costs: Costs) -> list[str]:
    """Requests, time and quota, a few words each."""
    parts = [
        f"{costs.requests:,} requests in {duration(costs.elapsed_s)}",
        f"{costs.throttled:,} throttled",
        f"{costs.retries:,} repeated",
        f"quota {costs.quota.rates}",
    ]
    if costs.quota.used_share is not None:
        parts.append(f"{costs.quota.used_share:.1%} of it used")
    return parts


def remarks(summary: Summary) -> list[str]:
    """A line per product that has an error or lacks something."""
    lines = []
    for receipt in summary.products:
        if receipt.error:
            said = receipt.error.removeprefix(f"{receipt.product}: ")
            lines.append(f"{receipt.product}: {said}")
        if receipt.missing:
            lines.append(f"{receipt.product}: missing {ranges_in_words(receipt)}")
    return lines


def described_progress(progress: RunProgress) -> str:
    """One line per product: pages done of those planned, and its state."""
    lines = [
        f"{entry.product}: {entry.pages_done:,}/{entry.pages_total:,} pages, {entry.state}"
        for entry in list(progress.products.values())
    ]
    return "; ".join(lines) or "planning"


def markdown_summary(summary: Summary) -> str:
    """The run's summary as an artifact."""
    share = summary.quota.used_share
    used = f"{share:.1%} of it used" if share is not None else "no limit"
    lines = [
        f"## {one_line(summary)}",
        "",
        f"- requests: {summary.requests:,}, throttled {summary.throttled:,}, "
        f"repeated {summary.retries:,}",
        f"- quota `{summary.quota.name}` {summary.quota.rates}: {used}",
        "",
        "| product | status | new trades | trades stored | watermark | newest | missing |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    lines += [_markdown_row(receipt) for receipt in summary.products]
    lines += ["", *(f"- {plain(remark)}" for remark in remarks(summary))]
    return "\n".join(lines)


def ranges_in_words(receipt: ProductReceipt, limit: int = 3) -> str:
    """The missing ranges of a product, the first few of them spelled out."""
    ranges = receipt.missing.ranges
    shown = ", ".join(f"{lo}-{hi}" for lo, hi in ranges[:limit])
    return shown + (f" and {len(ranges) - limit} more" if len(ranges) > limit else "")


def plain(text: str) -> str:
    """Text from outside as text: no markup, one line."""
    escaped = re.sub(r"([\\`*_{}\[\]<>()#+|!-])", r"\\\1", text)
    return " ".join(escaped.split())


def duration(seconds: float) -> str:
    """Seconds in words: 4.2 s, 3 m 20 s, 2 h 05 m."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m"


def _markdown_row(receipt: ProductReceipt) -> str:
    return (
        f"| {receipt.product} | {receipt.status.value} | {receipt.new_rows:,} "
        f"| {receipt.rows:,} | {receipt.watermark:,} | {receipt.newest:,} "
        f"| {ranges_in_words(receipt) or 'nothing'} |"
    )
