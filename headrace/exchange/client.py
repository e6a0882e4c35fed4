"""The exchange client: products and pages, and how a page that fails differs from an outage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from headrace.exchange.exceptions import UNREADABLE, refusal
from headrace.exchange.pages import PAGE_LIMIT, Outline, Page, decode_outline, decode_page
from headrace.exchange.proof import Check, unchecked
from headrace.exchange.signing import Credentials, sign
from headrace.quota import Admission, Gate, KeyAdmission, KeyPool, KeysRefused, Lane, OutageError
from headrace.quota.keys import REFUSALS
from headrace.stopping import Ending, StopEvent, Stopped
from headrace.wire.client import Answer, HttpClient, Request, RetryPolicy, is_of_server
from headrace.wire.exceptions import (
    BadAnswer,
    KeyRefused,
    RefusedThroughout,
    RequestError,
    TransientError,
)
from headrace.wire.transport import Response, Transport

#: Requests that refuse the caller, with none answered in between, until no other is sent.
REFUSALS_IN_A_ROW = 5


class ProductInfo(msgspec.Struct, frozen=True):
    """One product as the exchange lists it (the fields we use; unknown ones are ignored)."""

    id: str
    base_currency: str = ""
    quote_currency: str = ""
    status: str | None = None
    trading_disabled: bool | None = None


_PRODUCTS = msgspec.json.Decoder(list[ProductInfo])


@dataclass(slots=True)
class _PageRequest(Request):
    """A request, and what separates an outage from a page that the exchange cannot serve.

    Attributes:
        answered: of all requests, how many had been answered when it last failed.
        bad: whether it alone fails.
    """

    answered: int = -1
    bad: bool = False


class ExchangeClient(HttpClient):
    """Typed answers of a Coinbase-Exchange API. Safe to use from many threads.

    Args:
        transport: sends one request.
        gate: the quota and the breaker, or the keys', asked before each attempt.
        policy: attempts and pauses.
        credentials: sign requests when given: with a pool of keys, those of the key that the
            permit names (its secret is their `key`), else the first.
        stop: looked at before each attempt and during each pause.

    Attributes:
        ending: set when no request can be answered any more: the outage limit has passed, or all
            are refused. Every request raises its cause then; those in flight are waited for.
    """

    def __init__(
        self,
        transport: Transport,
        gate: Gate | KeyPool,
        *,
        policy: RetryPolicy | None = None,
        credentials: Sequence[Credentials] = (),
        stop: StopEvent | None = None,
    ) -> None:
        super().__init__(transport, gate, policy or RetryPolicy())
        self._first = next(iter(credentials), None)
        self._credentials = {each.key: each for each in credentials}
        self.ending = Ending(stop or StopEvent())
        # Reading a page is a dozen calls that release the GIL for an instant. Several threads at
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

    def known_to_work(self, request: Request) -> Request:
        """The newest trade of a product that was answered before; at first, of the same product."""
        product = self._answered_of or request.about
        path = _trades(product, None, 1) if product else request.path
        return Request(
            path,
            request.stop,
            about=product,
            counted_as=product,
            lane=Lane.RETRY,
            of_host=True,
            fresh=True,
        )

    def read_known(self, response: Response) -> None:
        """See that it is an answer of the exchange, with any values."""
        self._read(response, lambda body: decode_outline(body, product="", after=None))

    def outgoing(
        self, request: Request, admission: Admission | KeyAdmission
    ) -> tuple[str, Mapping[str, str], bytes | None]:
        """With the signature, made per attempt, since it covers the time."""
        who = self._first
        if isinstance(admission, KeyAdmission):
            who = self._credentials[admission.key.secret.get_secret_value()]
        return request.path, sign(who, "GET", request.path) if who else {}, None

    def goes_again_at_once(self, request: Request, error: RequestError) -> bool:
        """See `HttpClient.goes_again_at_once`; a refused key is set aside, and another one asks."""
        if isinstance(error, KeyRefused):
            self.stats.retried()
            return True
        return super().goes_again_at_once(request, error)

    def is_outage(self, request: Request, error: TransientError) -> bool:
        """Whether the server fails what is known to work, too, so that it is not this request.

        Asked from the second failure on, if nothing was answered since the one before. Once the
        known one was answered, the request is a bad one. If it fails, no attempt of the request is
        counted, and every failure is evidence for the breaker, which opens after five.
        """
        assert isinstance(request, _PageRequest), "only a known one is another"
        if not is_of_server(error) or not self._answered_of:
            return False
        answered, request.answered = request.answered, self._answered
        if answered != self._answered:
            request.outage = False
            return False
        if request.bad:
            return False
        # If it was one and is over by now, the failure belonged to it.
        was_one, request.outage = request.outage, False
        request.outage = self.fails(self.known_to_work(request))
        request.bad = not was_one and not request.outage
        return not request.bad

    def report(
        self,
        admission: Admission | KeyAdmission,
        request: Request,
        response: Response,
        refused: RequestError | None,
    ) -> None:
        """See `HttpClient.report`; and note which product was answered."""
        if refused is None:
            self._answered += 1
            self._refusals = 0
            self._answered_of = request.about or self._answered_of
        super().report(admission, request, response, refused)

    def _ask(
        self,
        path: str,
        decode: Callable[[bytes], Answer],
        product: str = "",
        cursor: int | None = None,
        *,
        lane: Lane,
    ) -> Answer:
        request = _PageRequest(
            path, self.ending.stop, about=product, cursor=cursor, counted_as=product, lane=lane
        )
        try:
            return self.ask(request, lambda response: self._read(response, decode))
        except (OutageError, KeysRefused) as error:
            self.ending.end(error)
            raise
        except Stopped:
            self.ending.check()
            raise
        except RequestError as error:
            if error.refuses_us:
                self._count_refusal(error)
            raise

    def _read(self, response: Response, decode: Callable[[bytes], Answer]) -> Answer:
        if refused := refusal(response):
            if isinstance(self._gate, KeyPool) and response.status in REFUSALS:
                raise KeyRefused(refused.problem, status=response.status, hint=refused.hint)
            raise refused
        with self._reading:
            return decode(response.body)

    def _count_refusal(self, error: RequestError) -> None:
        """End the run when every request is refused: more of them make it worse."""
        with self._counting:
            self._refusals += 1
            if self._refusals < REFUSALS_IN_A_ROW:
                return
        self.ending.end(RefusedThroughout(self.source, error, REFUSALS_IN_A_ROW))
        self.ending.check()


def _trades(product: str, after: int | None, limit: int) -> str:
    """Path and query of a page."""
    if after is not None and after < 1:
        raise ValueError(f"a cursor below 1 is never asked for: {after}")
    cursor = "" if after is None else f"&after={after}"
    return f"/products/{quote(product, safe='')}/trades?limit={limit}{cursor}"


def _read_products(body: bytes) -> list[ProductInfo]:
    try:
        return _PRODUCTS.decode(body)
    except UNREADABLE as error:
        raise BadAnswer(f"the body is no list of products ({error})", status=200) from error
