"""What the SDK sends through: every attempt with a permit of its own, retries, one renewal.

Status, headers and bytes are visible here, which the SDK's own errors do not carry. What is an
error is raised here, so that the SDK never reads an error's body: it would fetch the page behind
its documentation URL, over the network, for every error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import msgspec
from looker_sdk.rtl import transport

from headrace.looker.exceptions import AccessRefused, AppError, LoginRefused, NotFound
from headrace.quota import Admission, Gate, KeyAdmission, Lane
from headrace.stopping import StopEvent
from headrace.wire.client import Answer, HttpClient, Read, Request, RetryPolicy
from headrace.wire.exceptions import (
    BadAnswer,
    ConnectionFailed,
    RequestError,
    RequestRefused,
    ServerError,
    Throttled,
    TransientError,
)
from headrace.wire.transport import Response, Transport

Authenticator = Callable[[transport.TransportOptions], dict[str, str]]

#: Errors of Looker's own making, one after the other and without any success between them, from
#: which on they are taken for an outage. Fewer only say that some items cannot be had.
OUTAGE_OF_ERRORS = 20
_LOGIN = "/login"
_HEALTH = "/api/4.0/user?fields=id"
#: What a server that is away answers: a gateway's error, nothing, or a page that is not Looker's.
_OF_AN_OUTAGE = (ServerError, ConnectionFailed, BadAnswer)
#: How often what waits for a place looks at its stop.
_LOOK_UP_S = 0.2


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


@dataclass(slots=True)
class _SdkRequest(Request):
    """A request of the SDK's.

    Attributes:
        authenticator: logs in where that is due, and gives the header that says so.
        sent: the headers beside it.
        signed: the header, as of the latest attempt.
        renewed: whether the token was renewed since the last failure.
    """

    authenticator: Authenticator | None = None
    sent: Mapping[str, str] = field(default_factory=dict)
    signed: Mapping[str, str] = field(default_factory=dict)
    renewed: bool = False


class SdkTransport(HttpClient, transport.Transport):
    """The SDK's transport over ours. Safe to use from many threads.

    Args:
        http: sends one request.
        gate: the quota and the breaker, asked before each attempt.
        policy: attempts and pauses.
        in_flight: requests at once.
        stop: looked at before each attempt and during each wait.

    Attributes:
        discard: called with the `Authorization` header that the server refused.
    """

    def __init__(
        self, http: Transport, gate: Gate, *, policy: RetryPolicy, in_flight: int, stop: StopEvent
    ) -> None:
        super().__init__(http, gate, policy)
        self._places = threading.BoundedSemaphore(in_flight)
        self._stop = stop
        self._errors_in_a_row = 0
        self.discard: Callable[[str], None] = lambda _header: None

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
        target = path.removeprefix(self.source)
        login = target.endswith(_LOGIN) and method is transport.HttpMethod.POST
        call = Call("the login", "login", call.stop) if login else call
        if query_params:
            target += "?" + urlencode(query_params, errors="surrogatepass")
        asked = _SdkRequest(
            target,
            call.stop or self._stop,
            method=method.name,
            body=body,
            about=call.about,
            counted_as=call.type,
            lane=call.lane,
            patience_s=call.patience_s,
            repeatable=call.repeatable,
            # Nothing goes without a login: each failure of one is evidence.
            of_host=login,
            authenticator=authenticator,
            sent={
                **({"Content-Type": "application/json"} if body else {}),
                **(options.get("headers") or {}),
            },
        )
        answer = self.ask(asked, self._read_login if login else self._read)
        return transport.Response(True, answer.body, transport.ResponseMode.BINARY)

    def prepare(self, request: Request) -> None:
        """Log in, if that is due; it is a request of its own."""
        if isinstance(request, _SdkRequest):
            request.signed = request.authenticator({}) if request.authenticator else {}
            request.headers = {**request.sent, **request.signed}

    def attempt(self, request: Request, read: Read[Answer]) -> Answer:
        """See `HttpClient.attempt`; no more at once than there are places."""
        while not self._places.acquire(timeout=_LOOK_UP_S):
            request.stop.check()
        try:
            return super().attempt(request, read)
        finally:
            self._places.release()

    def goes_again_at_once(self, request: Request, error: RequestError) -> bool:
        """See `HttpClient.goes_again_at_once`; so does the first one whose token is refused."""
        assert isinstance(request, _SdkRequest), "the only kind that is asked more than once"
        if isinstance(error, AccessRefused) and error.status == 401 and request.signed:
            first, request.renewed = not request.renewed, True
            if first:
                self.discard(request.signed["Authorization"])
            return first
        request.renewed = False
        return super().goes_again_at_once(request, error)

    def is_outage(self, request: Request, error: TransientError) -> bool:
        """Whether Looker answers nothing else either, asked with a question that costs it little.

        A gateway that gives up on one heavy page looks like an outage once nothing else is left to
        ask for; without this, two such pages would open the breaker, and an outage would use up
        the attempts of whatever is under way.
        """
        assert isinstance(request, _SdkRequest), "the only kind that is asked more than once"
        if type(error) not in _OF_AN_OUTAGE or not request.repeatable or not request.signed:
            return False
        health = Request(
            _HEALTH,
            request.stop,
            headers=request.signed,
            counted_as="health",
            lane=Lane.RETRY,
            patience_s=request.patience_s,
            of_host=True,
            fresh=True,
        )
        return self.fails(health)

    def read_known(self, response: Response) -> None:
        """See that it is an answer of Looker."""
        self._read(response)

    def report(
        self,
        admission: Admission | KeyAdmission,
        request: Request,
        response: Response,
        refused: RequestError | None,
    ) -> None:
        """See `HttpClient.report`; an error of Looker's own is mostly one of the item alone."""
        if isinstance(refused, AppError):
            self._errors_in_a_row += 1
            if self._errors_in_a_row < OUTAGE_OF_ERRORS:
                admission.failed(neutral=True)
                return
        elif response.status < 400:
            self._errors_in_a_row = 0
        super().report(admission, request, response, refused)

    def _read_login(self, response: Response) -> Response:
        if response.status in (400, 401, 403, 404, 422):
            raise LoginRefused(self.source, response.status)
        return self._read(response)

    def _read(self, response: Response) -> Response:
        if refused := _refusal(response):
            raise refused
        return response


def _refusal(response: Response) -> RequestError | None:
    """The error that an answer is, or None if its body is worth reading."""
    status = response.status
    form = _form(response.body) if status >= 400 else None
    said = f": {form.message[:200]}" if form else ""
    if status == 429:
        return Throttled(f"throttled (429{said})", status=status)
    if status == 500:
        return AppError(f"Looker failed ({status}{said})", status=status)
    if status >= 500:
        return ServerError(f"the server failed ({status}{said})", status=status)
    if status == 404 and form is None:
        # Looker says so in its own form; anything else is a proxy that has lost its way.
        return BadAnswer("a 404 that is not Looker's", status=status)
    if status == 404:
        return NotFound(f"not found ({status}{said})", status=status)
    if status in (401, 403):
        return AccessRefused(f"access refused ({status}{said})", status=status)
    if status >= 400:
        more = f" {_fields(form)}" if form and form.errors else ""
        return RequestRefused(f"refused ({status}{said}{more})", status=status)
    if status >= 300:
        return RequestRefused(
            f"redirected ({status})", status=status,
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
