"""One request until it is answered, refused or given up: retries and throttling of every client.

    exchange, Looker  →  HttpClient.ask  →  attempt  →  Gate.admit  →  Transport.send_late
                            ↑ pause, count     ↑ permit, breaker's probe

`Request` is the one state of it all: what is asked, and what its attempts have shown. `RetryPolicy`
says how many attempts and how long the pauses. Every attempt takes a permit of its own, so a pause
only spreads attempts in time; keeping the quota is the gate's business, and so is a `Retry-After`,
which the gate imposes on all processes. A subclass says what its server's answers mean.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from headrace.metrics.requests import ClientStats
from headrace.quota import Admission, Gate, KeyAdmission, KeyPool, Lane
from headrace.quota.feedback import retry_after_s
from headrace.stopping import StopEvent
from headrace.wire.exceptions import (
    BadAnswer,
    ConnectionFailed,
    KeyRefused,
    PutOff,
    RequestError,
    RetriesExhausted,
    ServerError,
    Throttled,
    TransientError,
)
from headrace.wire.transport import Response, Transport

#: A `Retry-After` beyond this is not taken at its word; the breaker is there for long outages.
LONGEST_RETRY_AFTER_S = 300.0

#: Attempts of one request that an outage may take without counting.
MOST_OUTAGES = 50

Answer = TypeVar("Answer")
#: Makes of a response what the caller wants; raises a `RequestError` for one that is none.
Read = Callable[[Response], Answer]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Attempts per kind of failure, and the pauses between them (full jitter, doubling).

    A page that is throttled is queued again up to `throttled_attempts` times. Failures of the
    server may have an end, wrong answers seldom do: those get fewer attempts.
    """

    throttled_attempts: int = 10
    failed_attempts: int = 6
    bad_answer_attempts: int = 4
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0

    def allowed(self, error: TransientError) -> int:
        """How many failures of this kind one request may see in all."""
        if isinstance(error, Throttled):
            return self.throttled_attempts
        if isinstance(error, BadAnswer):
            return self.bad_answer_attempts
        return self.failed_attempts

    def pause_s(self, failures: int) -> float:
        """How long to wait after the n-th failure (n from 1)."""
        ceiling = min(self.longest_pause_s, self.first_pause_s * 2.0 ** (failures - 1))
        return random.uniform(0.5, 1.0) * ceiling


@dataclass(slots=True)
class Request:
    """One request and what its attempts have shown.

    Args:
        path: with its query.
        stop: ends its waits.
        method: as in `GET`.
        headers: beside those of the transport.
        body: None for a request without one.
        id: what the breaker knows it by; method and path unless given.
        about: what is asked for, for messages: a product, `look 7`.
        cursor: of a page, for messages.
        counted_as: by which `ClientStats` counts it: a product, a type of content.
        lane: who goes first at the quota; `RETRY` after the first attempt.
        patience_s: how long to wait for a permit at most; None for as long as it takes.
        repeatable: whether another attempt may be made although the first may have been carried
            out; False for what makes something.
        of_host: whether it is known to work, so that its failure is the server's and not its own.

    Attributes:
        outage: whether the server failed what is known to work, too, when last asked.
        fresh: whether the next attempt goes over a new connection.
        failures: attempts that failed, by the kind of error.
        outages: attempts that failed in such times.
    """

    path: str
    stop: StopEvent
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    id: str = ""
    about: str = ""
    cursor: int | None = None
    counted_as: str = ""
    lane: Lane = Lane.BACKFILL
    patience_s: float | None = None
    repeatable: bool = True
    of_host: bool = False
    outage: bool = False
    fresh: bool = False
    failures: Counter[type[TransientError]] = field(default_factory=Counter)
    outages: int = 0

    @property
    def shows_host(self) -> bool:
        """Whether each failure of it is one of the server, also a repeated one."""
        return self.of_host or self.outage


