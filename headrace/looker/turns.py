"""Whose turn it is at a vault: one run at a time extracts into it."""

from __future__ import annotations

from pathlib import Path

from headrace.leases import LeaseHeld
from headrace.looker.extract.receipts import ExtractSummary, TypeReceipt
from headrace.looker.extract.request import ExtractRequest
from headrace.paths import real_path
from headrace.pull.turns import lake_tag
from headrace.run.report import QuotaUse, Status


def vault_lease(path: str | Path) -> str:
    """Name of the lease of whoever writes what a Looker says into the vault at `path`.

    One vault has one, however its path is spelled.
    """
    return f"looker/extract@{lake_tag(str(real_path(path)))}"


def refused(
    request: ExtractRequest, held: LeaseHeld, *, run_id: str = "", ui_url: str | None = None
) -> ExtractSummary:
    """The summary of an extraction that did not begin, because another is at its vault."""
    return ExtractSummary(
        run=run_id,
        status=Status.RUNNING_ELSEWHERE,
        session=0,
        ui_url=ui_url,
        vault=str(real_path(request.vault)),
        source=request.base_url,
        elapsed_s=0.0,
        requests=0,
        throttled=0,
        retries=0,
        logins=0,
        quota=QuotaUse("", request.rate),
        types=tuple(
            TypeReceipt(type_, Status.RUNNING_ELSEWHERE, error=str(held))
            for type_ in request.chosen
        ),
    )
