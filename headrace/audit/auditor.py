"""The audit of one product: what its checkpoint, its names and its footers say, held together."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from headrace.audit.against_manifest import change_findings, inspect_against
from headrace.audit.coverage import (
    Tally,
    checkpoint_findings,
    find_pending,
    gap_findings,
    load,
    tally,
)
from headrace.audit.findings import Finding, Kind
from headrace.audit.inspection import Inspection, inspect
from headrace.audit.parts import part_findings
from headrace.audit.report import ProductAudit
from headrace.errors import HeadraceError
from headrace.exchange.source import Source
from headrace.lake import RawLake
from headrace.lake.answer_evidence import Answer
from headrace.lake.exceptions import PartUnreadable
from headrace.manifests.exceptions import ManifestDamaged, ManifestMissing, ManifestTooNew
from headrace.manifests.lakes import LakeManifests, Stated
from headrace.pull.checkpoints import CheckpointStore
from headrace.pull.exceptions import AnotherHistory, LakeAhead
from headrace.pull.history_ends import find_newest_shown
from headrace.pull.ledger import source_host
from headrace.quota import Lane
from headrace.run.report import Status
from headrace.stopping import STOP, StopEvent
from headrace.wire.exceptions import RequestError


def run_audit(
    raw: RawLake,
    product: str,
    *,
    checkpoints: CheckpointStore,
    client: Source | None = None,
    delisted: bool = False,
    known: int | None = None,
    pending_since: datetime | None = None,
    manifests: LakeManifests | None = None,
    deep: bool = False,
    stop: StopEvent = STOP,
) -> ProductAudit:
    """Audit one product; nothing is written. What fails stands in the result, and is not raised.

    Args:
        raw: the lake.
        product: canonical id.
        checkpoints: what the product's checkpoint is compared with.
        client: asked for the newest page, with one request, and for that of the newest trade stored
            if the two do not overlap; None: the newest stored is the newest.
        delisted: the exchange lists the product no longer: the client is not asked, and a note says
            so.
        known: what the client has answered before; it is not asked again.
        pending_since: ids traded at or after this moment may still be missing; the client is asked
            which these are, if any is missing. None: no id may.
        manifests: the last one of the product is held against its parts, if there is one.
        deep: read every row and recompute order, uniqueness, counts and digests.
        stop: looked at before each part.
    """
    try:
        found = _compare(
            raw,
            product,
            checkpoints,
            None if delisted else client,
            known,
            pending_since,
            manifests,
            deep=deep,
            stop=stop,
        )
    except HeadraceError as error:
        return ProductAudit(product, Status.FAILED, error=str(error))
    if not delisted:
        return found
    message = "the exchange lists it no longer, and was not asked for more; its trades stay"
    return replace(found, findings=(*found.findings, Finding(Kind.DELISTED, product, message)))


def _compare(
    raw: RawLake,
    product: str,
    checkpoints: CheckpointStore,
    client: Source | None,
    known: int | None,
    pending_since: datetime | None,
    manifests: LakeManifests | None,
    *,
    deep: bool,
    stop: StopEvent,
) -> ProductAudit:
    # The order keeps runs that commit meanwhile from looking like damage: the lake is seen last.
    checkpoint = load(checkpoints, raw.exchange, product)
    answer, problem, another = None, "", None
    if known is None and client is not None:
        answer, problem, another = _shown_by_exchange(client, raw, product)
    shown = known or (answer.last if answer else 0)
    stated, unusable = _last_manifest(manifests, product)
    try:
        inspection, changes = inspect_against(
            raw, product, stated.entries if stated else (), deep=deep, stop=stop
        )
    except PartUnreadable as error:
        # Its footer is sound, and what was to be compared with the manifest is not.
        repair = f"headrace audit {product} --deep --heal sets the file aside and fetches its range"
        unusable = Finding(Kind.UNREADABLE, product, error.message, repair)
        inspection, changes = inspect(raw, product, stop=stop), []
    if client is not None and not problem:
        problem = _other_source(inspection, source_host(client.source))
    if problem:
        shown, answer = 0, None
    newest = max(shown, inspection.listing.coverage.last or 0)
    counted = tally(inspection, newest)
    if client is not None and pending_since is not None and not problem:
        counted, problem = _without_pending(counted, client, product, pending_since)
    findings: list[Finding] = [
        *([another] if another else []),
        *part_findings(raw, product, inspection, deep=deep),
        *checkpoint_findings(product, checkpoint, counted),
        *gap_findings(product, counted),
        *([unusable] if unusable else []),
        *([_unchecked(product)] if stated and manifests and not manifests.trusted else []),
        *(change_findings(product, stated.manifest, changes) if stated else []),
    ]
    findings.sort(key=lambda finding: not finding.wrong)
    complete = not problem and not any(finding.wrong for finding in findings)
    return ProductAudit(
        product,
        Status.DONE if complete else Status.PARTIAL,
        parts=len(inspection.listing.parts),
        newest=newest,
        asked=client is not None and not problem and not another,
        newest_answer=answer,
        counted=counted,
        findings=tuple(findings),
        error=problem,
    )


def _shown_by_exchange(
    client: Source, raw: RawLake, product: str
) -> tuple[Answer | None, str, Finding | None]:
    """The newest page shown (None: no trade), why it is not known, or is another history's."""
    try:
        return find_newest_shown(client, raw, product, lane=Lane.BACKFILL), "", None
    except AnotherHistory as error:
        repair = "pull the new history into another lake (--lake)"
        message = f"the exchange shows another history: {error.reason}"
        return None, "", Finding(Kind.ANOTHER_HISTORY, product, message, repair)
    except PartUnreadable as error:
        return None, f"the newest trades stored cannot be compared: {error}", None
    except (RequestError, LakeAhead) as error:
        return None, f"the newest id is not known: {error}", None


def _last_manifest(
    manifests: LakeManifests | None, product: str
) -> tuple[Stated | None, Finding | None]:
    """The last manifest of the product, or why it cannot be used."""
    if manifests is None:
        return None, None
    try:
        return manifests.last(product), None
    except (ManifestDamaged, ManifestMissing, ManifestTooNew) as error:
        return None, Finding(Kind.MANIFEST_UNREADABLE, product, error.message, error.hint)


def _unchecked(product: str) -> Finding:
    message = "its manifest's signature was not checked: no list of public keys is here"
    repair = "name the key that signs (--key, HEADRACE_SIGNING_KEY)"
    return Finding(Kind.MANIFEST_UNCHECKED, product, message, repair)


def _without_pending(
    counted: Tally, client: Source, product: str, since: datetime
) -> tuple[Tally, str]:
    """What is missing without what is only pending, and why these could not be separated."""
    try:
        pending = find_pending(client, product, counted.missing, since)
    except RequestError as error:
        return counted, f"how old the missing trades are is not known: {error}"
    return replace(counted, missing=counted.missing - pending, pending=pending), ""


def _other_source(inspection: Inspection, host: str) -> str:
    """Why the exchange's newest id says nothing about this lake; empty if it does."""
    sources = {
        source
        for part in inspection.listing.parts
        if (footer := inspection.footer(part))
        for source in footer.sources
    }
    if not sources or host in sources:
        return ""
    return f"the trades stored are from {' and '.join(sorted(sources))}, not from {host}"
