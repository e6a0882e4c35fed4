"""A simulated Looker: what a request meets on its way, what tests change, and its servers.

Its control endpoint (`headrace.sim.control`) has, beside what every simulation has:

| request | what it does |
|---|---|
| `GET ids?kind=KIND[&trash=1]` | ids of a kind, in order |
| `GET body?kind=KIND&id=ID` | an item's body, as text |
| `POST edit` | `{"kind", "id", "fields"}` |
| `POST put` | `{"kind", "id", "body"}`: serve this text |
| `POST create` | `{"kind", "fields", "id"}` |
| `POST trash`, `POST remove` | `{"kind", "id"}` |
| `POST changes` | a change to come |
| `POST revoke` | revoke every token |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, Field

from headrace.sim.actions import Slow, delivery, substitute
from headrace.sim.arrivals import Arrival
from headrace.sim.exceptions import UnknownCommand
from headrace.sim.http import Request
from headrace.sim.looker.api import Answer, LookerApi
from headrace.sim.looker.faults import Error, LookerFault, LookerSubject, Revoke
from headrace.sim.looker.library import Library
from headrace.sim.looker.routes import segments, subject_of
from headrace.sim.looker.settings import Change, LookerSettings, parse_change
from headrace.sim.looker.tokens import TokenStore, error_reply
from headrace.sim.process import ChildServer
from headrace.sim.service import SimulatedService, Verdict
from headrace.sim.serving import ThreadedServer

_LOGOUTS = ("/api/4.0/logout", "/api/logout")


class LookerSimulation(SimulatedService[LookerFault]):
    """State and behaviour of one simulated Looker.

    A request is judged in this order: the rate limits, the scripted faults, its token, the API.

    Args:
        settings: what it is.
        clock: seconds, for tokens, limits, intervals and the log. Latency passes in real time.

    Attributes:
        library: the content.
        tokens: the logins.
    """

    fault_class = LookerFault

    def __init__(
        self, settings: LookerSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(settings, clock)
        self.settings = settings
        self.library = Library(settings)
        self.tokens = TokenStore(settings, clock)
        self._api = LookerApi(self.library, settings.page_most)
        self._changes = list(settings.changes)
        self._read = 0

    def _subject(self, request: Request) -> LookerSubject:
        return subject_of(request)

    def _judge(self, request: Request, arrival: Arrival, counted_s: float) -> Verdict:
        refusal = self._gate.refuse(counted_s, time.time())
        if refusal:
            return Verdict(refusal)
        struck = self._faults.strike(self._subject(request), self.uptime_s())
        if struck is None:
            return self._verdict(self._answer(request))
        arrival.fault, fault = struck
        match fault.action:
            case Error(status=status, message=message):
                path = "/".join(segments(request)[:1])
                return Verdict(error_reply(status, message, request.method.lower(), path))
            case Revoke():
                self.tokens.revoke()
                return self._verdict(self._answer(request))
            case Slow(s=slow_s):
                return self._verdict(self._answer(request), slow_s)
        if instead := substitute(fault.action):
            return Verdict(instead)
        verdict = self._verdict(self._answer(request))
        reply = replace(verdict.reply, delivery=delivery(fault.action))
        return verdict._replace(reply=reply)

    def _verdict(self, answer: Answer, slow_s: float = 0.0) -> Verdict:
        """With what the settings say about slow bodies."""
        slow = self.settings.slow
        if slow:
            slow_s += sum(slow.get(f"{kind}:{item_id}", 0.0) for kind, item_id in answer.holds)
        return Verdict(answer.reply, slow_s)

    def _answer(self, request: Request) -> Answer:
        if request.path == "/api/4.0/login" and request.method == "POST":
            return Answer(self.tokens.login(request))
        if request.path in _LOGOUTS and request.method == "DELETE":
            return Answer(self.tokens.logout(request))
        refusal = self.tokens.refuse(request)
        if refusal:
            return Answer(refusal)
        answer = self._api.answer(request)
        if request.method == "GET":
            self._read += 1
            self._apply_due_changes()
        return answer

    def _apply_due_changes(self) -> None:
        due = [change for change in self._changes if change.after <= self._read]
        for change in due:
            self._changes.remove(change)
            self.library.apply(change)

    def add_change(self, change: Change) -> None:
        """Have the content change later; `after` counts from the start of the server."""
        self._changes.append(change)

    @property
    def read(self) -> int:
        """How many listings and look-ups were answered so far."""
        return self._read

    def stats(self, windows_s: Sequence[float] = (1.0,)) -> dict[str, Any]:
        """Counts as for every service, with content read and logins; products are types."""
        return {
            **super().stats(windows_s),
            "read": self._read,
            "logins": self.tokens.logins,
            "logins_refused": self.tokens.refused,
        }

    def read_state(self, command: str, query: Mapping[str, str]) -> object:
        """See `SimulatedService.read_state`."""
        match command:
            case "ids":
                return self.library.ids(query.get("kind", ""), trash="trash" in query)
            case "body":
                body = self.library.body(query.get("kind", ""), query.get("id", ""))
                return {"body": None if body is None else body.decode("latin-1")}
            case _:
                raise UnknownCommand

    def change_state(self, command: str, body: bytes) -> None:
        """See `SimulatedService.change_state`."""
        if command == "changes":
            self.add_change(Change.model_validate_json(body))
            return
        if command == "revoke":
            self.tokens.revoke()
            return
        if command not in ("edit", "put", "create", "trash", "remove"):
            raise UnknownCommand
        item = _ItemBody.model_validate_json(body)
        match command:
            case "edit":
                self.library.edit(item.kind, item.id, **item.fields)
            case "put":
                self.library.put(item.kind, item.id, item.body.encode("latin-1"))
            case "create":
                self.library.create(item.kind, item.fields, item.id)
            case "trash":
                self.library.trash(item.kind, item.id)
            case _:
                self.library.remove(item.kind, item.id)


class _ItemBody(BaseModel, extra="forbid"):
    """Body of what is done to one item."""

    kind: str
    id: str = ""
    fields: dict[str, Any] = Field(default_factory=dict)
    body: str = ""


class SimulatedLooker(ThreadedServer[LookerFault]):
    """A simulated Looker on a thread of this process; a context manager.

    Args:
        clock: seconds, for tokens, limits, intervals and the log.
        settings: fields of `LookerSettings`.

    Attributes:
        library: the content, to look at and to change.

    Raises:
        SpecError: a setting that cannot be used.
        PortInUseError: on entry, when the port is taken.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, **settings: Any) -> None:
        self.settings = LookerSettings.of(**settings)
        self.simulation = LookerSimulation(self.settings, clock=clock)
        self.library = self.simulation.library
        super().__init__("simulated Looker", self.simulation, port=self.settings.port)

    def add_change(self, change: Change | str) -> None:
        """Have the content change after so many more listings and look-ups."""
        change = parse_change(change) if isinstance(change, str) else change
        after = change.after + self.simulation.read
        self.simulation.add_change(change.model_copy(update={"after": after}))

    def revoke_tokens(self) -> None:
        """Revoke every token."""
        self.simulation.tokens.revoke()


class SimulatedLookerProcess(ChildServer[LookerFault]):
    """A simulated Looker as a child process; a context manager.

    Args:
        cpu: pin the child to this core, where the system can.
        settings: fields of `LookerSettings`.

    Raises:
        SpecError: a setting that cannot be used.
        ServerStartError: on entry, when the child does not come up.
    """

    def __init__(self, *, cpu: int | None = None, **settings: Any) -> None:
        self.settings = LookerSettings.of(**settings)
        super().__init__("looker", self.settings, LookerFault, LookerSubject, cpu=cpu)
        #: What is generated; changes made over the wire are not in it.
        self.library = Library(self.settings)

    def edit(self, kind: str, item_id: str, **fields: Any) -> None:
        """Change fields of an item."""
        self._control("POST", "edit", {"kind": kind, "id": item_id, "fields": fields})

    def remove(self, kind: str, item_id: str) -> None:
        """Delete an item for good."""
        self._control("POST", "remove", {"kind": kind, "id": item_id})
