"""One process's part in a quota: its queue, its book, its view of the breaker.

A fork shares nothing of this with its parent: the gate makes a new session there.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from headrace.amounts import LONGEST_S
from headrace.quota import feedback
from headrace.quota.bookings import SlotBook
from headrace.quota.breaker import Pass
from headrace.quota.breaker_file import Breaker
from headrace.quota.clock import MS, NS, Anchor, Clock
from headrace.quota.delay_spread import REFUSED, DelaySpread, Known
from headrace.quota.exceptions import OutageError
from headrace.quota.feedback import Counters, SlowdownChange, SlowdownLog
from headrace.quota.lanes import Lane
from headrace.quota.queue import ThreadQueue, WaitingThreads
from headrace.quota.request import Request, SlotItem
from headrace.quota.server_outage import patiently
from headrace.quota.slot import SPARE, Packets, Slot

log = logging.getLogger(__name__)

T = TypeVar("T")

#: A wait longer than this is worth a line in the log, but at most one line in this time.
_LONG_WAIT = 10 * NS
#: A pass this young needs no second look before the request leaves.
_PASS_IS_FRESH = 1 * MS
#: While the breaker is open, look this often whether it was closed by hand.
_LOOK_UP = 1 * NS


def _ignore(_pause: int) -> None:
    """For a quota whose pauses concern no other."""


class Permit(NamedTuple):
    """Leave to send one request now.

    Attributes:
        given: the breaker's part of it.
        slot: the quota's part of it; None when there is no limit.
        left: when it was given, in nanoseconds.
    """

    given: Pass
    slot: Slot | None
    left: int


class Session:
    """What a gate is in one process. Safe for many threads.

    Args:
        name: of the quota, for messages.
        book: where slots are booked; None for no limit.
        breaker: asked before and after.
        clock: the time.
        outage_limit_s: how long to wait for an open breaker; None for as long as it takes.
        put: takes an item through pyrate-limiter into our bucket, which calls `fill`.
    """

    def __init__(
        self,
        name: str,
        book: SlotBook | None,
        breaker: Breaker,
        clock: Clock,
        outage_limit_s: float | None,
        put: Callable[[SlotItem], object] | None = None,
        slowdown_listeners: Sequence[Callable[[SlowdownChange], object]] = (),
    ) -> None:
        self.pid = os.getpid()
        self.book = book
        self.breaker = breaker
        self.counters = Counters()
        self._name = name
        self._clock = clock
        self._outage_limit: int | None = None
        if outage_limit_s is not None and outage_limit_s < LONGEST_S:
            self._outage_limit = int(outage_limit_s * NS)
        self._outage_seen = 0
        self._logged_at = -_LONG_WAIT
        self._closed = False
        self._put = put
        #: Called with the pause, in nanoseconds, that an answer 429 has begun.
        self.on_pause: Callable[[int], object] = _ignore
        self.threads = WaitingThreads()
        self._slowdown = SlowdownLog(name, self.counters, clock.now, slowdown_listeners)
        if book is not None:
            self._ahead = int(book.config.ahead_ms * MS)
            self.queue = ThreadQueue(clock.now, self._ahead)
            self._ordered = book.config.buffer is not None
            self.delays = DelaySpread()
            self._anchor = Anchor(book.config.anchor_cap_ms)
            self._packets = Packets()

    def hold(self) -> None:
        """Keep all threads out of the files until `release`."""
        self.breaker.hold()
        if self.book is not None:
            self.book.hold()

    def release(self) -> None:
        """End what `hold` began."""
        if self.book is not None:
            self.book.release()
        self.breaker.release()

    # -- on the way out -------------------------------------------------------------------------

    def acquire(self, request: Request) -> Permit:
        """Wait until a request may leave.

        Raises:
            Stopped: the request's stop event was set.
            PermitTimeout: its deadline cannot be met.
            OutageError: the breaker has been open for longer than the outage limit.
            QuotaUnavailable: the shared file cannot be used.
        """
        permit = self._acquired(request)
        self.counters.count(admitted=request.weight)
        return permit

    def _acquired(self, request: Request) -> Permit:
        return self._patiently(request, lambda: self._acquired_now(request))

    def _patiently(self, request: Request, work: Callable[[], T]) -> T:
        """Do `work` for a request, and wait for the server of the quota where it is away."""

        def pause(seconds: float) -> None:
            with self.counters.waiting("quota", self._clock.now):
                request.check()
                request.pause(seconds)

        return patiently(work, pause)

    def _acquired_now(self, request: Request) -> Permit:
        while True:
            permit = self._permit_or_dropped(request, self._pass(request))
            if permit is not None:
                return permit

    def try_acquire(self, request: Request) -> Permit | int | None:
        """As `acquire`, but without a wait for the breaker.

        Returns:
            The permit; or the moment to ask the breaker again, in nanoseconds of the clock; or None
            when the breaker opened during the wait for a slot.
        """
        permit = self._patiently(request, lambda: self._tried(request))
        if isinstance(permit, Permit):
            self.counters.count(admitted=request.weight)
        return permit

    def _tried(self, request: Request) -> Permit | int | None:
        given = self.breaker.ask()
        if not isinstance(given, Pass):
            return given
        return self._permit_or_dropped(request, given)

    def _permit_or_dropped(self, request: Request, given: Pass) -> Permit | None:
        permit = None
        try:
            permit = self._permit(request, given)
        finally:
            if permit is None:
                self.breaker.dropped(given)
        return permit

    def take(self, request: Request) -> None:
        """Wait for a permit of the quota alone; the breaker has no part in it.

        Raises:
            Stopped, PermitTimeout, QuotaUnavailable: as for `acquire`.
        """
        book = self._limited()
        leaving = None
        while leaving is None:
            leaving = self._patiently(
                request, lambda: self._leaving(self._slot(request), book, request.pause)
            )
        book.settle(leaving, self._clock.now())
        self.counters.count(admitted=request.weight)

    def take_now(self, lane: Lane, weight: int) -> int | None:
        """Take a permit of the quota alone if there is one now; else say when there may be."""
        book = self._limited()
        while True:
            slot = book.book(lane, weight=weight, by=0, waiting=self.queue.waiting())
            if isinstance(slot, int):
                return slot
            leaving = self._leaving(slot, book, time.sleep)
            if leaving is not None:
                book.settle(leaving, self._clock.now())
                self.counters.count(admitted=weight)
                return None

    def _limited(self) -> SlotBook:
        assert self.book is not None, "callers have checked that there is a limit"
        return self.book

    def _pass(self, request: Request) -> Pass:
        """Wait until the breaker lets a request through."""
        answer = self.breaker.ask()
        if isinstance(answer, Pass):
            if not answer.probe:
                self._outage_seen = 0
            return answer
        with self.counters.waiting("breaker", self._clock.now):
            while not isinstance(answer, Pass):
                now = self._clock.now()
                self._outage_seen = self._outage_seen or now
                self._refuse_long_outage(now - self._outage_seen)
                request.refuse_beyond(answer, "breaker")
                self._log_wait(now, answer, "the breaker")
                request.pause_until(min(answer, now + _LOOK_UP))
                answer = self.breaker.ask()
        return answer

    def _refuse_long_outage(self, waited: int) -> None:
        limit = self._outage_limit
        if limit is not None and waited >= limit:
            raise OutageError(self._name, waited / NS, limit / NS)

    def _permit(self, request: Request, given: Pass) -> Permit | None:
        """The permit to a pass, or None when the pass has become void meanwhile."""
        book = self.book
        if book is None:
            return Permit(given, None, self._clock.now())
        while True:
            asked = self._clock.now()
            slot = self._slot(request)
            again = self.breaker.shared or self._clock.now() - asked > _PASS_IS_FRESH
            if again and not self.breaker.still_holds(given):
                book.give_back(slot)
                return None
            leaving = self._leaving(slot, book, request.pause)
            if leaving is not None:
                left = self._clock.now()
                book.settle(leaving, left)
                return Permit(given, leaving, left)

    def _slot(self, request: Request) -> Slot:
        """A slot whose moment has come, acquired through pyrate-limiter."""
        item = SlotItem(request)
        if self._put is not None:
            self._put(item)
        assert item.slot is not None, "callers have checked that there is a limit"
        return item.slot

    def fill(self, item: SlotItem) -> None:
        """Give an item a slot whose moment has come: what the bucket does with it.

        Raises:
            Stopped, PermitTimeout, QuotaUnavailable: as for `acquire`.
        """
        item.slot = self._waited(item.request, self._limited())

    def _waited(self, request: Request, book: SlotBook) -> Slot:
        while True:
            slot = self._booked(request, book)
            if slot.fixed and slot.at <= self._clock.now():
                return self._one(slot, request)
            held: Slot | None = None
            packet = slot.weight > request.weight
            self._packets.awaits(request.lane, packet)
            try:
                with self.counters.waiting("quota", self._clock.now):
                    held = self._slept(slot, request, book)
            except BaseException:
                book.give_back(slot)
                raise
            finally:
                self._packets.awaits(request.lane, -packet)
            if held is not None:
                return self._one(held, request)

    def _one(self, slot: Slot, request: Request) -> Slot:
        """What was asked for, out of what may be a packet."""
        if request.weight > 1:
            return slot
        return self._packets.give(request.lane, self._clock.now(), slot)

    def _booked(self, request: Request, book: SlotBook) -> Slot:
        """Queue, then book."""
        lane = request.lane
        self._refuse_hopeless(request, book)
        if not self.queue.try_enter(lane):
            with self.counters.waiting("quota", self._clock.now):
                self.queue.enter(lane, request.pause, request.check)
        booked_to = 0
        try:
            if request.weight == 1 and (kept := self._kept(lane, book)):
                return kept
            slot = book.book(
                lane,
                weight=request.weight,
                by=request.by,
                waiting=self.queue.waiting(),
                reach=1 if self._ordered else self._packets.reach(lane, self._clock.now()),
            )
            if isinstance(slot, int):
                request.refuse_beyond(slot, "quota")
                raise AssertionError("a slot is refused only when it lies beyond the deadline")
            booked_to = slot.at + (self._ahead if slot.yields else 0)
            request.on_booked(slot.at)
        finally:
            self.queue.leave(lane, booked_to)
        return slot

    def _kept(self, lane: Lane, book: SlotBook) -> Slot | None:
        """A permit that came with an earlier one; what has become void goes back."""
        slot, void = self._packets.next(lane, self._clock.now())
        for one in void:
            book.settle(one, 0)
        return slot

    def _refuse_hopeless(self, request: Request, book: SlotBook) -> None:
        """Refuse at once what those ahead in the queue make impossible."""
        if request.by is not None:
            ahead, booked_to = self.queue.ahead_of(request.lane)
            now, least = self._clock.now(), book.least_wait(ahead + request.weight)
            # What may go now is not too late, even if "now" was the deadline.
            if least or booked_to > now:
                request.refuse_beyond(max(now + least, booked_to), "quota")

    def _slept(self, slot: Slot, request: Request, book: SlotBook) -> Slot | None:
        """Sleep to a slot's moment; None when the booking is void."""
        held: Slot | None = slot
        while held is not None:
            now = self._clock.now()
            if held.fixed and held.at <= now:
                return held
            self._log_wait(now, held.at, "a permit")
            far = held.at - now > book.shortest
            lead = book.lead
            look_again = now + book.relook if far else held.at - 2 * book.guard - lead
            if held.fixed:
                request.pause_until(held.at)
            elif not lead and (held.tight or look_again <= now):
                request.pause_until(held.at)
                held = book.confirm(held)
            else:
                request.pause_until(look_again)
                held = book.tighten(held, fix=not far)
        return None

    def _leaving(self, slot: Slot, book: SlotBook, pause: Callable[[float], object]) -> Slot | None:
        """The slot if its permit can leave now, or one moved to now; None if neither can be."""
        held: Slot | None = slot
        while held is not None and held.late(self._clock.now() + self._clock.slack):
            held = book.delay(held)
            if held is not None and (early := held.at - self._clock.now()) > 0:
                try:
                    pause(early / NS)
                except BaseException:
                    book.give_back(held)
                    raise
        return held

    def _log_wait(self, now: int, until: int, what: str) -> None:
        if until - now > _LONG_WAIT and now - self._logged_at > _LONG_WAIT:
            self._logged_at = now
            log.info("%s: waiting %.0f s for %s", self._name, (until - now) / NS, what)

    def give_back(self, permit: Permit) -> None:
        """Return a permit that nothing was sent on."""
        self.breaker.dropped(permit.given)
        if self.book is not None and permit.slot is not None:
            self.book.give_back(permit.slot)

    # -- just before it leaves ------------------------------------------------------------------

    def renew(self, permit: Permit, request: Request) -> Permit:
        """Stamp the moment of leaving; wait for a new permit if this one has become void."""
        now, book = self._clock.now(), self.book
        if book is None or permit.slot is None:
            return permit._replace(left=now)
        if self.void(permit):
            self.give_back(permit)
            return self._acquired(request)
        book.settle(permit.slot, now)
        if now - permit.left > SPARE:
            book.flush()
        return permit._replace(left=now)

    def nonce(self, permit: Permit, least: int) -> tuple[int, Permit]:
        """Number a request that leaves now; its permit was just renewed."""
        book, slot = self._limited(), permit.slot
        assert slot is not None, "there are rates where there are nonces"
        nonce = patiently(lambda: book.nonce(slot, least))
        left = self._clock.now()
        book.settle(slot, left)
        return nonce, permit._replace(left=left)

    def void(self, permit: Permit) -> bool:
        """Whether the moment of a permit has passed, so that it has to be exchanged."""
        now = self._clock.now() + self._clock.slack
        return permit.slot is not None and permit.slot.late(now - SPARE)

    # -- on the way back ------------------------------------------------------------------------

    def answered(
        self,
        permit: Permit,
        status: int,
        retry_after_s: float | None,
        headers: Mapping[str, str] | None,
        request: int | None = None,
        *,
        out_of_order: bool = False,
        counted: int | None = None,
    ) -> None:
        """Learn from an answer, for all processes; of a failure, whose request it was."""
        now = self._clock.now()
        self._judge(permit.given, status, request)
        if status == 429:
            self.counters.count(throttled=1)
        book, slot = self.book, permit.slot
        if book is None or slot is None:
            return
        if status == 429 and (pause := book.refused(slot, permit.left)):
            self.on_pause(pause)
        elif status < 400:
            book.went_well(slot, permit.left)
        pause_s = feedback.asked_pause_s(status, retry_after_s, headers, time.time())
        if pause_s:
            book.pause(int(pause_s * NS))
        self._slowdown.note(book.slowdown)
        if self._ordered:
            refused = out_of_order or status == 429
            known = self.delays.note(permit.left, now, counted, refused=refused)
            self._learn(book, slot, permit.left, known, refused=refused)
        elif book.config.anchor_cap_ms and now - permit.left < book.shortest:
            book.settle(slot, self._anchor.arrived(permit.left, now))
        if book.urgent:
            book.flush()

    def _learn(self, book: SlotBook, slot: Slot, left: int, known: Known, *, refused: bool) -> None:
        """Adapt the buffer, and take back what of it a request has proven not to need."""
        if known.exact or known.late < book.shortest:
            book.arrived(slot, left + known.late)
        if refused:
            book.adapt(int(book.buffer * REFUSED))
        elif known.spread is not None:
            book.adapt(known.spread)

    def _judge(self, given: Pass, status: int, request: int | None) -> None:
        """Have the breaker know what an answer says."""
        if status >= 500:
            self.breaker.failed(given, request)
        else:
            self.breaker.succeeded(given)

    def close(self) -> None:
        """Sign off and close the files; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self.threads.close()
        self.breaker.close()
        self._slowdown.end("still slow at the end,")
        if self.book is not None:
            for unused in self._packets.drain():
                self.book.settle(unused, 0)
            self.book.close()
