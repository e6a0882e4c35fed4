"""`headrace backfill`, `ingest`, `audit`, `check`, `transform`: the flows, run here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.audit.request import AuditRequest
from headrace.checks.request import CheckRequest
from headrace.cli.options import pipeline_command
from headrace.pull.request import IngestRequest, PullRequest
from headrace.settings import load_settings
from headrace.unified.request import TransformRequest

if TYPE_CHECKING:
    from headrace.pull.report import Summary


@contextmanager
def _admit(request: PullRequest) -> Iterator[Summary | None]:
    """Take the leases of the first products; refuse the run if others hold those of all."""
    # Imported when it is needed: help and completion are quick without it.
    from headrace.pull.admission import admission, summarize_refusal, with_products

    request = with_products(request)
    settings, began = load_settings(), time.monotonic()
    with admission(
        request, leases=settings.lease_location, ttl_s=settings.lease_ttl_s
    ) as held_by_others:
        if len(held_by_others) < len(request.products):
            yield None
        else:
            yield summarize_refusal(request, held_by_others, elapsed_s=time.monotonic() - began)


backfill = pipeline_command(
    "backfill",
    PullRequest,
    "Fetch all trades of products that the lake does not hold yet.",
    admit=_admit,
)
ingest = pipeline_command(
    "ingest",
    IngestRequest,
    "Fetch the newest trades of products, from where the last run ended.",
    admit=_admit,
)
audit = pipeline_command(
    "audit",
    AuditRequest,
    """Check that the lake holds every trade of its products, intact; --heal repairs it.

    Exit code 0: complete and intact; 4: something is missing or wrong, and named.
    """,
)
check = pipeline_command(
    "check",
    CheckRequest,
    """Hold the trades that are stored against bounds: complete, in order, plausible, fresh.

    Nothing is written, and the exchange is not asked. Exit code 0: every bound holds; 4: one does
    not, and is named.
    """,
)
transform = pipeline_command(
    "transform",
    TransformRequest,
    """Bring the unified table up to date: typed, one table over all products, compacted.

    Exit code 0: up to date; 4: part of it is not, and named.
    """,
)
