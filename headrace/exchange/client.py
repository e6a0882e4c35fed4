"""The exchange client: asks until it is answered or refused, each attempt with its own permit."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

import msgspec

from headrace.exchange.exceptions import UnknownProduct
from headrace.exchange.pages import (
    PAGE_LIMIT,
    UNREADABLE,
    Outline,
    Page,
    decode_outline,
    decode_page,
)
from headrace.exchange.proof import Check, unchecked
from headrace.exchange.signing import Credentials, sign
from headrace.logs.redaction import safe_text
from headrace.metrics.requests import ClientStats
from headrace.quota import Admission, Gate, Lane, OutageError
from headrace.quota.feedback import retry_after_s as read_retry_after
from headrace.stopping import Ending, StopEvent, Stopped
from headrace.wire.exceptions import (
    AccessDenied,
    BadAnswer,
    ConnectionFailed,
    PutOff,
    RefusedThroughout,
    RequestError,
    RequestRefused,
    RetriesExhausted,
    ServerError,
    Throttled,
    TransientError,
)
from headrace.wire.retrying import RetryPolicy
from headrace.wire.transport import Response, Transport

Answer = TypeVar("Answer")

#: 408 (a server's own time-out, often of an idle connection) and 425: the same request, later.
_ANOTHER_TIME = (408, 425)

#: Requests refused for who asks, with none answered in between, until no other is sent.
REFUSALS_IN_A_ROW = 5

_ELSEWHERE = (
    "This address, or the country it is in, may be barred for now: run again later or from "
    "elsewhere, what was fetched is kept"
)
#: By the statuses that refuse who asks.
_HINTS = {
    401: "Look at the key, its secret and passphrase in the Exchange block, and at the clock",
    403: _ELSEWHERE,
    407: "A proxy on the way wants a login: set HTTPS_PROXY to http://user:password@host:port",
    451: _ELSEWHERE,
}

#: Of what a server says, so much is quoted.
_QUOTED = 120

#: Attempts of one request that an outage may take without counting.
_MOST_OUTAGES = 50

#: A `Retry-After` beyond this is not taken at its word; the breaker is there for long outages.
LONGEST_RETRY_AFTER_S = 300.0


class ProductInfo(msgspec.Struct, frozen=True):
    """One product as the exchange lists it (the fields we use; unknown ones are ignored)."""

    id: str
    base_currency: str = ""
    quote_currency: str = ""
    status: str | None = None
    trading_disabled: bool | None = None


class _Message(msgspec.Struct):
    message: str = ""


_PRODUCTS = msgspec.json.Decoder(list[ProductInfo])
_MESSAGE = msgspec.json.Decoder(_Message)


class ExchangeClient:
    """Typed answers of a Coinbase-Exchange API. Safe to use from many threads.

    Args:
        transport: sends one request.
        gate: the quota and the breaker, asked before each attempt.
        policy: attempts and pauses.
        credentials: signs requests when given.
        stop: looked at before each attempt and during each pause.

    Attributes:
        ending: set when no request can be answered any more: the outage limit has passed, or all
            are refused. Every request raises its cause then; those in flight are waited for.
    """

    def __init__(
        self,
        transport: Transport,
        gate: Gate,
        *,
        policy: RetryPolicy | None = None,
        credentials: Credentials | None = None,
        stop: StopEvent | None = None,
    ) -> None:
        self._transport = transport
        self._gate = gate
        self._policy = policy or RetryPolicy()
        self._credentials = credentials
        self.ending = Ending(stop or StopEvent())
        self._stop = self.ending.stop
        self.stats = ClientStats()
        # Reading a page is a dozen calls that let go of the GIL for an instant. Several threads at
        # it take it from each other at every one of them, which costs a seventh of all the CPU.
        self._reading = threading.Lock()
        # Only compared: an update that another thread overwrites is a change all the same.
        self._answered = 0
        self._answered_of = ""
        self._counting = threading.Lock()
        self._refusals = 0

    @property
    def page_limit(self) -> int:
        """The most trades of one page."""
        return PAGE_LIMIT

    @property
    def source(self) -> str:
        """The API's address, as recorded with what was fetched from it."""
        return self._transport.base_url

    def products(self, *, lane: Lane = Lane.BACKFILL) -> list[ProductInfo]:
        """Every product that the exchange lists."""
        return self._ask("/products", _read_products, lane=lane)

    def page(
        self,
        product: str,
        after: int | None,
        *,
        limit: int | None = None,
        lane: Lane = Lane.BACKFILL,
        check: Check = unchecked,
    ) -> Page:
        """The newest `limit` trades (a full page) with ids below `after` (None: the newest of all).

        `check` holds the answer against what is known (`headrace.exchange.proof`); one for which it
        raises `Contradiction` is asked for again.

        Raises:
            UnknownProduct: the exchange does not know the product.
            RequestRefused: another 4xx.
            RetriesExhausted: every attempt failed; its cause is the last failure.
            OutageError: the breaker stayed open longer than the gate waits.
            Stopped: the stop event was set.
            ValueError: `after` is below 1, which the exchange refuses.
        """

        limit = self.page_limit if limit is None else limit

        def read(body: bytes) -> Page:
            page = decode_page(body, product=product, after=after, limit=limit)
            check(page)
            return page

        return self._ask(_trades(product, after, limit), read, product, after, lane=lane)

    def outline(
        self,
        product: str,
        after: int | None,
        *,
        lane: Lane = Lane.BACKFILL,
        check: Check = unchecked,
    ) -> Outline:
        """The ids alone of a full page, for one that holds what cannot be kept.

        Raises:
            As `page`.
        """

        def read(body: bytes) -> Outline:
            outline = decode_outline(body, product=product, after=after)
            check(outline)
            return outline

        return self._ask(_trades(product, after, PAGE_LIMIT), read, product, after, lane=lane)

    def close(self) -> None:
        """Close the connections (the gate is its owner's to close)."""
        self._transport.close()

    def _ask(
        self,
        path: str,
        read: Callable[[bytes], Answer],
        product: str = "",
        cursor: int | None = None,
        *,
        lane: Lane,
    ) -> Answer:
        try:
            return self._asked(_Request(path, product, lane), read, cursor)
        except OutageError as error:
            self.ending.end(error)
            raise
        except Stopped:
            self.ending.check()
            raise
        except RequestError as error:
            if error.refuses_us:
                self._count_refusal(error)
            raise

    def _count_refusal(self, error: RequestError) -> None:
        """End the run when all that is asked is refused for who asks: asking on makes it worse."""
        with self._counting:
            self._refusals += 1
            if self._refusals < REFUSALS_IN_A_ROW:
                return
        self.ending.end(RefusedThroughout(self.source, error, REFUSALS_IN_A_ROW))
        self.ending.check()

    def _asked(
        self, request: _Request, read: Callable[[bytes], Answer], cursor: int | None
    ) -> Answer:
        failures: Counter[type[TransientError]] = Counter()
        product = request.product
        while True:
            try:
                return self._attempt(request, read)
            except RequestError as error:
                request.lane = Lane.RETRY
                request.fresh = isinstance(error, ConnectionFailed)
                if isinstance(error, ConnectionFailed) and error.stale:
                    self.stats.retried()
                    continue
                error = _placed(error, product, cursor)
                if not isinstance(error, TransientError) or error.refuses_us:
                    raise error from error.__cause__
                if not self._is_outage(request, error):
                    failures[type(error)] += 1
                seen = failures[type(error)]
                if seen >= self._policy.allowed(error):
                    raise RetriesExhausted(
                        f"given up after {failures.total()} attempts: {error.problem}",
                        product=product,
                        cursor=cursor,
                        status=error.status,
                        hint=error.hint,
                    ) from error
                self.stats.retried()
                self._stop.sleep(self._policy.pause_s(seen + request.outages))

    def _is_outage(self, request: _Request, error: TransientError) -> bool:
        """Whether the server fails what is known to work, too, so that it is not this request.

        Asked from the second failure on, if nothing was answered since the one before. Once the
        known one was answered, the request is a bad one. If it fails, no attempt of the request is
        counted, and every failure is evidence for the breaker, which opens after five.
        """
        if not _is_of_server(error) or not self._answered_of:
            return False
        answered, request.answered = request.answered, self._answered
        if answered != self._answered:
            request.outage = False
            return False
        if request.bad or request.outages >= _MOST_OUTAGES:
            return False
        # If it was one and is over by now, the failure belonged to it.
        was_one, request.outage = request.outage, False
        try:
            self._attempt(self._known_to_work(request), _read_nothing)
        except TransientError as also:
            request.outage = _is_of_server(also)
        except RequestError:
            pass  # a refusal is an answer
        request.bad = not was_one and not request.outage
        request.outages += not request.bad
        return not request.bad

    def _known_to_work(self, request: _Request) -> _Request:
        """The newest trade of a product that was answered before; at first, of the same product."""
        product = self._answered_of or request.product
        path = _trades(product, None, 1) if product else request.path
        return _Request(path, product, Lane.RETRY, fresh=True, of_host=True)

    def _attempt(self, request: _Request, read: Callable[[bytes], Answer]) -> Answer:
        """Send a request once it may go. A probe of the breaker asks what is known to work."""
        while True:
            self.ending.check()
            with self._gate.admit(
                lane=request.lane, stop=self._stop, request=f"GET {request.path}"
            ) as admission:
                if not admission.probing or request.of_host:
                    return self._send(admission, request, read)
                try:
                    self._send(admission, self._known_to_work(request), _read_nothing)
                except (ConnectionFailed, ServerError, BadAnswer, Throttled, PutOff):
                    continue

    def _send(
        self, admission: Admission, request: _Request, read: Callable[[bytes], Answer]
    ) -> Answer:
        admission.sending()
        path = request.path
        # Signed per attempt: the signature covers the time.
        headers = sign(self._credentials, "GET", path) if self._credentials else {}
        self.stats.sent(request.product)
        of_host = request.of_host or request.outage
        try:
            response = self._transport.get(path, headers, fresh=request.fresh or admission.probing)
        except ConnectionFailed as error:
            self.stats.failed()
            admission.failed(
                neutral=error.stale or error.refuses_us, of_host=of_host or error.unreachable
            )
            raise
        self.stats.answered(response.status, response.elapsed_s)
        retry_after_s = parse_retry_after(response.headers.get("Retry-After"))
        refused = _refusal(response, retry_after_s)
        if refused is None:
            try:
                with self._reading:
                    answer = read(response.body)
            except BadAnswer as error:
                if _is_of_server(error):
                    # Not the exchange speaking, but something in front of it, or half of it.
                    admission.failed(of_host=of_host)
                else:
                    admission.answered(status=response.status)
                raise
            self._answered += 1
            self._refusals = 0
            self._answered_of = request.product or self._answered_of
            admission.answered(status=response.status, headers=response.headers)
            return answer
        if type(refused) is BadAnswer:
            admission.failed(of_host=of_host)
        else:
            admission.answered(response.status, retry_after_s, response.headers, of_host=of_host)
        raise refused


