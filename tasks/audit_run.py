"""An audit under way: everything its tasks share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from blocks.checkpoint import BlockCheckpoints
from blocks.resolve import lake_of, signing_key_of
from headrace.audit.healing import Healer
from headrace.audit.request import AuditRequest
from headrace.audit.signing import Signing
from headrace.evidence.keys import SigningKey, signing_key
from headrace.lake import RawLake
from headrace.lake.answer_evidence import Answer
from headrace.manifests.anchored import AnchorReport, hold_against
from headrace.manifests.chain import opening as opening_statements
from headrace.manifests.chain import sealing
from headrace.manifests.lakes import LakeManifests
from headrace.products.choice import Chosen, to_look_at
from headrace.pull.ledger import EXCHANGE
from headrace.run.progress import StepProgress
from headrace.sot.anchors.places import LAKE, AnchorPlace, open_places
from headrace.stopping import StopEvent
from tasks.kernel import Opening, PipelineRun, ProgressArtifact, announce, opening, registered
from tasks.pull_run import Run, open_run


@dataclass(kw_only=True)
class Audit(PipelineRun[AuditRequest]):
    """One run of an audit. Made by `open_audit`, closed with it.

    Args:
        chosen: the products that are audited, in this order, and how they were named.
        location: the lake, as it calls itself.
        pull: everything that a pull of the products needs; None for an audit offline.
        progress: products looked at and repaired, shown in the UI by `bar`.
        manifests: what has been signed of the lake.
        key: signs manifests, if that was asked for.
        places: where heads of the lake are kept.
        anchors: what they said of the lake when the audit began.
        known: newest ids that the exchange has given already; they are not requested again.
        answers: the newest pages that showed them.
    """

    chosen: Chosen
    location: str
    lake: RawLake
    checkpoints: BlockCheckpoints
    manifests: LakeManifests
    key: SigningKey | None
    places: tuple[AnchorPlace, ...]
    anchors: tuple[AnchorReport, ...]
    pull: Run | None
    progress: StepProgress
    bar: ProgressArtifact
    known: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def products(self) -> tuple[str, ...]:
        """What is audited, in this order."""
        return self.chosen.products

    @property
    def pending_since(self) -> datetime | None:
        """From when on trades may be missing still: the same moment for both looks of a healing."""
        return None if self.request.lag is None else self.began - self.request.lag

    @property
    def over(self) -> StopEvent:
        """Set when the audit is to end: on request, or since nothing more would be answered."""
        return self.pull.over if self.pull else self.stop

    @property
    def requests(self) -> int:
        """Requests sent to the exchange so far."""
        return self.pull.client.stats.requests if self.pull else 0

    def status_words(self) -> list[str]:
        """What the exchange is asked, if it is asked at all."""
        return self.pull.status_words() if self.pull else []

    @property
    def signing(self) -> Signing:
        """What signs products of this lake."""
        if self.key is None:
            raise RuntimeError("an audit that signs needs a key")
        return Signing(
            self.lake,
            self.manifests,
            sealing(self.key),
            accept=self.request.accept,
            deep=self.request.deep,
            stop=self.stop,
        )

    @property
    def healer(self) -> Healer:
        """What repairs products of this lake."""
        return Healer(
            self.lake,
            self.checkpoints,
            self.id,
            client=self.pull.client if self.pull else None,
            deep=self.request.deep,
            stop=self.stop,
        )


@contextmanager
def open_audit(request: AuditRequest) -> Iterator[Audit]:
    """Everything that an audit needs; a lake that is not there is not made.

    Raises:
        NothingStored, NotInLake, NothingChosen: there is nothing to look at.
        LakeUnusable: the lake is a file, or cannot be reached.
        AnchorsMissing: a file of anchors does not exist, and no head is going to be put there.
        KeyMissing: there is no key to sign with.
        ConfigurationError, StateError: something cannot be used.
        ConnectionFailed: nothing listens at the exchange's address.
    """
    place = signing_key_of(request.key)
    key = signing_key(place) if request.sign else None
    public = place.public()
    places = tuple(open_places(request.anchors, LAKE, there=not request.sign))
    block = lake_of(request.lake)
    store = block.store()
    # What a set names and nothing is stored of is missing, by what the exchange says.
    chosen = to_look_at(request, store, EXCHANGE, strict=request.offline)
    products = chosen.products
    checkpoints = BlockCheckpoints(store.location)
    with ExitStack() as opened:
        begun: Opening | Run
        if request.offline:
            begun = opened.enter_context(opening())
            run_id, pull, lake = begun.run_id, None, block.open().raw(EXCHANGE)
        else:
            begun = pull = opened.enter_context(open_run(request.pull_of(products)))
            run_id, lake = pull.id, pull.lake
        progress = StepProgress("products", len(products))
        manifests = LakeManifests(
            store, EXCHANGE, opening_statements(public), trusted=bool(public.keys)
        )
        audit = Audit(
            id=run_id,
            request=request,
            settings=begun.settings,
            stop=begun.stop,
            chosen=chosen,
            location=store.location,
            lake=lake,
            checkpoints=checkpoints,
            manifests=manifests,
            key=key,
            places=places,
            anchors=tuple(hold_against(manifests, each) for each in places),
            pull=pull,
            progress=progress,
            bar=opened.enter_context(ProgressArtifact(progress)),
        )
        announce(audit)
        yield opened.enter_context(registered(audit))