class HttpClient:
    """Sends requests through the gate until they are answered. Safe to use from many threads.

    Args:
        transport: sends one request.
        gate: the quota and the breaker, or the keys', asked before each attempt.
        policy: attempts and pauses.

    Attributes:
        stats: what was sent and answered.
    """

    def __init__(self, transport: Transport, gate: Gate | KeyPool, policy: RetryPolicy) -> None:
        self._transport = transport
        self._gate = gate
        self._policy = policy
        self.stats = ClientStats()

    @property
    def source(self) -> str:
        """The API's address, as recorded with what was fetched from it."""
        return self._transport.base_url

    def close(self) -> None:
        """Close the connections (the gate is its owner's to close)."""
        self._transport.close()

    def ask(self, request: Request, read: Read[Answer]) -> Answer:
        """Send a request until it is answered.

        Raises:
            PermanentError, or what `refuses_us`: another attempt would be answered the same.
            RetriesExhausted: every allowed attempt failed; its cause is the last failure.
            OutageError: the breaker stayed open longer than the gate waits.
            PermitTimeout: there is no permit within `patience_s`.
            Stopped: the stop event was set.
        """
        while True:
            self.prepare(request)
            try:
                return self.attempt(request, read)
            except RequestError as error:
                request.lane = Lane.RETRY
                request.fresh = isinstance(error, ConnectionFailed)
                if not self.goes_again_at_once(request, error):
                    self._pause(request, _with_place(error, request))

    def attempt(self, request: Request, read: Read[Answer]) -> Answer:
        """Send a request once, when it may go. A probe of the breaker asks what is known to work.

        Raises:
            As `ask`, but the failure itself.
        """
        while True:
            request.stop.check()
            with self._gate.admit(
                lane=request.lane,
                stop=request.stop,
                timeout_s=request.patience_s,
                request=request.id or f"{request.method} {request.path}",
            ) as admission:
                probe = None
                if admission.probing and not request.of_host:
                    probe = self.known_to_work(request)
                if probe is None:
                    return self._send(admission, request, read)
                try:
                    self._send(admission, probe, self.read_known)
                except (ConnectionFailed, ServerError, BadAnswer, Throttled, PutOff, KeyRefused):
                    continue

    def prepare(self, request: Request) -> None:
        """Do what an attempt needs before it waits for its permit, such as a login."""

    def headers(self, request: Request) -> Mapping[str, str]:
        """The headers of an attempt that leaves now."""
        return request.headers

    def outgoing(
        self,
        request: Request,
        admission: Admission | KeyAdmission,  # noqa: ARG002 - for subclasses
    ) -> tuple[str, Mapping[str, str], bytes | None]:
        """Path, headers and body of an attempt that leaves now, under this admission."""
        return request.path, self.headers(request), request.body

    def known_to_work(self, request: Request) -> Request | None:  # noqa: ARG002 - for subclasses
        """A request that was answered before, for a probe; None to probe with `request` itself."""
        return None

    def read_known(self, response: Response) -> None:
        """See that the answer to `known_to_work` is one of the server's."""

    def goes_again_at_once(self, request: Request, error: RequestError) -> bool:
        """Whether the next attempt goes without a pause, and the failed one does not count."""
        stale = isinstance(error, ConnectionFailed) and error.stale and request.repeatable
        if stale:
            self.stats.retried()
        return stale

    def is_outage(self, request: Request, error: TransientError) -> bool:  # noqa: ARG002 - as above
        """Whether the server fails other requests, too, so that the failure is not this one's."""
        return False

    def fails(self, known: Request) -> bool:
        """Whether the server fails a request that is known to work; one attempt."""
        try:
            self.attempt(known, self.read_known)
        except RequestError as error:
            return is_of_server(error)  # a refusal is an answer
        return False

    def report(
        self,
        admission: Admission | KeyAdmission,
        request: Request,
        response: Response,
        refused: RequestError | None,
    ) -> None:
        """Report to the gate what an answer says about the server.

        Args:
            refused: what the answer was instead of what was asked for; None for a good one.
        """
        if type(refused) is BadAnswer:
            # Not the server speaking, but something in front of it, or half of it.
            admission.failed(of_host=request.shows_host)
            return
        pause_s = parse_retry_after(response.headers.get("Retry-After")) if refused else None
        admission.answered(response.status, pause_s, response.headers, of_host=request.shows_host)

    def _send(
        self, admission: Admission | KeyAdmission, request: Request, read: Read[Answer]
    ) -> Answer:
        left = False

        def compose() -> tuple[str, str, Mapping[str, str], bytes | None]:
            nonlocal left
            admission.sending()
            request.stop.check()
            path, headers, body = self.outgoing(request, admission)
            self.stats.sent(request.counted_as)
            left = True
            return request.method, path, headers, body

        try:
            response = self._transport.send_late(compose, fresh=request.fresh or admission.probing)
        except ConnectionFailed as error:
            if not left:
                self.stats.sent(request.counted_as)  # it had its permit, and no connection
            self.stats.failed()
            admission.failed(
                neutral=error.stale or error.refuses_us,
                of_host=request.shows_host or error.unreachable,
            )
            raise
        self.stats.answered(response.status, response.elapsed_s)
        try:
            answer = read(response)
        except RequestError as refused:
            self.report(admission, request, response, refused)
            raise
        self.report(admission, request, response, None)
        return answer

    def _pause(self, request: Request, error: RequestError) -> None:
        """Wait until the next attempt is due, or raise if there is none."""
        if not isinstance(error, TransientError) or error.refuses_us:
            raise error from error.__cause__
        if request.outages < MOST_OUTAGES and self.is_outage(request, error):
            request.outages += 1
        else:
            request.failures[type(error)] += 1
        seen = request.failures[type(error)]
        again = request.repeatable or isinstance(error, Throttled)
        if not again or seen >= self._policy.allowed(error):
            attempts = request.failures.total() + request.outages
            raise RetriesExhausted(
                f"given up after {attempts} attempts: {error.problem}",
                product=request.about,
                cursor=request.cursor,
                status=error.status,
                hint=error.hint,
            ) from error
        self.stats.retried()
        request.stop.sleep(self._policy.pause_s(seen + request.outages))


def is_of_server(error: RequestError) -> bool:
    """Whether the server failed: the causes that count for the breaker, and no others."""
    return isinstance(error, ServerError | ConnectionFailed) or type(error) is BadAnswer


def parse_retry_after(text: str | None, *, clock: Callable[[], float] = time.time) -> float | None:
    """Seconds from a `Retry-After` header: a number, or an HTTP date (RFC 9110, 10.2.3).

    None if it is absent, unreadable, or not in the future; capped at LONGEST_RETRY_AFTER_S.
    """
    seconds = None if text is None else retry_after_s({"Retry-After": text}, clock())
    return min(seconds, LONGEST_RETRY_AFTER_S) if seconds else None


def _with_place(error: RequestError, request: Request) -> RequestError:
    """The same error, naming what the request was about and its cursor."""
    if error.product or not request.about:
        return error
    placed = type(error)(
        error.problem,
        product=request.about,
        cursor=request.cursor,
        status=error.status,
        hint=error.hint,
    )
    placed.__cause__ = error.__cause__
    placed.refuses_us = error.refuses_us
    return placed