@dataclass(slots=True)
class _Request:
    """One request and what its attempts have shown.

    Attributes:
        fresh: whether the next attempt goes over a new connection.
        of_host: whether it is known to work, so that its failure is not its own.
        answered: of all requests, how many had been answered when it last failed.
        outage: whether the server failed what is known to work, too, when last asked.
        outages: attempts that failed in such times.
        bad: whether it alone fails.
    """

    path: str
    product: str
    lane: Lane
    fresh: bool = False
    of_host: bool = False
    answered: int = -1
    outage: bool = False
    outages: int = 0
    bad: bool = False


def _is_of_server(error: RequestError) -> bool:
    """Whether the server failed: the causes that count for the breaker, and no others."""
    return isinstance(error, ServerError | ConnectionFailed) or type(error) is BadAnswer


def _refusal(response: Response, retry_after_s: float | None) -> RequestError | None:
    """The error that a status means, or None if the body is worth reading."""
    status = response.status
    if status == 200:
        return None
    said = _said(response)
    if status == 429:
        error = Throttled(f"throttled (429{said})", status=status)
        error.retry_after_s = retry_after_s
        return error
    if status >= 500:
        return ServerError(f"the server failed ({status}{said})", status=status)
    if status in _ANOTHER_TIME:
        return PutOff(f"the server did not take the request now ({status}{said})", status=status)
    if status < 300:
        return BadAnswer(f"the server answered {status} instead of 200 with a body", status=status)
    if status < 400:
        return RequestRefused(
            f"the server answers with a redirect ({status}{_target(response)}), which is never "
            "followed",
            status=status,
            hint="If that is the API's address now, give it as base_url",
        )
    if status == 404:
        return UnknownProduct(
            f"the exchange does not know it ({status}{said})",
            status=status,
            hint="`headrace products` lists what it knows",
        )
    if status in _HINTS:
        return AccessDenied(
            f"the exchange refuses who asks ({status}{said})", status=status, hint=_HINTS[status]
        )
    return RequestRefused(f"the exchange refused the request ({status}{said})", status=status)


