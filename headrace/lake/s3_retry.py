"""One S3 call: attempts with growing, random pauses while it may help, then an error that names it.

Transient is what AWS documents as such: SlowDown and its kin, any 5xx, time-outs, connections that
break, a conditional request that met another. Everything else is permanent at the first answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    SSLError,
    SSOError,
    TokenRetrievalError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.parsers import ResponseParserError
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_before_delay,
    wait_random_exponential,
)

from headrace.lake.exceptions import (
    ObjectMissing,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    StoreUnusable,
)
from headrace.lake.s3_settings import S3Settings
from headrace.stopping import StopEvent

T = TypeVar("T")

_TRANSIENT_CODES = {
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "TooManyRequests",
    "RequestTimeout",
    "RequestTimeoutException",
    "ConditionalRequestConflict",
    "OperationAborted",
}
_NO_WHOLE_ANSWER = (BotoConnectionError, HTTPClientError, IncompleteReadError)
_TRANSIENT_BREAKS = (*_NO_WHOLE_ANSWER, FlexibleChecksumError, ResponseParserError)
_NOT_IMPLEMENTED = 501
_FIRST_PAUSE_S = 0.2
#: What boto3 calls its operations, and the permission that each of them needs.
_PERMISSIONS = {
    "PutObject": "s3:PutObject",
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject and s3:ListBucket",
    "ListObjectsV2": "s3:ListBucket",
    "DeleteObject": "s3:DeleteObject",
}
_RENEW = "Renew the credentials, then run again; what was stored is kept"
_KEY = (
    "Correct the access key or its secret (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile "
    "or the Lake block); look for spaces and line ends in them"
)
_REGION = "Set the bucket's region (AWS_DEFAULT_REGION, or region in the Lake block)"
_ACCOUNT = "Ask the operator of the store about the account"
_KMS = "Correct the KMS key (HEADRACE_S3_KMS_KEY_ID, or kms_key_id in the Lake block)"
#: The next step by S3's code of an error, which says more than the status ("Error responses" in the
#: documentation of S3's API).
_NEXT_STEPS = {
    "ExpiredToken": _RENEW,
    "ExpiredTokenException": _RENEW,
    "InvalidToken": _RENEW,
    "TokenRefreshRequired": _RENEW,
    "RequestExpired": _RENEW,
    "RequestTimeTooSkewed": "Set this machine's clock by NTP (timedatectl set-ntp true)",
    "InvalidAccessKeyId": _KEY,
    "InvalidClientTokenId": _KEY,
    "UnrecognizedClientException": _KEY,
    "SignatureDoesNotMatch": _KEY,
    "InvalidSecurity": _KEY,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "PermanentRedirect": _REGION,
    "SecondLevelDomainForbidden": "Set HEADRACE_S3_ADDRESSING_STYLE, or addressing_style in the "
    "Lake block, to virtual",
    "InvalidBucketName": "Correct the bucket's name, or set the addressing style to path",
    "AccountProblem": _ACCOUNT,
    "AllAccessDisabled": _ACCOUNT,
    "NotSignedUp": _ACCOUNT,
    "KMS.DisabledException": _KMS,
    "KMS.NotFoundException": _KMS,
    "KMS.InvalidStateException": _KMS,
    "KMS.KMSInvalidStateException": _KMS,
}
_OF_CREDENTIALS = {code for code, step in _NEXT_STEPS.items() if step in (_RENEW, _KEY)}


class S3Call:
    """One call on one object, with all its attempts.

    Args:
        action: boto3's name of the operation, as in `PutObject`.
        place: s3://bucket/key, for messages.
        settings: how long to insist, and the longest pause.
        stop: ends a pause when it is set.
        broken: called when an attempt found no whole answer: what kept connections there are may be
            as broken as that one.
    """

    def __init__(
        self,
        action: str,
        place: str,
        settings: S3Settings,
        stop: StopEvent,
        broken: Callable[[], None] = lambda: None,
    ) -> None:
        self._action = action
        self._broken = broken
        self._place = place
        self._settings = settings
        self._stop = stop
        self._attempts = 0

    def run(self, attempt: Callable[[int], T]) -> T:
        """Call `attempt` with 1, 2, ... until it succeeds, fails for good, or time is up.

        Raises:
            StoreUnavailable: if transient failures outlasted `give_up_after_s`.
            PermanentStoreError: on the first failure that is not transient.
            Stopped: if the stop was asked for during a pause.
        """
        began = time.monotonic()
        try:
            return self._once(attempt)
        except (BotoCoreError, ClientError) as error:
            if not is_transient(error):
                raise self._permanent(error) from error
            return self._again(attempt, error, time.monotonic() - began)

    def _again(
        self, attempt: Callable[[int], T], failure: BotoCoreError | ClientError, spent_s: float
    ) -> T:
        """What follows a first failure, which is reported to the caller first.

        A call that succeeds at once, as nearly all do, is spared the machinery.
        """
        failures = [failure]

        def once() -> T:
            if failures:
                raise failures.pop()
            return self._once(attempt)

        retrying = Retrying(
            retry=retry_if_exception(is_transient),
            wait=wait_random_exponential(_FIRST_PAUSE_S, self._settings.longest_pause_s),
            stop=stop_before_delay(max(0.0, self._settings.give_up_after_s - spent_s)),
            sleep=self._stop.sleep,
            retry_error_callback=self._give_up,
        )
        try:
            result: T = retrying(once)
        except (BotoCoreError, ClientError) as error:
            raise self._permanent(error) from error
        return result

    def _once(self, attempt: Callable[[int], T]) -> T:
        self._attempts += 1
        try:
            return attempt(self._attempts)
        except _NO_WHOLE_ANSWER:
            self._broken()
            raise

    def _give_up(self, state: RetryCallState) -> NoReturn:
        error = state.outcome.exception() if state.outcome else None
        raise StoreUnavailable(
            self._action,
            self._place,
            _reason(error),
            attempts=state.attempt_number,
            elapsed_s=state.seconds_since_start or 0.0,
        ) from error

    def _permanent(self, error: BotoCoreError | ClientError) -> StoreError:
        action, place, reason = self._action, self._place, _reason(error)
        if isinstance(error, NoCredentialsError | PartialCredentialsError):
            hint = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile"
            return StoreDenied(action, place, reason, hint=hint)
        if isinstance(error, CredentialRetrievalError | TokenRetrievalError | SSOError):
            return StoreDenied(action, place, reason, hint=_RENEW)
        if not isinstance(error, ClientError):
            return StoreUnusable(action, place, reason)
        code, status = code_of(error), status_of(error)
        if code == "NoSuchBucket":
            return StoreUnusable(action, place, "there is no such bucket", hint="Create it first")
        if status == 404:
            return ObjectMissing(action, place, reason)
        if status in (401, 403) or code in _OF_CREDENTIALS:
            hint = _NEXT_STEPS.get(code) or self._permission_hint()
            return StoreDenied(action, place, reason, hint=hint)
        if code in _NEXT_STEPS:
            return StoreUnusable(action, place, reason, hint=_NEXT_STEPS[code])
        if status in (400, _NOT_IMPLEMENTED) and self._settings.checksums == "when_supported":
            hint = "If the store does not know the newer checksum headers, set checksums to "
            return StoreUnusable(action, place, reason, hint=f"{hint}when_required")
        return StoreUnusable(action, place, reason)

    def _permission_hint(self) -> str:
        allow = f"Allow {_PERMISSIONS.get(self._action, self._action)} to these credentials"
        if self._action == "PutObject" and not self._settings.encryption:
            allow += (
                "; if the bucket's policy demands encryption, set "
                "HEADRACE_S3_SERVER_SIDE_ENCRYPTION, or server_side_encryption in the Lake block"
            )
        return f"{allow}; this answer does not say whether the object exists"


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed a little later."""
    if isinstance(error, ClientError):
        status = status_of(error)
        return (status >= 500 and status != _NOT_IMPLEMENTED) or (
            status in (408, 429) or code_of(error) in _TRANSIENT_CODES
        )
    return isinstance(error, _TRANSIENT_BREAKS) and not isinstance(error, SSLError)


def status_of(error: ClientError) -> int:
    """The HTTP status of the answer, 0 if there was none."""
    metadata = error.response.get("ResponseMetadata")
    return metadata["HTTPStatusCode"] if metadata else 0


def code_of(error: ClientError) -> str:
    """S3's code of the error; for an answer without a body, the status as text."""
    return error.response.get("Error", {}).get("Code", "")


def _reason(error: BaseException | None) -> str:
    if not isinstance(error, ClientError):
        return str(error)
    details = error.response.get("Error", {})
    return f"{details.get('Code', '?')} {details.get('Message', '')} (HTTP {status_of(error)})"
