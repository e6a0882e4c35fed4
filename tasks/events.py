"""What operators may want to know of, as Prefect events. The table of them is in docs/alarms.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from prefect.events import emit_event

from headrace.checks.report import Breach
from headrace.coverage import IntervalSet
from headrace.looker.extract.report import ExtractSummary
from headrace.looker.validate.report import ValidateReport
from headrace.pull.report import ProductReceipt, log_event
from headrace.pull.request import PullRequest
from headrace.quota import BreakerChange, KeyChange, Phase, SlowdownChange
from headrace.run.report import Status
from headrace.sot.reports import SotReport

_PHASES = {Phase.OPEN: "opened", Phase.HALF_OPEN: "probing", Phase.CLOSED: "closed"}

#: Gaps of one product that have an event each; the report has them all.
MOST_GAPS = 20
#: What only the listeners within the process hear of a product. That one is unchanged, `up-to-date`
#: says of every product that is complete.
NO_EVENTS = {"unchanged"}
#: Characters of a text from outside in a payload.
_LONGEST = 300
#: Problems of a log, of one kind, that have an event each; the report has them all.
MOST_PROBLEMS = 20


def emit(kind: str, name: str, happened: str, facts: Mapping[str, object], **labels: str) -> None:
    """Emit `headrace.KIND.HAPPENED` about the resource `headrace.KIND.NAME`.

    Args:
        kind: of the thing that it happened to: product, source, looker or log (docs/alarms.md).
        name: of the thing, such as BTC-USD.
        happened: what, in the past tense, words joined by hyphens.
        facts: the event's payload.
        labels: of the resource, as `headrace.LABEL`; alarms can tell events apart by them.
    """
    emit_event(
        event=f"headrace.{kind}.{happened}",
        resource={
            "prefect.resource.id": f"headrace.{kind}.{name}",
            "prefect.resource.name": name,
            **{f"headrace.{label}": text for label, text in labels.items()},
        },
        payload=dict(facts),
    )


def emit_of_product(happened: str, facts: Mapping[str, object]) -> None:
    """Emit an event about the product that the facts name."""
    emit("product", str(facts["product"]), happened, facts)


def emit_and_log(happened: str, facts: Mapping[str, object]) -> None:
    """An event of a product's job: to Prefect, and as a line of the log."""
    if happened not in NO_EVENTS:
        emit_of_product(happened, facts)
    log_event(happened, facts)


def emit_if_up_to_date(request: PullRequest, receipt: ProductReceipt) -> None:
    """Emit `headrace.product.up-to-date` where a product is complete up to its newest trade."""
    to_the_newest = request.to_id is None and request.until is None and not request.only_failed
    if to_the_newest and receipt.status is Status.DONE:
        emit_of_product(
            "up-to-date",
            {
                "product": receipt.product,
                "newest": receipt.newest,
                "watermark": receipt.watermark,
                "new_rows": receipt.new_rows,
            },
        )


def emit_gaps(product: str, missing: IntervalSet) -> None:
    """Emit what an audit found missing: `gap-found` for each gap (the first of them), and
    `incomplete` once for them all.
    """
    ranges = missing.ranges
    if not ranges:
        return
    for lo, hi in ranges[:MOST_GAPS]:
        emit_of_product("gap-found", {"product": product, "from_id": lo, "to_id": hi})
    emit_of_product(
        "incomplete",
        {
            "product": product,
            "missing_ids": missing.count,
            "ranges": len(ranges),
            "from_id": ranges[0][0],
            "to_id": ranges[0][1],
        },
    )


def emit_breaches(breaches: Iterable[Breach]) -> None:
    """Emit `check-failed` for each bound of a product that a check found not to hold."""
    for breach in breaches:
        facts = breach.as_json()
        emit("product", breach.product, "check-failed", facts, check=breach.check.value)


def emit_breaker_change(change: BreakerChange) -> None:
    """Emit `breaker-opened`, `breaker-probing` or `breaker-closed` about a source."""
    facts = {"before": change.before.value, "failures": change.failures, "pause_s": change.pause_s}
    emit("source", change.name, f"breaker-{_PHASES[change.after]}", facts)


def emit_slowdown(change: SlowdownChange) -> None:
    """Emit `slowed-down` about a source after answers 429, or `full-speed` when that is over."""
    facts = {
        "percent": change.percent,
        "elapsed_s": round(change.elapsed_s, 1),
        "throttled": change.throttled,
        "requests": change.requests,
    }
    emit("source", change.name, "full-speed" if change.over else "slowed-down", facts)


def emit_key_change(change: KeyChange) -> None:
    """Emit `key-refused`, `key-throttled` or `key-used` about a source; keys have their labels."""
    facts = {"key": change.label, "status": change.status, "pause_s": change.pause_s}
    refused = "key-throttled" if change.status == 429 else "key-refused"
    emit("source", change.quota, "key-used" if change.usable else refused, facts)


def emit_if_incomplete(summary: ExtractSummary) -> None:
    """Emit `extraction-incomplete` about the Looker whose content did not come as a whole, unless
    the run was to stop.
    """
    bad = [receipt for receipt in summary.types if receipt.status is not Status.DONE]
    if summary.stopped or not bad:
        return
    facts = {
        "run": summary.run,
        "session": summary.session,
        "types": [receipt.type for receipt in bad],
        "failed_items": sum(len(receipt.failures) for receipt in bad),
        "missing_ranges": sum(len(receipt.missing) for receipt in bad),
        "error": summary.outage or next((each.error for each in bad if each.error), ""),
    }
    emit(
        "looker", urlsplit(summary.source).netloc or summary.source, "extraction-incomplete", facts
    )


def emit_if_broken(report: ValidateReport) -> None:
    """Emit `content-broken` about the Looker of which content does not run any more."""
    if not report.broken:
        return
    facts = {
        "run": report.run,
        "types": dict(report.counts_by_type),
        "errors": len(report.broken),
        "first": report.broken[0].described()[:_LONGEST],
    }
    host = urlsplit(report.source).netloc or report.source
    emit("looker", host, "content-broken", facts)


def emit_log_problems(report: SotReport) -> None:
    """Emit what was wrong in a run of the log, the first problems of each kind."""
    facts = {"action": report.action, "run": report.run}
    for happened, problems in report.problems_by_kind.items():
        for problem in problems[:MOST_PROBLEMS]:
            emit("log", report.store, happened, {**facts, "problem": problem})
