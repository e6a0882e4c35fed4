"""What the SDK sends through: every attempt with a permit of its own, retries, one renewal.

Status, headers and bytes are visible here, which the SDK's own errors do not carry. What is an
error is raised here, so that the SDK never reads an error's body: it would fetch the page behind
its documentation URL, over the network, for every error.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import msgspec
from looker_sdk.rtl import transport

from headrace.exchange.client import parse_retry_after
from headrace.looker.exceptions import AccessRefused, AppError, LoginRefused, NotFound
from headrace.metrics.requests import ClientStats
from headrace.quota import Admission, Gate, Lane
from headrace.stopping import StopEvent
from headrace.wire.exceptions import (
    BadAnswer,
    ConnectionFailed,
    RequestError,
    RequestRefused,
    RetriesExhausted,
    ServerError,
    Throttled,
    TransientError,
)
from headrace.wire.retrying import RetryPolicy
from headrace.wire.transport import Response, Transport

Authenticator = Callable[[transport.TransportOptions], dict[str, str]]

#: Errors of Looker's own making, one after the other and without any success between them, from
#: which on they are taken for an outage. Fewer only say that some items cannot be had.
OUTAGE_OF_ERRORS = 20
_LOGIN = "/login"
_HEALTH = "/api/4.0/user?fields=id"
#: What a server that is away answers: a gateway's error, nothing, or a page that is not Looker's.
_OF_AN_OUTAGE = (ServerError, ConnectionFailed, BadAnswer)
#: Attempts of one request that an outage may take without counting.
_MOST_OUTAGES = 50
_FLAT_S = 0.2


@dataclass(frozen=True, slots=True)
class Call:
    """What the caller of a request knows about it.

    Args:
        about: what is asked for, for messages: `look 7`.
        type: content type, for counts.
        stop: ends the waiting for this request alone; None for the client's own.
        repeatable: whether another attempt may be made although the first may have been carried
            out; False for what makes something.
        lane: who goes first at the quota.
        patience_s: how long to wait for a permit at most; None for as long as it takes.
    """

    about: str = ""
    type: str = ""
    stop: StopEvent | None = None
    repeatable: bool = True
    lane: Lane = Lane.BACKFILL
    patience_s: float | None = None


class _Form(msgspec.Struct):
    """Looker's form of an error."""

    message: str
    documentation_url: str | None = None
    errors: list[Any] | None = None


_FORM = msgspec.json.Decoder(_Form)


