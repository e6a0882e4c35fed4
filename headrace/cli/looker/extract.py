"""`headrace looker extract`: the flow, run here, with the options that its form has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from headrace.cli.running import pipeline_command
from headrace.extras import require
from headrace.leases import LeaseHeld, claim, open_leases
from headrace.looker.client import connection_from_environment
from headrace.looker.extract.receipts import ExtractSummary, refused
from headrace.looker.extract.request import ExtractRequest, vault_lease
from headrace.pull.request import BLOCK_PREFIX
from headrace.settings import load_settings


def _check(request: ExtractRequest, _as_json: bool) -> None:
    """Say what is missing before a server is started; a block needs the server."""
    require("looker")
    if not request.base_url.startswith(BLOCK_PREFIX):
        connection_from_environment(request.base_url)


@contextmanager
def _admit(request: ExtractRequest) -> Iterator[ExtractSummary | None]:
    """Claim the vault before Prefect is loaded (see `docs/leases.md`)."""
    settings = load_settings()
    found = None
    with ExitStack() as claimed:
        try:
            leases = open_leases(settings.lease_location)
            claimed.enter_context(
                claim(leases, vault_lease(request.vault), ttl_s=settings.lease_ttl_s)
            )
        except LeaseHeld as held:
            found = refused(request, held)
        yield found


extract = pipeline_command(
    "looker",
    ExtractRequest,
    """Bring the content of a Looker into a vault; a second run goes on where one broke off.

    Logs in with LOOKERSDK_CLIENT_ID and LOOKERSDK_CLIENT_SECRET, or with those of a Looker block.
    """,
    name="extract",
    admit=_admit,
    check=_check,
)
