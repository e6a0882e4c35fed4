"""What operators may want to be told of, as Prefect events."""

from __future__ import annotations

from collections.abc import Mapping

from prefect.events import emit_event

from headrace.quota import BreakerChange, Phase

_EVENTS = {Phase.OPEN: "opened", Phase.HALF_OPEN: "probing", Phase.CLOSED: "closed"}


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
