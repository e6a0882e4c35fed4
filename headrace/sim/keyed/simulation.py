"""A simulated keyed exchange: what a request meets, what tests change, and its servers.

A request is `GET` or `POST /api/request` with `api_key`, `nonce` (a whole number) and, if wanted,
`req_id`, in its query, as a form or as a JSON object. The answer to one that is accepted is
`{"status": "OK", "timestamp": Unix ms, "req_id": …}` with the moment of its arrival; else
`{"status": "ERROR", "error_code": …, "error_msg": …}` with the HTTP status

| status | error_code | when |
|---|---|---|
| 401 | `E401` | the key is missing, unknown or blocked |
| 429 | `E429` | the key has had its limit within the last window, counted by arrival |
| 400 | `E400` | the nonce is no whole number, or not above the last one accepted |

checked in this order. What passes the limit counts for it, also where its nonce is refused. The
tenth 429 blocks a key for good. A scripted fault strikes before all of that.

Its control endpoint (`headrace.sim.control`) has, beside what every simulation has:

| request | what it does |
|---|---|
| `POST block`, `POST unblock` | `{"key": place}`, from 1; unblocking forgets the 429s |
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, Field

from headrace.sim.actions import Slow, delivery, substitute
from headrace.sim.arrivals import Arrival
from headrace.sim.exceptions import SpecError, UnknownCommand
from headrace.sim.exchange import integer_of
from headrace.sim.http import Reply, Request
from headrace.sim.keyed.settings import KeyedFault, KeyedSettings, KeyedSubject
from headrace.sim.latency import LatencySource
from headrace.sim.limits import Gauge, SlidingWindow
from headrace.sim.process import ChildServer
from headrace.sim.service import SimulatedService, Verdict
from headrace.sim.serving import ThreadedServer

PATH = "/api/request"


@dataclass(slots=True)
class KeyCounts:
    """What became of the requests of one key.

    Attributes:
        key: its place, from 1.
        accepted: answered OK.
        throttled: answers 429.
        bad_nonces: answers 400.
        refused: answers 401.
        blocked: whether it is blocked now.
    """

    key: int
    accepted: int = 0
    throttled: int = 0
    bad_nonces: int = 0
    refused: int = 0
    blocked: bool = False


#: How long a clock that steps stays as it is, in seconds.
_STEPS_EVERY_S = 10.0


def stepping(wall_s: float, uptime_s: float, step_s: float) -> float:
    """What a clock shows that steps ahead and back again every ten seconds."""
    return wall_s + step_s * (uptime_s // _STEPS_EVERY_S % 2)


class KeyState:
    """One key of the server: its window, its last nonce, its counts."""

    def __init__(self, place: int, settings: KeyedSettings) -> None:
        self.counts = KeyCounts(place)
        self._window: Gauge = SlidingWindow(requests=settings.limit, per_s=settings.per_s).gauge()
        self._block_after = settings.block_after
        self._limit = f"{settings.limit} requests in {settings.per_s:g} s"
        self._throttled = 0
        self._nonce: int | None = None

    def refuse(self, nonce: str, counted_s: float) -> Reply | None:
        """Judge a request that arrives now; None when it is accepted."""
        counts = self.counts
        if counts.blocked:
            counts.refused += 1
            return error_reply(401, "the key is blocked")
        admitted = self._window.wait_s(counted_s) == 0
        self._window.take(counted_s, admitted=admitted)
        if not admitted:
            counts.throttled += 1
            self._throttled += 1
            counts.blocked = self._throttled >= self._block_after
            return error_reply(429, f"more than {self._limit}")
        number = integer_of(nonce)
        if number is None or (self._nonce is not None and number <= self._nonce):
            counts.bad_nonces += 1
            why = "no whole number" if number is None else f"not above the last one, {self._nonce}"
            return error_reply(400, f"the nonce is {why}")
        self._nonce = number
        counts.accepted += 1
        return None

    def block(self, *, blocked: bool) -> None:
        """Block the key, or take that back and forget its answers 429."""
        self.counts.blocked = blocked
        self._throttled = 0


class KeyedSimulation(SimulatedService[KeyedFault]):
    """State and behaviour of one simulated keyed exchange.

    Args:
        settings: what it is.
        clock: seconds, for windows, intervals and the log. Latency passes in real time.
    """

    fault_class = KeyedFault

    def __init__(
        self, settings: KeyedSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(settings, clock)
        self.settings = settings
        self._inbound = LatencySource(settings.inbound, settings.seed, "inbound")
        self._outbound = LatencySource(settings.outbound, settings.seed, "outbound")
        self._keys = [KeyState(place, settings) for place in range(1, len(settings.keys) + 1)]
        self._places = {key.get_secret_value(): place for place, key in enumerate(settings.keys, 1)}

    def key_stats(self) -> list[KeyCounts]:
        """Counts by key, in the order of the settings."""
        return [replace(key.counts) for key in self._keys]

    def block(self, place: int, *, blocked: bool = True) -> None:
        """Block the key at a place, from 1, or unblock it.

        Raises:
            SpecError: there is no such key.
        """
        if not 1 <= place <= len(self._keys):
            raise SpecError("key", str(place), f"there are {len(self._keys)} keys, from 1")
        self._keys[place - 1].block(blocked=blocked)

    def stats(self, windows_s: Sequence[float] = (1.0,)) -> dict[str, Any]:
        """Counts as for every service, and by key."""
        return {**super().stats(windows_s), "keys": [asdict(key) for key in self.key_stats()]}

    def read_state(self, command: str, query: Mapping[str, str]) -> object:  # noqa: ARG002
        """See `SimulatedService.read_state`; there is nothing more to read than `stats`."""
        raise UnknownCommand

    def change_state(self, command: str, body: bytes) -> None:
        """See `SimulatedService.change_state`."""
        if command not in ("block", "unblock"):
            raise UnknownCommand
        self.block(_Place.model_validate_json(body).key, blocked=command == "block")

    def _delays_s(self, number: int) -> tuple[float, float]:
        inbound_s = self._inbound.delay_s(number)
        return inbound_s, inbound_s + self._outbound.delay_s(number)

    def _subject(self, request: Request) -> KeyedSubject:
        return KeyedSubject(self._places.get(_fields(request).get("api_key", "")))

    def _judge(self, request: Request, arrival: Arrival, counted_s: float) -> Verdict:
        subject = self._subject(request)
        struck = self._faults.strike(subject, self.uptime_s())
        if struck is None:
            return Verdict(self._answer(request, subject, counted_s))
        arrival.fault, fault = struck
        if isinstance(fault.action, Slow):
            return Verdict(self._answer(request, subject, counted_s), fault.action.s)
        if instead := substitute(fault.action):
            return Verdict(instead)
        reply = self._answer(request, subject, counted_s)
        return Verdict(replace(reply, delivery=delivery(fault.action)))

    def _stepping(self) -> float:
        return stepping(time.time(), self.uptime_s(), self.settings.clock_step_s)

    def _answer(self, request: Request, subject: KeyedSubject, counted_s: float) -> Reply:
        if request.path != PATH or request.method not in ("GET", "POST"):
            return error_reply(404, f"only {PATH} is served here")
        if subject.key is None:
            return error_reply(401, "the key is missing or unknown")
        fields = _fields(request)
        refusal = self._keys[subject.key - 1].refuse(fields.get("nonce", ""), counted_s)
        if refusal:
            return refusal
        arrived_at = self._stepping() - (self.clock() - counted_s)
        accepted = {"status": "OK", "timestamp": int(arrived_at * 1000)}
        return _json(200, {**accepted, "req_id": fields.get("req_id")})


class _Place(BaseModel, extra="forbid"):
    """Body of `POST block` and `POST unblock`."""

    key: int = Field(ge=1)


def _fields(request: Request) -> dict[str, str]:
    """The fields of a request, from its query and its body; a body that does not read has none."""
    fields = dict(request.query)
    if request.headers.get("content-type", "").startswith("application/json"):
        try:
            body = json.loads(request.body)
        except ValueError:
            return fields
        given = body.items() if isinstance(body, dict) else ()
        return fields | {name: str(value) for name, value in given}
    return fields | dict(parse_qsl(request.body.decode("latin-1"), keep_blank_values=True))


def error_reply(status: int, message: str) -> Reply:
    """An error in the form of this exchange."""
    error = {"status": "ERROR", "error_code": f"E{status}", "error_msg": message}
    return _json(status, error)


def _json(status: int, value: object) -> Reply:
    return Reply(status, json.dumps(value).encode())


class SimulatedKeyedExchange(ThreadedServer[KeyedFault]):
    """A simulated keyed exchange on a thread of this process; a context manager.

    Args:
        clock: seconds, for windows, intervals and the log.
        settings: fields of `KeyedSettings`.

    Raises:
        SpecError: a setting that cannot be used.
        PortInUseError: on entry, when the port is taken.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, **settings: Any) -> None:
        self.settings = KeyedSettings.of(**settings)
        self.simulation = KeyedSimulation(self.settings, clock=clock)
        super().__init__("simulated keyed exchange", self.simulation, port=self.settings.port)

    def key_stats(self) -> list[KeyCounts]:
        """Counts by key, in the order of the settings."""
        return self.simulation.key_stats()

    def block(self, place: int, *, blocked: bool = True) -> None:
        """Block the key at a place, from 1, or unblock it."""
        self.simulation.block(place, blocked=blocked)


class SimulatedKeyedExchangeProcess(ChildServer[KeyedFault]):
    """A simulated keyed exchange as a child process; a context manager.

    Args:
        cpu: pin the child to this core, where the system can.
        settings: fields of `KeyedSettings`.

    Raises:
        SpecError: a setting that cannot be used.
        ServerStartError: on entry, when the child does not come up.
    """

    def __init__(self, *, cpu: int | None = None, **settings: Any) -> None:
        self.settings = KeyedSettings.of(**settings)
        super().__init__("keyed-exchange", self.settings, KeyedFault, KeyedSubject, cpu=cpu)

    def key_stats(self) -> list[KeyCounts]:
        """Counts by key, in the order of the settings."""
        return [KeyCounts(**counts) for counts in self.stats()["keys"]]

    def block(self, place: int, *, blocked: bool = True) -> None:
        """Block the key at a place, from 1, or unblock it."""
        self._control("POST", "block" if blocked else "unblock", {"key": place})
