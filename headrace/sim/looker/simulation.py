"""A running simulated Looker without its sockets: what a request meets, and what tests turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from headrace.sim.actions import Refuse, delivery, substitute
from headrace.sim.arrivals import Arrival, ArrivalLog
from headrace.sim.http import Reply, Request
from headrace.sim.latency import LatencySource
from headrace.sim.limits import Gate
from headrace.sim.looker.api import Answer, LookerApi
from headrace.sim.looker.changes import Change
from headrace.sim.looker.faults import Error, LookerFault, LookerFaults, Revoke, Slow, in_force_at
from headrace.sim.looker.library import Library
from headrace.sim.looker.routes import segments, subject_of
from headrace.sim.looker.settings import LookerSettings
from headrace.sim.looker.tokens import TokenDesk, error_reply

_UNANSWERED = ("hang", "reset")
_LOGOUTS = ("/api/4.0/logout", "/api/logout")


class LookerSimulation:
    """State and behaviour of one simulated Looker.

    A request passes, in this order: the inbound share of its latency, the rate limits, the scripted
    faults, the check of its token, the API, and the rest of its latency.

    Args:
        settings: what it is.
        clock: seconds, for tokens, limits, intervals and the log. Latency passes in real time.
        wall: Unix seconds, for `Retry-After` dates.

    Attributes:
        library: the content.
        desk: the tokens.
    """

    def __init__(
        self,
        settings: LookerSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._wall = wall
        self._started_s = clock()
        self.library = Library(settings)
        self.desk = TokenDesk(settings, clock)
        self._api = LookerApi(self.library, settings.page_most)
        self._gate = Gate(settings.limits)
        self._latency = LatencySource(settings.latency, settings.seed)
        self._log = ArrivalLog()
        self._faults = LookerFaults(settings.seed)
        for fault in settings.faults:
            self._faults.add(fault)
        self._changes = list(settings.changes)
        self._read = 0

    async def handle(self, request: Request) -> Reply:
        """Answer one request of a client."""
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        arrival = self._log.opened(request.arrived_s, request.target, subject_of(request))
        status = None
        try:
            delay_s = self._latency.delay_s(arrival.number)
            inbound_s = delay_s * self._latency.model.inbound
            if inbound_s:
                await asyncio.sleep(inbound_s)
            arrival.counted_s = self.clock() if inbound_s else request.arrived_s
            answer, slow_s = self._judge(request, arrival)
            reply = answer.reply
            delay_s += slow_s + self._slowness_s(answer)
            if delay_s:
                await asyncio.sleep(max(0.0, arrived + delay_s - loop.time()))
            if reply.delivery.how not in _UNANSWERED:
                status = reply.status
            return reply
        finally:
            self._log.closed(arrival, status)

    def _judge(self, request: Request, arrival: Arrival) -> tuple[Answer, float]:
        assert arrival.counted_s is not None, "a request is counted before it is judged"
        refusal = self._gate.refuse(arrival.counted_s, self._wall())
        if refusal:
            return Answer(refusal), 0.0
        subject = subject_of(request)
        struck = self._faults.strike(subject, self.uptime_s())
        if struck is None:
            return self._answer(request), 0.0
        arrival.fault, fault = struck
        match fault.action:
            case Error(status=status, message=message):
                path = "/".join(segments(request)[:1])
                return Answer(error_reply(status, message, request.method.lower(), path)), 0.0
            case Revoke():
                self.desk.revoke()
                return self._answer(request), 0.0
            case Slow(s=slow_s):
                return self._answer(request), slow_s
        if instead := substitute(fault.action):
            return Answer(instead), 0.0
        answer = self._answer(request)
        way = delivery(fault.action)
        return replace(answer, reply=replace(answer.reply, delivery=way)), 0.0

    def _answer(self, request: Request) -> Answer:
        if request.path == "/api/4.0/login" and request.method == "POST":
            return Answer(self.desk.login(request))
        if request.path in _LOGOUTS and request.method == "DELETE":
            return Answer(self.desk.logout(request))
        refusal = self.desk.refuse(request)
        if refusal:
            return Answer(refusal)
        answer = self._api.answer(request)
        if request.method == "GET":
            self._read += 1
            self._happen()
        return answer

    def _happen(self) -> None:
        due = [change for change in self._changes if change.after <= self._read]
        for change in due:
            self._changes.remove(change)
            change.apply(self.library)

    def _slowness_s(self, answer: Answer) -> float:
        slow = self.settings.slow
        if not slow:
            return 0.0
        return sum(slow.get(f"{kind}:{item_id}", 0.0) for kind, item_id in answer.holds)

    def uptime_s(self) -> float:
        """Seconds since the start, on the simulation's clock."""
        return self.clock() - self._started_s

    def refuses_connections(self) -> bool:
        """Whether a `Refuse` fault is in force now."""
        uptime_s = self.uptime_s()
        return any(
            isinstance(fault.action, Refuse) and in_force_at(fault, uptime_s)
            for fault in self._faults.in_force().values()
        )

    def add_change(self, change: Change) -> None:
        """Have the content change later; `after` counts from the start of the server."""
        self._changes.append(change)

    @property
    def read(self) -> int:
        """How many listings and look-ups were answered so far."""
        return self._read

    def add_fault(self, fault: LookerFault) -> int:
        """Put a fault in force; returns its number."""
        return self._faults.add(fault)

    def remove_fault(self, number: int) -> None:
        """Lift one fault."""
        self._faults.remove(number)

    def clear_faults(self) -> None:
        """Lift every fault."""
        self._faults.clear()

    def faults(self) -> dict[int, LookerFault]:
        """The faults in force by number."""
        return self._faults.in_force()

    def stats(self, windows_s: Sequence[float] = (1.0,)) -> dict[str, Any]:
        """Counts of requests, statuses, types, logins, faults; the fullest window per length."""
        hits = {str(number): hits for number, hits in self._faults.hits().items()}
        return {
            "uptime_s": self.uptime_s(),
            **self._log.stats(windows_s),
            "read": self._read,
            "logins": self.desk.logins,
            "logins_refused": self.desk.refused,
            "fault_hits": hits,
        }

    def arrivals(self) -> list[Arrival]:
        """The requests that arrived, oldest first."""
        return self._log.arrivals()

    def reset_log(self) -> None:
        """Forget the requests so far; faults, content and limits stay as they are."""
        self._log.reset()
