"""What a plan says, done: folders found there, items restored, what is gone put into the trash."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.looker.content_types import content_of
from headrace.looker.promote.plan import (
    WRITTEN,
    Change,
    PlannedItem,
    PromotionPlan,
    fingerprint,
    mark_kind,
)
from headrace.looker.restore.api import Api
from headrace.looker.restore.plan import Step, with_named
from headrace.looker.restore.report import ItemReport, RestoreOutcome, RestoreReport
from headrace.looker.restore.restorer import Restorer
from headrace.looker.vault import Vault
from headrace.stopping import STOP, StopEvent
from headrace.wire.exceptions import RequestError

if TYPE_CHECKING:
    from headrace.looker.client import LookerClient

log = logging.getLogger(__name__)

_WRITTEN = (RestoreOutcome.CREATED, RestoreOutcome.UPDATED, RestoreOutcome.ADOPTED)


class Promoter:
    """Does what a plan says.

    Args:
        vault: of the Looker that the folder is in.
        target: the other one.
        plan: what is to be done.
        remove: put what is not in the folder any more into the trash there.
        stop: looked at before each item.
        report: called with each outcome as it comes.
    """

    def __init__(
        self,
        vault: Vault,
        target: LookerClient,
        plan: PromotionPlan,
        *,
        remove: bool = False,
        stop: StopEvent = STOP,
        report: Callable[[ItemReport], None] = lambda _outcome: None,
    ) -> None:
        self._vault, self._plan, self._remove, self._stop = vault, plan, remove, stop
        self._api, self._report = Api(target), report
        self._restorer = Restorer(
            vault, target, force=True, given=plan.given, stop=stop, report=self._note
        )
        self._state = self._restorer.state

    @property
    def due(self) -> list[PlannedItem]:
        """What is to be written."""
        removed = (Change.REMOVED,) if self._remove else ()
        return self._plan.of(*WRITTEN, *removed)

    def run(self) -> RestoreReport:
        """Write; a run that was cut off goes on with what a new plan still finds to do.

        Raises:
            As `Restorer.run`.
        """
        self._find_folders()
        parameters = {"promote": self._plan.folder, "reading": self._plan.session}
        done = self._restorer.run(self._steps(), parameters=parameters)
        if self._remove and not done.stopped:
            for item in self._plan.of(Change.REMOVED):
                self._trash(item, done)
        return done

    def _steps(self) -> Iterator[Step]:
        """What is to be restored, each made ready right before its turn."""
        items = {(item.type, item.id): item for item in self._plan.of(*WRITTEN)}
        steps = [item.step for item in items.values() if item.step is not None]
        for step in with_named(self._vault, steps):
            if (item := items.get((step.type, step.id))) is not None:
                # Until it is complete there, no comparison can show a user's change.
                self._state.forget(mark_kind(item.type), item.id)
                if item.taken:
                    self._state.record(
                        self._plan.session, item.type, item.id, item.new_id, b"", complete=False
                    )
            yield step

    def _find_folders(self) -> None:
        """Take folders of the same name for ours, so that what lies in them finds them."""
        for item in self._plan.of(Change.UNCHANGED):
            if item.type == "folder" and item.new_id:
                stored = self._vault.contents.body("folder", item.id)
                self._state.record(
                    self._plan.session, "folder", item.id, item.new_id, stored.hash, complete=True
                )
                if self._state.entry(mark_kind("folder"), item.id) is None:
                    self._mark("folder", item.id, item.new_id)

    def _note(self, outcome: ItemReport) -> None:
        if outcome.how in _WRITTEN and outcome.type in ("folder", "look", "dashboard"):
            try:
                self._mark(outcome.type, outcome.id, outcome.new_id)
            except RequestError as error:
                # It is there; without a mark the next run writes it once more.
                log.warning("%s %s: not looked at again: %s", outcome.type, outcome.id, error)
        self._report(outcome)

    def _mark(self, type_: str, item_id: str, new_id: str) -> None:
        """Remember what it is here, and what it has become there."""
        here = json.loads(self._vault.contents.body(type_, item_id).body)
        there = self._api.get(content_of(type_).item_path(new_id))
        mark = fingerprint(type_, here) + fingerprint(type_, there)
        self._state.record(
            self._plan.session, mark_kind(type_), item_id, new_id, mark, complete=True
        )

    def _trash(self, item: PlannedItem, done: RestoreReport) -> None:
        path = content_of(item.type).item_path(item.new_id)
        try:
            self._api.put("PATCH", path, {"deleted": True})
        except RequestError as error:
            outcome = ItemReport(item.type, item.id, RestoreOutcome.FAILED, reason=str(error))
        else:
            self._state.forget(item.type, item.id)
            self._state.forget(mark_kind(item.type), item.id)
            outcome = ItemReport(item.type, item.id, RestoreOutcome.REMOVED, item.new_id)
        done.add(outcome)
        self._report(outcome)
