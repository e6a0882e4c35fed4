"""A restore: item by item, nothing before what it needs.

An item that fails costs itself and what needs it. At every moment the vault says what is there, so
that a killed run goes on where it was: what it was about to make is looked for by its name before
it is made again, and what was made without its parts gets them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigurationError, HeadraceError
from headrace.looker.content_types import SEPARATOR, content_of
from headrace.looker.exceptions import NotRestorable, TakenByAnother
from headrace.looker.restore.access import SYNCHRONISED, synchronise
from headrace.looker.restore.api import Api
from headrace.looker.restore.fields import Fields, alike
from headrace.looker.restore.memberships import Memberships
from headrace.looker.restore.plan import Step
from headrace.looker.restore.report import ItemReport, RestoreOutcome, RestoreReport
from headrace.looker.restore.state import Entry, Ids, RestoreState
from headrace.looker.restore.target import Finder, Target
from headrace.looker.restore.writer import Writer
from headrace.looker.vault import Body, Status, Vault, VaultDamaged
from headrace.looker.vault.secrets import without_secrets
from headrace.quota import OutageError, QuotaUnavailable
from headrace.stopping import STOP, StopEvent, Stopped
from headrace.wire.exceptions import RequestError, RequestRefused

if TYPE_CHECKING:
    from headrace.looker.client import LookerClient


#: What people wrote: not taken for another's of the same name unless they say so.
_AUTHORED = ("look", "dashboard", "board", "scheduled_plan", "alert")
_KIND = "restore"
_LEFT_OUT = "left out: "


class Restorer:
    """Restores from a vault into one Looker.

    Args:
        vault: what to restore from.
        client: of the target, with its quota.
        overwrite: take looks and dashboards of the same title at the same place for ours.
        force: write also what is as it was restored before.
        enable_schedules: switch schedules and alerts on in another Looker if they are on in the
            vault.
        given: ids at the target of what is there without a restore, by type and id.
        stop: looked at before each item.
        report: called with each outcome as it comes.
    """

    def __init__(
        self,
        vault: Vault,
        client: LookerClient,
        *,
        overwrite: bool = False,
        force: bool = False,
        enable_schedules: bool = False,
        given: Mapping[tuple[str, str], str] | None = None,
        stop: StopEvent = STOP,
        report: Callable[[ItemReport], None] = lambda _outcome: None,
    ) -> None:
        self._vault = vault
        self._state = RestoreState(vault, client.source)
        same = vault.source == client.source
        self._ids = Ids(self._state, same=same, given=given)
        self._api = Api(client)
        self._writer = Writer(self._api, self._ids, enable_schedules=enable_schedules)
        finder = Finder(vault, self._ids, self._writer)
        self._target = Target(self._api, finder, same, self._writer.leave_out)
        self._memberships = Memberships(vault, self._state, self._api, self._ids)
        self._overwrite, self._force = overwrite, force
        self._stop, self._report = stop, report
        self._session = 0

    @property
    def same(self) -> bool:
        """Whether the target is the Looker that the vault is of."""
        return self._ids.same

    @property
    def state(self) -> RestoreState:
        """What was restored into the target."""
        return self._state

    def expected(self, step: Step) -> RestoreOutcome:
        """What `step` would come to, as far as that is known without asking."""
        if _of_lookml(step):
            return RestoreOutcome.SKIPPED
        entry = self._state.entry(step.type, step.id)
        if entry is None:
            if step.type == "connection":
                return RestoreOutcome.ADOPTED  # if it is there; it is never made
            made = not self._ids.same and step.type not in SYNCHRONISED
            return RestoreOutcome.CREATED if made else RestoreOutcome.UPDATED
        return (
            RestoreOutcome.UNCHANGED
            if entry.complete and entry.hash == step.hash
            else RestoreOutcome.UPDATED
        )

    def run(self, steps: Iterable[Step], *, parameters: dict[str, Any]) -> RestoreReport:
        """Restore every step; go on with the last run of the same parameters if it was cut off.

        Raises:
            ConfigurationError: the target refuses the login.
            OutageError: the target is down for longer than the quota waits.
            VaultDamaged, QuotaUnavailable: nothing can be relied on.
        """
        parameters = {"target": self._state.target, **parameters}
        self._session = self._begin(parameters)
        done = RestoreReport(self._session)
        try:
            self._all(steps, done)
        except Stopped:
            done.stopped = True
        except BaseException:
            self._vault.sessions.end(self._session, Status.FAILED)
            raise
        summary = {name: dict(counts) for name, counts in done.counts.items()}
        self._vault.sessions.end(self._session, done.status, summary=summary)
        return done

    def _begin(self, parameters: dict[str, Any]) -> int:
        last = self._vault.sessions.unfinished(_KIND)
        cut_off = (Status.RUNNING, Status.INTERRUPTED, Status.FAILED)
        if last is not None and last.status in cut_off and last.parameters == parameters:
            self._vault.sessions.resume(last.id)
            return last.id
        return self._vault.sessions.begin(_KIND, parameters=parameters)

    def _all(self, steps: Iterable[Step], done: RestoreReport) -> None:
        types: set[str] = set()
        for step in steps:
            self._stop.check()
            types.add(step.type)
            self._note(done, self._guarded(step.type, step.id, partial(self._one, step)))
        for due in self._memberships.due(self._session, types):
            self._stop.check()
            self._note(done, self._guarded(due.type, due.id, due.run))

    def _note(self, done: RestoreReport, outcome: ItemReport) -> None:
        done.add(outcome)
        self._report(outcome)

    def _guarded(self, type_: str, item_id: str, work: Callable[[], ItemReport]) -> ItemReport:
        """Do it; what is wrong with this one item becomes an outcome."""
        self._writer.begin()
        try:
            return self._named(work())
        except (ConfigurationError, OutageError, Stopped, VaultDamaged, QuotaUnavailable):
            raise
        except HeadraceError as error:
            status = error.status if isinstance(error, RequestError) else None
            reason = str(error)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # A body, ours or the server's, that is not shaped as the API says.
            status, reason = None, f"a body has another shape than expected ({error!r})"
        self._state.fail(self._session, type_, item_id, status, reason)
        return ItemReport(type_, item_id, RestoreOutcome.FAILED, reason=reason)

    def _named(self, outcome: ItemReport) -> ItemReport:
        """The outcome with what was left out, which the vault keeps as long as it is not there."""
        left_out = (*outcome.left_out, *self._writer.left_out)
        if not left_out:
            return outcome
        words = "; ".join(left_out)
        self._state.fail(self._session, outcome.type, outcome.id, None, f"{_LEFT_OUT}{words}")
        return replace(outcome, left_out=left_out)

    def _one(self, step: Step) -> ItemReport:
        if _of_lookml(step):
            reason = "it comes from LookML; deploy the project to have it there"
            return ItemReport(step.type, step.id, RestoreOutcome.SKIPPED, reason=reason)
        entry = self._state.entry(step.type, step.id)
        done = entry and entry.complete and entry.session == self._session
        if entry and done and entry.hash == step.hash:
            # An earlier run of the session did it, before it was cut off.
            left_out = self._still_left_out(step)
            return ItemReport(
                step.type, step.id, RestoreOutcome.UNCHANGED, entry.new_id, left_out=left_out
            )
        stored = self._vault.contents.body(step.type, step.id, version=step.version)
        body = _parsed(stored)
        if step.type in SYNCHRONISED:
            return self._synchronised(stored, body, entry)
        new_id = entry.new_id if entry else (step.id if self._ids.same else None)
        there = self._api.item(step.type, new_id) if new_id else None
        immutable = bool(content_of(step.type).named_by)  # one that differs is made by another id
        if new_id and there is not None:
            if entry and not entry.complete and not immutable:
                return self._update(stored, body, new_id, RestoreOutcome.CREATED)
            if self._is_right(stored, there, entry.hash if entry else None):
                left_out = self._still_left_out(step)
                self._record(stored, new_id)
                if step.type == "user" and self._ids.same:
                    self._memberships.settled(self._session, step.id)
                return ItemReport(
                    step.type, step.id, RestoreOutcome.UNCHANGED, new_id, left_out=left_out
                )
            if not immutable:
                return self._update(stored, body, new_id, RestoreOutcome.UPDATED)
        if entry:
            self._state.forget(step.type, step.id)
        return self._make(stored, body)

    def _synchronised(self, stored: Body, body: Fields, entry: Entry | None) -> ItemReport:
        synced = synchronise(self._target, stored.type, stored.id, body)
        self._record(stored, synced.new_id)
        known = self._ids.same or entry is not None
        how = RestoreOutcome.UNCHANGED if known else RestoreOutcome.ADOPTED
        if synced.changed:
            how = RestoreOutcome.UPDATED
        return ItemReport(stored.type, stored.id, how, synced.new_id)

    def _still_left_out(self, step: Step) -> tuple[str, ...]:
        """What an earlier restore could not carry over."""
        message = self._state.failure(step.type, step.id) or ""
        if not message.startswith(_LEFT_OUT):
            return ()
        return tuple(message.removeprefix(_LEFT_OUT).split("; "))

    def _is_right(self, stored: Body, there: bytes, restored: bytes | None) -> bool:
        if self._force and not content_of(stored.type).named_by:
            return False
        if self._ids.same:
            there_now: Fields = json.loads(without_secrets(stored.type, there))
            return alike(stored.type, there_now, self._ids.on_its_tile(_parsed(stored)))
        return restored == stored.hash

    def _make(self, stored: Body, body: Fields) -> ItemReport:
        type_, item_id = stored.type, stored.id
        built_in = self._writer.built_in(type_, body)
        if built_in is not None:
            self._record(stored, built_in)
            return ItemReport(type_, item_id, RestoreOutcome.ADOPTED, built_in)
        fields = self._writer.fields(type_, body)
        if self._state.intended(type_, item_id):
            # A run was killed, or lost the answer, at this very item.
            found = self._free(type_, self._writer.named(type_, fields, body))
            if found is not None:
                return self._update(stored, body, found, RestoreOutcome.CREATED)
        self._state.intend(type_, item_id)
        try:
            new_id = self._writer.create(type_, fields, body)
        except RequestRefused as refusal:
            self._state.refused(type_, item_id)
            found = self._free(type_, self._writer.named(type_, fields, body))
            if found is None:
                raise
            if type_ in _AUTHORED and not self._overwrite:
                title = body.get("title") or body.get("custom_title")
                raise TakenByAnother(type_, str(title), found) from refusal
            return self._update(stored, body, found, RestoreOutcome.ADOPTED)
        self._record(stored, new_id, complete=False)
        self._writer.fill(type_, new_id, body, fresh=True)
        self._record(stored, new_id)
        return ItemReport(type_, item_id, RestoreOutcome.CREATED, new_id)

    def _update(self, stored: Body, body: Fields, new_id: str, how: RestoreOutcome) -> ItemReport:
        fields = self._writer.fields(stored.type, body)
        self._record(stored, new_id, complete=False)
        self._writer.update(stored.type, new_id, fields, body)
        self._writer.fill(stored.type, new_id, body, fresh=False)
        self._record(stored, new_id)
        return ItemReport(stored.type, stored.id, how, new_id)

    def _free(self, type_: str, new_id: str | None) -> str | None:
        """`new_id` unless another item of the vault is that one there."""
        return new_id if new_id and self._state.taken_by(type_, new_id) is None else None

    def _record(self, stored: Body, new_id: str, *, complete: bool = True) -> None:
        if stored.type == "user" and not complete:
            self._memberships.unsettled(stored.id)
        self._state.record(
            self._session, stored.type, stored.id, new_id, stored.hash, complete=complete
        )


def _of_lookml(step: Step) -> bool:
    return step.type == "dashboard" and SEPARATOR in step.id


def _parsed(stored: Body) -> Fields:
    try:
        body: Fields = json.loads(stored.body)
    except (ValueError, RecursionError) as error:
        raise NotRestorable(f"its body does not parse ({error})") from error
    return body
