"""Several API keys of one server: a request gets the key whose slot comes first.

    config = QuotaConfig(name="api.example.com", rates="20/s")
    pool = open_key_pool(place, config, keys, ordered=True)
    with pool.admit(lane=Lane.INGEST) as admission:
        nonce = admission.nonce()
        response = fetch(admission.key.secret, nonce)
        admission.answered(response.status, headers=response.headers)

Each key is a quota of its own (`headrace.quota.gate`), in files named after a digest of the key, so
everything that holds for a quota holds for each key: exact windows, one count for all processes,
answers 429 that slow down that key alone. In front of them stand the circuit breaker of the
server, which all keys share, and a queue of the process: its first thread takes a key when a slot
comes near, so that lanes hold over all keys, and a key that is set aside takes no waiting request
with it.

A key that the server refuses (401, 403) is set aside by a breaker of its own, one refusal being
enough. After its cooldown one request tries it, in the whole system, and takes it back.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from headrace.amounts import counted
from headrace.quota.breaker import Phase
from headrace.quota.breaker_file import BreakerChange, Listener
from headrace.quota.clock import MS, NS, Clock
from headrace.quota.config import BreakerConfig, BufferConfig, QuotaConfig
from headrace.quota.delay_spread import DelaySpread
from headrace.quota.exceptions import KeysRefused, PermitTimeout
from headrace.quota.feedback import Cause, SlowdownChange
from headrace.quota.gate import Gate
from headrace.quota.keys import REFUSALS, KeyChange, KeyGate, KeyListener, PoolKey, check_keys
from headrace.quota.lanes import Lane
from headrace.quota.location import Place
from headrace.quota.queue import ThreadQueue
from headrace.quota.rates import format_rates
from headrace.quota.request import Request
from headrace.quota.session import Permit
from headrace.stopping import StopEvent

log = logging.getLogger(__name__)

_ORDERED_AHEAD_MS = 5.0
#: How often it is looked up which keys are set aside, where that is asked for each request.
_LOOK_EVERY = NS
#: Keys that come back within this time are waited for when there is no other.
_SOON = NS


def open_key_pool(
    place: Place,
    config: QuotaConfig,
    keys: Sequence[PoolKey],
    breaker: BreakerConfig | None = None,
    outage_limit_s: float | None = None,
    *,
    ordered: bool = False,
    cooldown_s: float = 60.0,
    clock: Clock | None = None,
    wall: Callable[[], float] = time.time,
) -> KeyPool:
    """Open the gate to a server that counts requests by API key.

    Args:
        place: as in `open_gate`; each key has files, or a list of changes, of its own there.
        config: the quota of each key that has no rates of its own.
        keys: at least one; labels and secrets differ.
        breaker: when to leave the server alone.
        outage_limit_s: as in `open_gate`.
        ordered: whether requests of a key must arrive in the order in which they left, since they
            carry nonces. Their distance is `config.buffer`.
        cooldown_s: for how long a refused key is set aside at first, in seconds; it doubles with
            each refusal that follows, up to an hour.
        clock: the time.
        wall: Unix time in seconds, for nonces.

    Raises:
        ConfigurationError: no key, a duplicate one, or one without rates.
        RatesConflict: live processes use a key with other rates.
        QuotaUnavailable: the folder or a file cannot be used.
    """
    check_keys(config, keys)
    if ordered:
        # A booking that is waited for reserves a guard in front of the next one of its key, so
        # none is made before its moment is near.
        ahead_ms = min(config.ahead_ms, _ORDERED_AHEAD_MS)
        buffer = config.buffer or BufferConfig()
        config = config.model_copy(update={"buffer": buffer, "ahead_ms": ahead_ms})
    return KeyPool(
        place, config, keys, breaker or BreakerConfig(), outage_limit_s, cooldown_s, clock, wall
    )


class KeyPool:
    """See `open_key_pool`. For any number of threads.

    Attributes:
        config: the settings that the keys share.
        clock: the time.
    """

    def __init__(
        self,
        place: Place,
        config: QuotaConfig,
        keys: Sequence[PoolKey],
        breaker: BreakerConfig,
        outage_limit_s: float | None,
        cooldown_s: float,
        clock: Clock | None,
        wall: Callable[[], float],
    ) -> None:
        self.config = config
        self._wall = wall
        self._listeners: list[KeyListener] = []
        server = config.model_copy(update={"rates": ()})
        self.server = Gate(place, server, breaker, outage_limit_s, clock)
        self.clock = self.server.clock
        refusal = BreakerConfig(failures=1, successes=1, cooldown_s=cooldown_s)
        self._keys: list[KeyGate] = []
        delays = DelaySpread()
        try:
            for key in keys:
                gate = KeyGate(key, place, config, refusal, clock, delays)
                self._keys.append(gate)
                gate.on_breaker_change(partial(self._changed, gate))
                gate.on_pause = partial(self._rests, gate)
        except BaseException:
            self.close()
            raise
        self._ahead = int(config.ahead_ms * MS)
        self._looked: tuple[int, list[KeyGate]] = 0, self._keys
        self._pid = os.getpid()
        self._queue = ThreadQueue(self.clock.now, self._ahead)

    @property
    def keys(self) -> list[PoolKey]:
        """The keys, in the order in which they were given."""
        return [gate.key for gate in self._keys]

    def admit(
        self,
        lane: Lane = Lane.BACKFILL,
        timeout_s: float | None = None,
        stop: StopEvent | None = None,
        request: str = "",
    ) -> KeyAdmission:
        """Ask for leave to send one attempt of one request; see `Gate.admit`.

        Entering raises `KeysRefused` when every key is set aside.
        """
        asked = Request(
            self.config.name, self.clock, lane, 1, timeout_s, stop or StopEvent(), request
        )
        return KeyAdmission(self, asked)

    @property
    def per_s(self) -> float:
        """The mean rate that all keys sustain, in requests a second."""
        return sum(gate.config.per_s or 0.0 for gate in self._keys)

    @property
    def usable_per_s(self) -> float:
        """The same of the keys that are not set aside."""
        now, (looked_at, usable) = self.clock.now(), self._looked
        if now - looked_at > _LOOK_EVERY:
            usable = [gate for gate in self._keys if gate.usable]
            self._looked = now, usable
        return sum(gate.config.per_s or 0.0 for gate in usable)

    @property
    def rates(self) -> str:
        """How many keys there are and at which rates, as in `5 keys at 20/s`."""
        rates = dict.fromkeys(format_rates(gate.config.rates) for gate in self._keys)
        return f"{counted(len(self._keys), 'key')} at {' or '.join(rates)}"

    @property
    def usable_rates(self) -> str:
        """The same where some are set aside, as in `4 of 5 keys at 20/s`."""
        usable = len(self.usable_keys())
        return self.rates if usable == len(self._keys) else f"{usable} of {self.rates}"

    def waiting_for(self) -> Cause | None:
        """What threads of this process wait for just now, the breaker first; cheap."""
        causes = [gate.waiting_for() for gate in (self.server, *self._keys)]
        return "breaker" if "breaker" in causes else "quota" if "quota" in causes else None

    def on_breaker_change(self, listener: Listener) -> None:
        """Have `listener` called with every `BreakerChange` of the server's breaker."""
        self.server.on_breaker_change(listener)

    def on_key_change(self, listener: KeyListener) -> None:
        """Have `listener` called with every `KeyChange` that this process makes."""
        self._listeners.append(listener)

    def on_slowdown(self, listener: Callable[[SlowdownChange], object]) -> None:
        """Have `listener` called with every `SlowdownChange` of a key that this process sees."""
        for gate in self._keys:
            gate.on_slowdown(listener)

    def usable_keys(self) -> list[str]:
        """The labels of the keys that are not set aside."""
        return [gate.key.label for gate in self._keys if gate.usable]

    def close(self) -> None:
        """Sign off and close the files."""
        for gate in [*self._keys, self.server]:
            gate.close()

    def __enter__(self) -> KeyPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- on the way out -------------------------------------------------------------------------

    def acquire(self, request: Request) -> tuple[Permit, KeyGate, Permit]:
        """Wait until a request may leave: the server's permit, the key, and its permit."""
        server = self.server.session
        while True:
            given = server.acquire(request)
            taken = None
            try:
                taken = self._take(request)
            finally:
                if taken is None:
                    server.give_back(given)
            if taken is None:
                continue
            gate, permit = taken
            if server.breaker.still_holds(given.given):
                return given, gate, permit
            gate.session.give_back(permit)
            server.give_back(given)

    def _take(self, request: Request) -> tuple[KeyGate, Permit] | None:
        """A permit of the key whose slot comes first; None if that was set aside meanwhile."""
        queue = self._this_queue()
        if not queue.try_enter(request.lane):
            with self.server.counters.waiting("quota", self.clock.now):
                queue.enter(request.lane, request.pause, request.check)
        inside = True

        def leave(at: int) -> None:
            nonlocal inside
            gate.booked(at)
            if inside:
                inside = False
                queue.leave(request.lane, min(one.next_at for one in usable))

        usable = list(self._keys)
        try:
            while True:
                usable = self._usable(usable, request)
                now = self.clock.now()
                gate, *others = sorted(usable, key=lambda one: (max(one.next_at, now), one.used))
                by = request.by
                if others:
                    second = max(others[0].next_at, now)
                    by = second if by is None else min(by, second)
                try:
                    permit = gate.session.try_acquire(replace(request, by=by, on_booked=leave))
                except PermitTimeout as error:
                    gate.next_at = self.clock.now() + int(error.wait_s * NS)
                    if request.by is not None and all(g.next_at > request.by for g in usable):
                        raise
                    continue
                if isinstance(permit, int):
                    gate.set_aside(permit)
                    usable.remove(gate)
                    continue
                if permit is None:
                    return None
                gate.used = permit.left
                return gate, permit
        finally:
            if inside:
                queue.leave(request.lane, 0)

    def _usable(self, usable: list[KeyGate], request: Request) -> list[KeyGate]:
        """The keys to choose from; waits for one that comes back soon when there is none."""
        if usable:
            return usable
        soonest = min(gate.next_at for gate in self._keys)
        if soonest - self.clock.now() > _SOON:
            refused = {gate.key.label: gate.refused for gate in self._keys}
            raise KeysRefused(self.config.name, refused, (soonest - self.clock.now()) / NS)
        request.refuse_beyond(soonest, "quota")
        request.pause_until(soonest)
        return list(self._keys)

    def _this_queue(self) -> ThreadQueue:
        if self._pid != os.getpid():  # after a fork, whose parent's threads are not here
            self._pid, self._queue = os.getpid(), ThreadQueue(self.clock.now, self._ahead)
        return self._queue

    def nonce_floor(self) -> int:
        """The Unix time in milliseconds, below which no nonce is given."""
        return int(self._wall() * 1000)

    # -- on the way back ------------------------------------------------------------------------

    def _changed(self, gate: KeyGate, change: BreakerChange) -> None:
        if change.after is Phase.HALF_OPEN:
            return
        usable = change.after is Phase.CLOSED
        gate.set_aside(0 if usable else self.clock.now() + int(change.pause_s * NS))
        label = gate.key.label
        if usable:
            log.info("quota %s: key %s is used again", self.config.name, label)
        else:
            log.warning(
                "quota %s: key %s was refused (status %s); it is tried again in %.0f s, the other "
                "keys go on",
                self.config.name,
                label,
                gate.refused,
                change.pause_s,
            )
        status = None if usable else gate.refused
        self._tell(KeyChange(self.config.name, label, usable, status, change.pause_s))

    def _rests(self, gate: KeyGate, pause: int) -> None:
        gate.set_aside(self.clock.now() + pause)
        label, pause_s = gate.key.label, pause / NS
        log.warning(
            "quota %s: 429: key %s rests for %.0f s, the other keys go on",
            self.config.name,
            label,
            pause_s,
        )
        self._tell(KeyChange(self.config.name, label, False, 429, pause_s))

    def _tell(self, change: KeyChange) -> None:
        for listener in self._listeners:
            listener(change)


