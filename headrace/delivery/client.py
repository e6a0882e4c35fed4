"""One attempt of one request: its permit, its key and nonce, the answer, and what that means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any
from urllib.parse import quote

import msgspec

from headrace.delivery.model import Pending
from headrace.errors import ConfigurationError, PlaceError
from headrace.logs.redaction import safe_text
from headrace.quota import Admission, Gate, KeyAdmission, KeyPool, Lane, PermitTimeout
from headrace.run.report import Row
from headrace.stopping import StopEvent
from headrace.wire.client import HttpClient, Request, RetryPolicy
from headrace.wire.exceptions import (
    BadAnswer,
    ConnectionFailed,
    KeyRefused,
    LocalFailure,
    PutOff,
    RequestError,
    RequestRefused,
    ServerError,
    Throttled,
    TransientError,
)
from headrace.wire.transport import Response, Transport

_NO_BODY = frozenset({204, 205})
_REFUSES_THE_KEY = frozenset({401, 403})
_ANOTHER_TIME = frozenset({408, 425})
_MOST_WORDS = 120
#: What the body of an answer 400 holds that is about the nonce.
_NONCE = b"nonce"


class NonceRefused(TransientError):
    """The server answered 400 because of the nonce: one with a higher nonce came first."""


class Expired(Exception):
    """The time to live of a request was over before it left."""


class KeyMissing(PlaceError, ConfigurationError):
    """The server refuses requests that have no key."""

    said = "{where} refuses requests without an API key: {reason}"
    way_out = "Name a block of keys by --keys block:NAME, or set HEADRACE_API_KEYS"


#: What attempts of a key are counted as, other than successes and failures.
_COUNTED: dict[type[RequestError], str] = {
    Throttled: "throttled",
    NonceRefused: "nonces_refused",
    KeyRefused: "key_refused",
}


@dataclass(slots=True)
class KeyedRequest(Request):
    """A request on its way, and the one that it is an attempt of."""

    pending: Pending = field(kw_only=True)


class KeyedClient(HttpClient):
    """Sends requests once each, signed by the key that the permit names.

    Where the admission names a key, `api_key` and `nonce` are added to the request when it leaves:
    as fields of its body if that is a JSON object, else to its query.
    """

    def __init__(self, transport: Transport, gate: Gate | KeyPool, *, stop: StopEvent) -> None:
        super().__init__(transport, gate, RetryPolicy())
        self._stop = stop
        self._of_key: Counter[tuple[str, str]] = Counter()
        self._counting = Lock()

    def try_once(self, pending: Pending) -> float:
        """Send it once, when there is a permit; return the seconds from departure to the answer.

        Raises:
            Expired: it has not left; its time to live is over, or would be by the time of a permit.
            Stopped: the stop was asked for; `pending.left` says whether it has left.
            RequestError: it left and failed, or could not leave.
            KeyMissing: the server wants a key, and there is none.
            OutageError: the breaker stayed open longer than the gate waits.
        """
        pending.left = False
        request = pending.request
        left_s = pending.left_s(monotonic())
        if left_s is not None and left_s <= 0:
            raise Expired
        attempt = KeyedRequest(
            request.path,
            self._stop,
            request.method,
            body=request.body,
            lane=Lane.RETRY if pending.tries else Lane.BACKFILL,
            patience_s=left_s,
            repeatable=request.may_repeat,
            fresh=pending.fresh,
            id=f"request {pending.id}",
            pending=pending,
        )
        try:
            took_s = self.attempt(attempt, _read)
        except PermitTimeout as error:
            raise Expired from error
        except RequestError as error:
            self._count(pending.key, _COUNTED.get(type(error), "failures"))
            if pending.key or not isinstance(error, KeyRefused):
                raise
            pending.left = False  # it had no effect
            raise KeyMissing(self.source, error.problem) from error
        self._count(pending.key, "successes")
        return took_s

    def by_key(self) -> list[Row]:
        """Attempts of each key by what became of them; none where requests have no key."""
        with self._counting:
            counts = dict(self._of_key)
        labels = sorted({label for label, _ in counts if label})
        names = ("successes", *_COUNTED.values(), "failures")
        return [
            {"key": label, **{name: counts.get((label, name), 0) for name in names}}
            for label in labels
        ]

    def _count(self, label: str, what: str) -> None:
        with self._counting:
            self._of_key[label, what] += 1

    def outgoing(
        self, request: Request, admission: Admission | KeyAdmission
    ) -> tuple[str, Mapping[str, str], bytes | None]:
        """Sign it, unless it has expired while it waited."""
        assert isinstance(request, KeyedRequest), "this client makes no others"
        path, body, pending = request.path, request.body, request.pending
        if isinstance(admission, KeyAdmission):
            pending.key = admission.key.label
            secret = admission.key.secret.get_secret_value()
            path, body = signed(path, body, secret, admission.nonce())
        left_s = pending.left_s(monotonic())
        if left_s is not None and left_s <= 0:
            raise Expired
        pending.left = True
        headers = {"Content-Type": "application/json"} if body is not None else {}
        return path, headers, body

    def report(
        self,
        admission: Admission | KeyAdmission,
        request: Request,
        response: Response,
        refused: RequestError | None,
    ) -> None:
        """See `HttpClient.report`; what it says of nonces and time goes to the key's quota."""
        if isinstance(admission, KeyAdmission) and (
            refused is None or isinstance(refused, NonceRefused)
        ):
            admission.answered(
                response.status,
                headers=response.headers,
                out_of_order=refused is not None,
                counted_s=_counted_s(response.body) if refused is None else None,
            )
            return
        super().report(admission, request, response, refused)


