"""What operators may want to be told of, as Prefect events."""

from __future__ import annotations

from collections.abc import Mapping

from prefect.events import emit_event

from headrace.coverage import IntervalSet
from headrace.pull.loglines import log_event
from headrace.pull.receipts import ProductReceipt
from headrace.pull.request import PullRequest
from headrace.quota import BreakerChange, Phase
from headrace.run.report import Status

_EVENTS = {Phase.OPEN: "opened", Phase.HALF_OPEN: "probing", Phase.CLOSED: "closed"}

#: Gaps of one product that are told one by one; the report has them all.
MOST_GAPS = 20


def emit(name: str, facts: Mapping[str, object]) -> None:
    """Emit `headrace.NAME` about a product, or about the exchange where the facts name none."""
    subject = str(facts.get("product", "exchange"))
    emit_event(
        event=f"headrace.{name}",
        resource={
            "prefect.resource.id": f"headrace.product.{subject}",
            "prefect.resource.name": subject,
        },
        payload=dict(facts),
    )


def emit_and_log(name: str, facts: Mapping[str, object]) -> None:
    """An event of a job: to Prefect, and as a line of the log."""
    emit(name, facts)
    log_event(name, facts)


def emit_if_up_to_date(request: PullRequest, receipt: ProductReceipt) -> None:
    """Emit `headrace.up-to-date` where a product is complete up to its newest trade."""
    to_the_newest = request.to_id is None and request.until is None and not request.only_failed
    if to_the_newest and receipt.status is Status.DONE:
        emit(
            "up-to-date",
            {
                "product": receipt.product,
                "newest": receipt.newest,
                "watermark": receipt.watermark,
                "new_rows": receipt.new_rows,
            },
        )


def emit_gaps(product: str, missing: IntervalSet) -> None:
    """Emit what an audit found missing: each gap (the first of them), and one event for them all.

    `headrace.gap.found` tells one gap; `headrace.audit.gap` tells once that there are some.
    """
    ranges = missing.ranges
    if not ranges:
        return
    for lo, hi in ranges[:MOST_GAPS]:
        emit("gap.found", {"product": product, "from_id": lo, "to_id": hi})
    emit(
        "audit.gap",
        {
            "product": product,
            "missing_ids": missing.count,
            "ranges": len(ranges),
            "from_id": ranges[0][0],
            "to_id": ranges[0][1],
        },
    )


def emit_breaker_change(change: BreakerChange) -> None:
    """Emit `headrace.breaker.opened`, `.probing` or `.closed` about a source."""
    emit_event(
        event=f"headrace.breaker.{_EVENTS[change.after]}",
        resource={
            "prefect.resource.id": f"headrace.source.{change.name}",
            "prefect.resource.name": change.name,
        },
        payload={
            "before": change.before.value,
            "failures": change.failures,
            "pause_s": change.pause_s,
        },
    )
