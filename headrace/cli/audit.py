"""`headrace audit`: the flow, run here, with the options that its form has."""

from __future__ import annotations

from headrace.audit.request import AuditRequest
from headrace.cli.running import pipeline_command

audit = pipeline_command(
    "audit",
    AuditRequest,
    """Find out whether products are complete and sound in the lake; with --heal, make them so.

    Exit code 0: complete and sound; 4: something is missing or wrong, and named.
    """,
)
