"""Which session of the vault a run works on: a new one, or an unfinished one it goes on with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.looker.extract.request import ExtractRequest
from headrace.looker.vault import ITEM, Session, Status, Vault

KIND = "extract"

#: What was listed longer ago than this is listed anew: too much may have changed meanwhile.
OLDEST = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A session to work on, and whether an earlier run began it."""

    id: int
    resumed: bool


def choose_session(
    vault: Vault, request: ExtractRequest, run_id: str, *, now: datetime | None = None
) -> Chosen:
    """Begin a session, or go on with the newest one if it is unfinished and asked for the same."""
    unfinished = vault.sessions.unfinished(KIND)
    if unfinished is not None and _goes_on(vault, unfinished, request, now or datetime.now(UTC)):
        vault.sessions.resume(unfinished.id)
        return Chosen(unfinished.id, resumed=True)
    session = vault.sessions.begin(KIND, run_id=run_id, parameters=dict(request.scope))
    return Chosen(session, resumed=False)


def _goes_on(vault: Vault, old: Session, request: ExtractRequest, now: datetime) -> bool:
    if request.full or not request.resume:
        return False
    if dict(old.parameters) != dict(request.scope):
        return False
    if now - datetime.fromisoformat(old.started_at) > OLDEST:
        return False
    if old.status is not Status.PARTIAL or not old.summary.get("resumed"):
        return True
    # Gone on with once already: what still fails then is not worth keeping from a new listing,
    # unless whole ranges are missing.
    return any(
        failure.session == old.id and failure.kind != ITEM for failure in vault.failures.open()
    )


def ending_of(status: str, *, cut_off: bool) -> Status:
    """The vault's word for how a run ended; what a stop or an outage cut off is gone on with."""
    if cut_off:
        return Status.INTERRUPTED
    return {"done": Status.DONE, "partial": Status.PARTIAL}.get(status, Status.FAILED)