class KeyAdmission:
    """Leave to send one attempt with one key; see `headrace.quota.gate.Admission`."""

    def __init__(self, pool: KeyPool, request: Request) -> None:
        self._pool = pool
        self._request = request
        self._taken: tuple[Permit, KeyGate, Permit] | None = None
        self._key: PoolKey | None = None

    def __enter__(self) -> KeyAdmission:
        self._entered(self._pool.acquire(self._request))
        return self

    async def __aenter__(self) -> KeyAdmission:
        session = self._pool.server.session

        def acquire(stop: StopEvent) -> tuple[Permit, KeyGate, Permit]:
            return self._pool.acquire(replace(self._request, stop=stop))

        def give_back(taken: tuple[Permit, KeyGate, Permit]) -> None:
            given, gate, permit = taken
            gate.session.give_back(permit)
            session.give_back(given)

        self._entered(await session.threads.run(acquire, give_back))
        return self

    def _entered(self, taken: tuple[Permit, KeyGate, Permit]) -> None:
        self._taken, self._key = taken, taken[1].key

    @property
    def key(self) -> PoolKey:
        """The key to sign with."""
        if self._key is None:
            raise RuntimeError("enter the admission first: with pool.admit() as admission")
        return self._key

    @property
    def probing(self) -> bool:
        """Whether the request probes a server that has been failing, or a key that was refused."""
        return self._taken is not None and any(
            permit.given.probe > 0 for permit in (self._taken[0], self._taken[2])
        )

    def sending(self) -> None:
        """Stamp the moment just before the request leaves; see `Admission.sending`."""
        if self._taken is not None:
            given, gate, permit = self._taken
            self._taken = given, gate, gate.session.renew(permit, self._request)

    def nonce(self) -> int:
        """Stamp the moment just before the request leaves, and number it.

        Call it right before the request is sent, in place of `sending`: the order of nonces is that
        of departures. A permit that has become void is exchanged first, which may wait.

        Returns:
            Unix time in milliseconds, or one above the last nonce of this key if that is higher,
            over all processes and restarts.
        """
        while True:
            self.sending()
            assert self._taken is not None, "an attempt is numbered before it is reported"
            given, gate, permit = self._taken
            nonce, permit = gate.session.nonce(permit, self._pool.nonce_floor())
            self._taken = given, gate, permit
            if not gate.session.void(permit):  # it was held up meanwhile
                return nonce

    def answered(
        self,
        status: int,
        retry_after_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        of_host: bool = False,
        out_of_order: bool = False,
        counted_s: float | None = None,
    ) -> None:
        """Report an answer, as `Admission.answered` does.

        Args:
            status, retry_after_s, headers, of_host: see there.
            out_of_order: whether the server refused the nonce, since a higher one came first.
            counted_s: when the server counted the request, in seconds of its clock, to the
                millisecond; None if the answer does not say.

        401 and 403 set the key aside, 429 slows it down; the other keys go on. 5xx is a failure of
        the server, whatever the key.
        """
        if taken := self._done():
            given, gate, permit = taken
            if status in REFUSALS:
                gate.refused = status
            counted = None if counted_s is None else int(counted_s * NS)
            gate.session.answered(
                permit, status, retry_after_s, headers, out_of_order=out_of_order, counted=counted
            )
            request = None if of_host else self._request.id
            self._pool.server.session.answered(given, status, retry_after_s, headers, request)

    def failed(self, *, neutral: bool = False, of_host: bool = False) -> None:
        """Report that no answer came, or a broken one; see `Admission.failed`."""
        if taken := self._done():
            given, gate, permit = taken
            gate.session.breaker.dropped(permit.given)
            breaker = self._pool.server.session.breaker
            if neutral:
                breaker.dropped(given.given)
            else:
                breaker.failed(given.given, None if of_host else self._request.id)

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        self.failed(neutral=not isinstance(error, TimeoutError | ConnectionError))

    async def __aexit__(self, *raised: object) -> None:
        self.__exit__(*raised)

    def _done(self) -> tuple[Permit, KeyGate, Permit] | None:
        taken, self._taken = self._taken, None
        return taken
