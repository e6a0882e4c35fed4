"""`headrace looker validate`: which content does not run any more."""

from __future__ import annotations

from headrace.cli.looker.shared import check_looker
from headrace.cli.options import pipeline_command
from headrace.looker.validate.request import ValidateRequest

validate = pipeline_command(
    "looker-validate",
    ValidateRequest,
    """Find looks, dashboards and schedules whose queries do not run any more.

    Asks Looker's own content validation, and with --run-queries each query as well. Exit code 4 if
    anything is broken. Logs in with LOOKERSDK_CLIENT_ID and LOOKERSDK_CLIENT_SECRET, or with those
    of a Looker block.
    """,
    name="validate",
    check=lambda request, _as_json: check_looker(request.base_url),
)
