"""A simulated service without its sockets: a request's way through it, and what tests turn."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from headrace.sim.arrivals import About, Arrival, ArrivalLog
from headrace.sim.faults import F, FaultBook, ScriptedFault
from headrace.sim.http import Reply, Request
from headrace.sim.latency import Latency, LatencySource
from headrace.sim.limits import Gate, Limit

F_co = TypeVar("F_co", bound=ScriptedFault, covariant=True)

_UNANSWERED = ("hang", "reset")


class Verdict(NamedTuple):
    """A reply, and by how many seconds it comes later than the latency says."""

    reply: Reply
    slow_s: float = 0.0


class ServiceSettings(Protocol[F_co]):
    """What the settings of every simulated service hold."""

    @property
    def seed(self) -> int:
        """Of latencies and faults."""

    @property
    def latency(self) -> Latency:
        """How long answers take."""

    @property
    def limits(self) -> Sequence[Limit]:
        """Rate limits, all of which must hold."""

    @property
    def faults(self) -> Sequence[F_co]:
        """In force from the start."""


class SimulatedService(ABC, Generic[F]):
    """Latency, limits, faults and the log, of whatever is simulated; a subclass judges requests.

    A request passes, in this order: the inbound share of its latency, the judgement (which begins
    with the rate limits), and the rest of its latency.

    Args:
        settings: what it is.
        clock: seconds, for limits, intervals and the log. Latency passes in real time.
    """

    #: What its faults are; text is read by `fault_class.parse`.
    fault_class: type[F]

    def __init__(self, settings: ServiceSettings[F], clock: Callable[[], float]) -> None:
        self.clock = clock
        self._started_s = clock()
        self._gate = Gate(settings.limits)
        self._latency = LatencySource(settings.latency, settings.seed)
        self._log = ArrivalLog()
        self._faults: FaultBook[F] = FaultBook(settings.seed)
        for fault in settings.faults:
            self._faults.add(fault)

    @abstractmethod
    def _subject(self, request: Request) -> About:
        """What a request is about; never raises."""

    @abstractmethod
    def _judge(self, request: Request, arrival: Arrival, counted_s: float) -> Verdict:
        """The answer to a request that the limits see at `counted_s`."""

    @abstractmethod
    def read_state(self, command: str, query: Mapping[str, str]) -> object:
        """Answer `GET /_sim/COMMAND` where only this simulation knows it.

        Raises:
            UnknownCommand: there is no such command.
        """

    @abstractmethod
    def change_state(self, command: str, body: bytes) -> None:
        """Do `POST /_sim/COMMAND` where only this simulation can.

        Raises:
            UnknownCommand: there is no such command.
        """

    def _delays_s(self, number: int) -> tuple[float, float]:
        """How long a request is on its way here, and the whole delay of its answer, in seconds."""
        delay_s = self._latency.delay_s(number)
        return delay_s * self._latency.model.inbound, delay_s

    async def handle(self, request: Request) -> Reply:
        """Answer one request of a client."""
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        arrival = self._log.opened(request.arrived_s, request.target, self._subject(request))
        status = None
        try:
            inbound_s, delay_s = self._delays_s(arrival.number)
            counted_s = request.arrived_s
            if inbound_s:
                await asyncio.sleep(inbound_s)
                # A timer that fires late is this machine's fault, not the network's.
                counted_s = self.clock() - max(0.0, loop.time() - arrived - inbound_s)
            arrival.counted_s = counted_s
            reply, slow_s = self._judge(request, arrival, counted_s)
            delay_s += slow_s
            if delay_s:
                await asyncio.sleep(max(0.0, arrived + delay_s - loop.time()))
            if reply.delivery.how not in _UNANSWERED:
                status = reply.status
            return reply
        finally:
            self._log.closed(arrival, status)

    def uptime_s(self) -> float:
        """Seconds since the start, on the simulation's clock."""
        return self.clock() - self._started_s

    def refuses_connections(self) -> bool:
        """Whether a `Refuse` fault is in force now."""
        return self._faults.refuses_at(self.uptime_s())

    def add_fault(self, fault: F) -> int:
        """Put a fault in force; returns its number."""
        return self._faults.add(fault)

    def remove_fault(self, number: int) -> None:
        """Lift one fault."""
        self._faults.remove(number)

    def clear_faults(self) -> None:
        """Lift every fault."""
        self._faults.clear()

    def faults(self) -> dict[int, F]:
        """The faults in force by number."""
        return self._faults.in_force()

    def stats(self, windows_s: Sequence[float] = (1.0,)) -> dict[str, Any]:
        """Counts of requests, statuses, products, faults; the fullest window of each length."""
        hits = {str(number): hits for number, hits in self._faults.hits().items()}
        return {"uptime_s": self.uptime_s(), **self._log.stats(windows_s), "fault_hits": hits}

    def arrivals(self) -> list[Arrival]:
        """The requests that arrived, oldest first."""
        return self._log.arrivals()

    def reset_log(self) -> None:
        """Forget the requests so far; all else stays as it is."""
        self._log.reset()