def _said(response: Response) -> str:
    """The server's own words, or the start of its body: short, on one line, without codes."""
    try:
        said = _MESSAGE.decode(response.body).message
    except UNREADABLE:
        said = ""
    said = said or " ".join(response.body[:_QUOTED].decode("utf-8", "replace").split())
    return f": {safe_text(said[:_QUOTED])}" if said else ""


def _target(response: Response) -> str:
    """Where a redirect points to, as the server has it, in few and printable characters."""
    location = response.headers.get("Location")
    return f" to {location[:120]!r}" if location else ""


def _placed(error: RequestError, product: str, cursor: int | None) -> RequestError:
    """The same error, naming the product and the cursor it was about."""
    if error.product or not product:
        return error
    placed = type(error)(
        error.problem, product=product, cursor=cursor, status=error.status, hint=error.hint
    )
    placed.__cause__ = error.__cause__
    placed.refuses_us = error.refuses_us
    return placed


def _trades(product: str, after: int | None, limit: int) -> str:
    """Path and query of a page."""
    if after is not None and after < 1:
        raise ValueError(f"a cursor below 1 is never asked for: {after}")
    cursor = "" if after is None else f"&after={after}"
    return f"/products/{quote(product, safe='')}/trades?limit={limit}{cursor}"


def _read_nothing(body: bytes) -> None:
    """See that it is an answer of the exchange, whatever the values are."""
    decode_outline(body, product="", after=None)


def _read_products(body: bytes) -> list[ProductInfo]:
    try:
        return _PRODUCTS.decode(body)
    except UNREADABLE as error:
        raise BadAnswer(f"the body is no list of products ({error})", status=200) from error


def parse_retry_after(text: str | None, *, clock: Callable[[], float] = time.time) -> float | None:
    """Seconds from a `Retry-After` header: a number, or an HTTP date (RFC 9110, 10.2.3).

    None if it is absent, unreadable, or not in the future; capped at LONGEST_RETRY_AFTER_S.
    """
    seconds = None if text is None else read_retry_after({"Retry-After": text}, clock())
    return min(seconds, LONGEST_RETRY_AFTER_S) if seconds else None
