"""What happens in a run, told to whoever listens: Prefect's events and the log."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.pull.loglines import log_event
from tasks.events import emit


def tell(name: str, facts: Mapping[str, object]) -> None:
    """An event of a job: to Prefect, and as a line."""
    emit(name, facts)
    log_event(name, facts)