def signed(path: str, body: bytes | None, key: str, nonce: int) -> tuple[str, bytes | None]:
    """Path and body with the key and the nonce in them."""
    fields = _object(body)
    if fields is not None:
        return path, msgspec.json.encode({**fields, "api_key": key, "nonce": nonce})
    joint = "&" if "?" in path else "?"
    return f"{path}{joint}api_key={quote(key, safe='')}&nonce={nonce}", body


def _object(body: bytes | None) -> dict[str, Any] | None:
    if body is None:
        return None
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def _read(response: Response) -> float:
    """The seconds that a good answer took.

    Raises:
        RequestError: what the answer means, if it is none.
    """
    status = response.status
    if 200 <= status < 300:
        if status not in _NO_BODY and not _is_json(response.body):
            raise BadAnswer(f"the server answered {status} without JSON", status=status)
        return response.elapsed_s
    said = f"{status}{_code(response.body)}"
    if status == 429:
        raise Throttled(f"throttled ({said})", status=status)
    if status >= 500:
        raise ServerError(f"the server failed ({said})", status=status)
    if status in _REFUSES_THE_KEY:
        raise KeyRefused(f"the server refused the key ({said})", status=status)
    if status in _ANOTHER_TIME:
        raise PutOff(f"the server did not take the request now ({said})", status=status)
    if status == 400 and _NONCE in response.body.lower():
        raise NonceRefused(f"the server refused the nonce ({said})", status=status)
    raise RequestRefused(f"the server refused the request ({said})", status=status)


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


class _Said(msgspec.Struct):
    error_code: str | int = ""
    timestamp: str | float | None = None


_SAID = msgspec.json.Decoder(_Said)
_SAID_NOTHING = _Said()


def _said(body: bytes) -> _Said:
    try:
        return _SAID.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return _SAID_NOTHING


def _code(body: bytes) -> str:
    """The server's code of the error. Its words are not quoted: they may repeat the key."""
    code = str(_said(body).error_code)
    return f", {safe_text(code[:_MOST_WORDS])}" if code else ""


def _counted_s(body: bytes) -> float | None:
    """When the server says that it took the request, if it says so in Unix milliseconds."""
    said = _said(body).timestamp
    return said / 1000 if isinstance(said, float) else None


def had_no_effect(error: RequestError) -> bool:
    """Whether it is certain that the server did not carry the request out."""
    if isinstance(error, ConnectionFailed):
        return error.unreachable
    refusals = Throttled | PutOff | LocalFailure | KeyRefused | NonceRefused
    return isinstance(error, refusals)
