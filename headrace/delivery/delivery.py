"""Workers that send requests, and what becomes of a request after each attempt.

| the attempt | then |
|---|---|
| was answered 2xx | success |
| could not leave within the time to live | expired |
| had no effect: 429, a refused nonce, 401, 403, 408, 425, or no connection | another try |
| has an unknown effect: 5xx, a broken answer, or none | another try if it may be repeated |
| was answered with any other status | graveyard: it would be answered the same |
| was the fifth that failed, or may not be repeated | graveyard |
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from headrace.delivery.benchmark import Benchmark, BenchmarkLine
from headrace.delivery.client import Expired, KeyedClient, had_no_effect
from headrace.delivery.journal import Journal
from headrace.delivery.model import ApiRequest, Outcome, Pending
from headrace.delivery.queue import RequestQueue
from headrace.errors import HeadraceError
from headrace.stopping import Ending, Stopped
from headrace.wire.exceptions import ConnectionFailed, RequestError, TransientError

log = logging.getLogger(__name__)

MOST_TRIES = 5
#: Before the second try, doubling: the quota spreads requests, this spreads those of one failure.
FIRST_PAUSE_S = 0.05
#: What is in flight when a stop is asked for has so long to be answered.
STOP_GRACE_S = 4.0
#: A request is tried if it lives so many times as long as it is likely to wait for its permit.
_ROOM = 1.5
#: Requests that are accepted in one transaction.
_BATCH = 50


class Delivery:
    """Delivers requests until they have ended. Enter it, hand over requests, then drain it.

    Leaving it without `drain` stops it: what is in flight is waited for, the rest stays in the
    journal for the next one.

    Args:
        journal: of the queue; its caller holds the queue's lease.
        client: sends one attempt.
        ending: ends it early. Its `stop` is also the client's.
        break_off: breaks off what is in flight when it does not end in time after a stop.
        capacity: requests that wait in this process.
        workers: requests that are under way at once, waiting for a permit or in flight.
        most_tries: attempts of one request.
        per_s: says how many permits a second there are now; None if they are not limited.
        clock: monotonic seconds, as the journal's and the client's.

    Attributes:
        benchmark: counters.
        accepted: requests that `submit` accepted.
    """

    def __init__(
        self,
        journal: Journal,
        client: KeyedClient,
        ending: Ending,
        *,
        break_off: Callable[[], None],
        capacity: int = 500,
        workers: int = 32,
        most_tries: int = MOST_TRIES,
        per_s: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._journal = journal
        self._client = client
        self._ending = ending
        self._break_off = break_off
        self._most_tries = most_tries
        self._per_s = per_s
        self._clock = clock
        self._under_way: dict[int, Pending] = {}
        self._queue = RequestQueue(capacity, ending.stop, clock)
        self.benchmark = Benchmark(journal.books().graveyard, clock)
        self.accepted = 0
        self._workers = [
            threading.Thread(target=self._work, name=f"delivery-{number}", daemon=True)
            for number in range(workers)
        ]

    def __enter__(self) -> Delivery:
        for worker in self._workers:
            worker.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ending.stop.set()
        self._join()

    def submit(self, requests: Sequence[ApiRequest], *, source: str = "", lines: int = 0) -> None:
        """Take requests over; each is durable when this returns. Waits while the queue is full.

        Args:
            requests: in their order.
            source, lines: as in `Journal.accept`, once all of them are accepted.

        Raises:
            Stopped: the stop was asked for. Those of `accepted` are in the journal.
            HeadraceError: what ended the delivery.
        """
        first = 0
        while first < len(requests):
            room = self._room()
            some = requests[first : first + min(room, _BATCH)]
            first += len(some)
            done = lines - (len(requests) - first)
            pending = self._journal.accept(some, source=source, lines=done)
            self.accepted += len(some)
            self._queue.put(pending)

    def resume(self, kept: Iterable[Sequence[Pending]]) -> int:
        """Go on with what earlier runs left queued; return how many. Waits as `submit`."""
        resumed = 0
        for batch in kept:
            first = 0
            while first < len(batch):
                some = batch[first : first + self._room()]
                self._queue.put(some)
                first += len(some)
                resumed += len(some)
        return resumed

    def drain(self) -> None:
        """Wait until every request that was handed over has ended.

        Raises:
            Stopped, HeadraceError: as `submit`.
        """
        self._queue.close()
        for worker in self._workers:
            worker.join()
        self._ending.check()

    def line(self, *, closes: bool = True) -> BenchmarkLine:
        """The line of the benchmark now; see `Benchmark.line`."""
        waiting = self._queue
        return self.benchmark.line(queue=len(waiting), dead_letters=waiting.retries, closes=closes)

    def _room(self) -> int:
        try:
            return self._queue.wait_for_room()
        except Stopped:
            self._ending.check()
            raise

    def _join(self) -> None:
        until_s = time.monotonic() + STOP_GRACE_S
        for worker in self._workers:
            worker.join(max(0.0, until_s - time.monotonic()))
        if any(worker.is_alive() for worker in self._workers):
            self._break_off()
        for worker in self._workers:
            worker.join()

    def _work(self) -> None:
        try:
            while (pending := self._queue.take()) is not None:
                self._deliver(pending)
        except Stopped:
            return
        except HeadraceError as error:
            self._ending.end(error)
        except Exception as error:
            # A worker must not end in silence: the run would wait for its request for ever.
            log.exception("a worker of the delivery failed")
            self._ending.end(HeadraceError(f"a worker of the delivery failed: {error}"))

    def _deliver(self, pending: Pending) -> None:
        if not self._leaves_in_time(pending):
            self._end(pending, Outcome.EXPIRED)
            return
        self._under_way[threading.get_ident()] = pending
        try:
            self._try(pending)
        finally:
            del self._under_way[threading.get_ident()]

    def _leaves_in_time(self, pending: Pending) -> bool:
        """Whether it can have a permit within its time to live, after those that wait for theirs.

        Without this, requests that come faster than the quota all wait until shortly before their
        end, and most of them fail there while permits are left unused.
        """
        left_s = pending.left_s(self._clock())
        if left_s is None:
            return True
        waiting = sum(not each.left for each in list(self._under_way.values()))
        per_s = self._per_s()
        return left_s > (_ROOM * waiting / per_s if per_s else 0.0)

    def _try(self, pending: Pending) -> None:
        pending.left = False
        if not self._journal.take(pending):
            self._queue.done()
            return
        try:
            took_s = self._client.try_once(pending)
        except Expired:
            self._end(pending, Outcome.EXPIRED)
        except RequestError as error:
            self._failed(pending, error)
        except BaseException:
            # Stopped, or an outage: what has not left waits for the next run. What has left stays
            # `taken`, since nothing is known of it.
            if not pending.left:
                self._journal.put_back(pending)
            raise
        else:
            self.benchmark.succeeded(took_s, self._clock() - pending.accepted_s)
            self._journal.end(pending, Outcome.SUCCESS)
            self._queue.done()

    def _failed(self, pending: Pending, error: RequestError) -> None:
        self.benchmark.failed()
        pending.reason = error.problem
        stale = isinstance(error, ConnectionFailed) and error.stale
        pending.fresh = isinstance(error, ConnectionFailed)
        repeats = had_no_effect(error) or pending.request.may_repeat
        if not (stale and repeats):
            # A kept connection that the network has forgotten says nothing about the request.
            pending.tries += 1
        again = isinstance(error, TransientError) and repeats and pending.tries < self._most_tries
        log.debug("request %d, try %d: %s", pending.id, pending.tries, error.problem)
        if again:
            self._client.stats.retried()
            self._journal.put_back(pending)
            pause_s = 0.0 if stale else FIRST_PAUSE_S * 2.0 ** (pending.tries - 1)
            self._queue.put_retry(pending, pause_s)
            return
        unknown = isinstance(error, TransientError) and not had_no_effect(error)
        self._end(pending, Outcome.GRAVEYARD, unknown=unknown)

    def _end(self, pending: Pending, outcome: Outcome, *, unknown: bool = False) -> None:
        self._journal.end(pending, outcome, unknown=unknown)
        self.benchmark.ended(outcome)
        self._queue.done()
        log.debug("request %d ended: %s %s", pending.id, outcome, pending.reason)
