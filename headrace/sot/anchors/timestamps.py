"""Time stamps of RFC 3161: an authority signs that a statement existed at some time."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from headrace.errors import ConfigurationError
from headrace.evidence.exceptions import BadStatement
from headrace.extras import require
from headrace.sot.anchors.exceptions import StampRefused
from headrace.stopping import STOP, StopEvent
from headrace.wire.exceptions import RequestError
from headrace.wire.transport import Timeouts, Transport, check_base_url

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_TIMEOUTS = Timeouts(connect_s=10, read_s=30, total_s=60)


@dataclass(frozen=True, slots=True)
class Stamp:
    """An authority's answer, as it was sent.

    Attributes:
        authority: its address.
        response: TimeStampResp of RFC 3161, DER.
    """

    authority: str
    response: bytes

    def as_dict(self) -> dict[str, Any]:
        """Its JSON form."""
        return {"authority": self.authority, "response": base64.b64encode(self.response).decode()}


def check_authority(authority: str) -> None:
    """Return if this can be the address of an authority.

    Raises:
        ConfigurationError: it is no http or https URL.
    """
    parts = urlsplit(authority)
    try:
        check_base_url(f"{parts.scheme}://{parts.netloc}")
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{authority!r} is no address of a time-stamp authority",
            hint="An http or https URL, as in http://timestamp.example.com/tsa",
        ) from error


def stamp_of(found: Any, *, where: str) -> Stamp:
    """A stamp from its JSON form.

    Raises:
        BadStatement: it is none.
    """
    try:
        response = base64.b64decode(found["response"], validate=True)
        return Stamp(str(found["authority"]), response)
    except (KeyError, TypeError, ValueError) as error:
        raise BadStatement(where, f"its time stamp is damaged: {error}") from error


def request_stamp(authority: str, message: bytes, *, stop: StopEvent = STOP) -> Stamp:
    """Have an authority sign when a message existed; what it answers is looked at only in form.

    Args:
        authority: http or https address of a server of RFC 3161.
        message: what is stamped, by its SHA-256.
        stop: breaks it off.

    Raises:
        StampRefused: there is no answer, or it is a refusal.
        ConfigurationError: the address cannot be used.
    """
    check_authority(authority)
    require("evidence")
    from rfc3161_client import HashAlgorithm, PKIStatus, TimestampRequestBuilder

    asked = TimestampRequestBuilder(
        data=message, hash_algorithm=HashAlgorithm.SHA256, nonce=True, cert_req=True
    ).build()
    parts = urlsplit(authority)
    base = f"{parts.scheme}://{parts.netloc}"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Content-Type": "application/timestamp-query"}
    try:
        with Transport(base, timeouts=_TIMEOUTS, stop=stop) as transport:
            answer = transport.send("POST", path, headers, asked.as_bytes())
    except RequestError as error:
        raise StampRefused(authority, error.message, hint=error.hint) from error
    if answer.status != 200:
        raise StampRefused(authority, f"it answered with status {answer.status}")
    decoded = _decoded(authority, answer.body)
    if decoded.status not in (PKIStatus.GRANTED, PKIStatus.GRANTED_WITH_MODS):
        words = " ".join(decoded.status_string) or f"PKI status {decoded.status}"
        raise StampRefused(authority, f"it refused: {words}")
    if decoded.tst_info.nonce != asked.nonce:
        raise StampRefused(authority, "it answered another request")
    return Stamp(authority, answer.body)


def check_stamp(
    stamp: Stamp, message: bytes, roots: tuple[Certificate, ...], *, now: datetime
) -> datetime:
    """When the authority says that the message existed.

    Args:
        stamp: as it was kept.
        message: what was stamped.
        roots: certificates that are trusted to be authorities, or to have named them.
        now: only for words: a certificate has to have been valid when it stamped.

    Raises:
        StampRefused: the signature, the certificates or the message do not fit.
    """
    from cryptography.x509 import load_der_x509_certificate
    from rfc3161_client import VerificationError, VerifierBuilder

    decoded = _decoded(stamp.authority, stamp.response)
    try:
        at: datetime = decoded.tst_info.gen_time
        given = [load_der_x509_certificate(one) for one in decoded.signed_data.certificates]
    except ValueError as error:
        raise StampRefused(stamp.authority, str(error)) from error
    for certificate in (*given, *roots):
        _check_time(stamp.authority, certificate, at, now)
    verifier = VerifierBuilder(roots=list(roots)).build()
    try:
        verifier.verify_message(decoded, message)
    except (VerificationError, ValueError) as error:
        raise StampRefused(
            stamp.authority, str(error), hint="Are the certificates in --tsa-ca those of it?"
        ) from error
    return at


def _check_time(authority: str, certificate: Certificate, at: datetime, now: datetime) -> None:
    name = certificate.subject.rfc4514_string()
    until, since = certificate.not_valid_after_utc, certificate.not_valid_before_utc
    if at > until:
        raise StampRefused(
            authority,
            f"the certificate {name} had expired on {until:%Y-%m-%d} when it stamped "
            f"({at:%Y-%m-%d}; today is {now:%Y-%m-%d})",
            hint="The authority has to renew it; take another one until then",
        )
    if at < since:
        raise StampRefused(
            authority, f"the certificate {name} is valid from {since:%Y-%m-%d}, it stamped before"
        )


def load_roots(path: str) -> tuple[Certificate, ...]:
    """The certificates of a PEM file.

    Raises:
        ConfigurationError: it cannot be read, or holds none.
    """
    require("evidence")
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return tuple(load_pem_x509_certificates(Path(path).read_bytes()))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigurationError(
            f"{path} holds no certificates", hint="PEM, as the authority publishes them"
        ) from error


def _decoded(where: str, response: bytes) -> Any:
    from rfc3161_client import decode_timestamp_response

    try:
        return decode_timestamp_response(response)
    except ValueError as error:
        raise StampRefused(where, f"it is no answer of RFC 3161 ({error})") from error