class SdkTransport(transport.Transport):
    """The SDK's transport over ours. Safe to use from many threads.

    Args:
        http: sends one request.
        gate: the quota and the breaker, asked before each attempt.
        policy: attempts and pauses.
        in_flight: requests at once.
        stop: looked at before each attempt and during each wait.

    Attributes:
        discard: called with the `Authorization` header that the server refused.
        stats: what was sent and answered.
    """

    def __init__(
        self, http: Transport, gate: Gate, *, policy: RetryPolicy, in_flight: int, stop: StopEvent
    ) -> None:
        self._http = http
        self._gate = gate
        self._policy = policy
        self._places = threading.BoundedSemaphore(in_flight)
        self._stop = stop
        self._errors_in_a_row = 0
        self.discard: Callable[[str], None] = lambda _header: None
        self.stats = ClientStats()

    @property
    def stopping(self) -> bool:
        """Whether nothing more is to be sent."""
        return self._stop.is_set()

    @classmethod
    def configure(cls, settings: Any) -> transport.Transport:
        """Not how this one is made."""
        raise NotImplementedError("made by headrace.looker.client.open_client")

    def request(
        self,
        method: transport.HttpMethod,
        path: str,
        query_params: MutableMapping[str, str] | None = None,
        body: bytes | None = None,
        authenticator: Authenticator | None = None,
        transport_options: Any = None,
    ) -> transport.Response:
        """Send a request of the SDK's until it is answered or given up.

        Returns:
            The body as bytes, which the SDK hands on as they are.

        Raises:
            NotFound, AccessRefused, RequestRefused: it was answered so.
            LoginRefused: the credentials are wrong.
            RetriesExhausted: every attempt failed; its cause is the last failure.
            OutageError: the breaker stayed open longer than the gate waits.
            Stopped: the stop event was set.
        """
        options: Mapping[str, Any] = transport_options or {}
        call: Call = options.get("call") or Call()
        target = path.removeprefix(self._http.base_url)
        login = target.endswith(_LOGIN) and method is transport.HttpMethod.POST
        call = Call("the login", "login", call.stop) if login else call
        if query_params:
            target += "?" + urlencode(query_params, errors="surrogatepass")
        sent = {**({"Content-Type": "application/json"} if body else {})}
        sent.update(options.get("headers") or {})
        answer = self._answered(method.name, target, sent, body, authenticator, call)
        return transport.Response(True, answer.body, transport.ResponseMode.BINARY)

    def _answered(
        self,
        method: str,
        target: str,
        sent: Mapping[str, str],
        body: bytes | None,
        authenticator: Authenticator | None,
        call: Call,
    ) -> Response:
        failures: Counter[type[TransientError]] = Counter()
        outages = 0
        renewed = fresh = False
        while True:
            signed = authenticator({}) if authenticator else {}
            lane = Lane.RETRY if failures or fresh else call.lane
            try:
                headers = {**sent, **signed}
                return self._attempt(method, target, headers, body, call, lane, fresh=fresh)
            except AccessRefused as error:
                if error.status != 401 or renewed or not signed:
                    raise
                renewed = True
                self.discard(signed["Authorization"])
            except TransientError as error:
                renewed = False
                fresh = isinstance(error, ConnectionFailed)
                if isinstance(error, ConnectionFailed) and error.stale and call.repeatable:
                    self.stats.retried()
                    continue
                if signed and outages < _MOST_OUTAGES and self._is_outage(error, signed, call):
                    # No request is answered: that is not this request's fault. The breaker waits.
                    outages += 1
                else:
                    failures[type(error)] += 1
                seen = failures[type(error)]
                again = call.repeatable or isinstance(error, Throttled)
                if not again or seen >= self._policy.allowed(error):
                    raise RetriesExhausted(
                        f"given up after {failures.total() + outages} attempts: {error.problem}",
                        product=call.about,
                        status=error.status,
                        hint=error.hint,
                    ) from error
                self.stats.retried()
                (call.stop or self._stop).sleep(self._policy.pause_s(seen + outages))

    def _is_outage(self, error: TransientError, signed: Mapping[str, str], call: Call) -> bool:
        """Whether Looker answers nothing else either, asked with a question that costs it little.

        A gateway that gives up on one heavy page looks like an outage once nothing else is left to
        ask for; without this, two such pages would open the breaker, and an outage would use up
        the attempts of whatever is under way.
        """
        if type(error) not in _OF_AN_OUTAGE or not call.repeatable:
            return False
        about = replace(call, about="whether it is up", type="health", lane=Lane.RETRY)
        try:
            self._attempt("GET", _HEALTH, signed, None, about, Lane.RETRY, fresh=True)
        except _OF_AN_OUTAGE:
            return True
        except RequestError:
            return False  # whatever it says, it speaks
        return False

    def _attempt(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        call: Call,
        lane: Lane,
        *,
        fresh: bool,
    ) -> Response:
        stop = call.stop or self._stop
        # Nothing goes without a login, and the question whether it is up is known to work: each
        # failure of them is evidence. Those of another request are one piece of it together.
        same = "" if call.type in ("login", "health") else f"{method} {target}"
        permit = self._gate.admit(lane=lane, stop=stop, timeout_s=call.patience_s, request=same)
        with self._place(stop), permit as admission:
            admission.sending()
            stop.check()
            self.stats.sent(call.type)
            try:
                response = self._http.send(
                    method, target, headers, body, fresh=fresh or admission.probing
                )
            except ConnectionFailed as error:
                self.stats.failed()
                admission.failed(neutral=error.stale or error.refuses_us, of_host=error.unreachable)
                raise
            self.stats.answered(response.status, response.elapsed_s)
            refused = self._refusal(response, call)
            self._report(admission, response, refused)
            if refused is not None:
                raise refused
            return response

    @contextmanager
    def _place(self, stop: StopEvent) -> Iterator[None]:
        while not self._places.acquire(timeout=_FLAT_S):
            stop.check()
        try:
            yield
        finally:
            self._places.release()

    def _report(
        self, admission: Admission, response: Response, refused: RequestError | None
    ) -> None:
        """Report to the gate what the answer says about the server."""
        if isinstance(refused, AppError):
            self._errors_in_a_row += 1
            if self._errors_in_a_row < OUTAGE_OF_ERRORS:
                admission.failed(neutral=True)
                return
        elif response.status < 400:
            self._errors_in_a_row = 0
        if isinstance(refused, BadAnswer):
            admission.bad_answer()
            return
        retry_after_s = parse_retry_after(response.headers.get("Retry-After"))
        admission.answered(
            status=response.status, retry_after_s=retry_after_s, headers=response.headers
        )

    def _refusal(self, response: Response, call: Call) -> RequestError | None:
        """The error that an answer is, or None if its body is worth reading."""
        status, about = response.status, call.about
        form = _form(response.body) if status >= 400 else None
        said = f": {form.message[:200]}" if form else ""
        if status == 429:
            throttled = Throttled(f"throttled (429{said})", product=about, status=status)
            throttled.retry_after_s = parse_retry_after(response.headers.get("Retry-After"))
            return throttled
        if call.type == "login" and status in (400, 401, 403, 404, 422):
            raise LoginRefused(self._http.base_url, status)
        if status == 500:
            return AppError(f"Looker failed ({status}{said})", product=about, status=status)
        if status >= 500:
            return ServerError(f"the server failed ({status}{said})", product=about, status=status)
        if status == 404 and form is None:
            # Looker says so in its own form; anything else is a proxy that has lost its way.
            return BadAnswer("a 404 that is not Looker's", product=about, status=status)
        if status == 404:
            return NotFound(f"not found ({status}{said})", product=about, status=status)
        if status in (401, 403):
            return AccessRefused(f"access refused ({status}{said})", product=about, status=status)
        if status >= 400:
            more = f" {_fields(form)}" if form and form.errors else ""
            return RequestRefused(f"refused ({status}{said}{more})", product=about, status=status)
        if status >= 300:
            return RequestRefused(
                f"redirected ({status})", product=about, status=status,
                hint="Is this the address of the API?",
            )  # fmt: skip
        return None


def _form(body: bytes) -> _Form | None:
    try:
        return _FORM.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _fields(form: _Form) -> str:
    """What a 422 says field by field."""
    parts = [
        f"{error.get('field')} {error.get('message') or error.get('code')}"
        for error in form.errors or ()
        if isinstance(error, dict)
    ]
    return "; ".join(parts)[:300]
