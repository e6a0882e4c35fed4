"""Who may ask: the check of signed requests (Coinbase Exchange documentation, authentication)."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable
from hashlib import sha256

from pydantic import BaseModel, SecretStr, field_serializer, field_validator

from headrace.sim.http import Reply, Request

KEY_HEADER = "cb-access-key"
_HEADERS = (KEY_HEADER, "cb-access-sign", "cb-access-timestamp", "cb-access-passphrase")
_MAX_SKEW_S = 30.0


class ApiKey(BaseModel, frozen=True, extra="forbid"):
    """A key that the simulated exchange knows. The secret is base64, as the exchange issues it."""

    key: str
    secret: SecretStr
    passphrase: SecretStr

    @field_validator("secret")
    @classmethod
    def _is_base64(cls, secret: SecretStr) -> SecretStr:
        try:
            base64.b64decode(secret.get_secret_value(), validate=True)
        except binascii.Error as error:
            raise ValueError("a secret is base64 text") from error
        return secret

    @field_serializer("secret", "passphrase", when_used="json")
    def _reveal(self, secret: SecretStr) -> str:
        # JSON is how a launcher hands its keys to the server's own process, over a pipe.
        return secret.get_secret_value()

    def sign(self, timestamp: str, method: str, target: str, body: bytes = b"") -> str:
        """The signature of a request: HMAC-SHA256 over timestamp, method, path with query, body."""
        message = f"{timestamp}{method}{target}".encode() + body
        secret = base64.b64decode(self.secret.get_secret_value())
        return base64.b64encode(hmac.new(secret, message, sha256).digest()).decode()


class SignatureCheck:
    """Lets through what is signed with a known key; everything, when no key is known."""

    def __init__(self, keys: Iterable[ApiKey]) -> None:
        self._keys = {key.key: key for key in keys}

    def refuse(self, request: Request, unix_s: float) -> Reply | None:
        """A 401 that says what is wrong, or `None`."""
        if not self._keys:
            return None
        for name in _HEADERS:
            if not request.headers.get(name):
                return _unauthorized(f"{name.upper()} header is required")
        sent_key, signature, timestamp, passphrase = (request.headers[name] for name in _HEADERS)
        key = self._keys.get(sent_key)
        if key is None:
            return _unauthorized("Invalid API Key")
        try:
            skew_s = abs(unix_s - float(timestamp))
        except ValueError:
            return _unauthorized("invalid timestamp")
        if not skew_s <= _MAX_SKEW_S:
            return _unauthorized("request timestamp expired")
        if not _equal(passphrase, key.passphrase.get_secret_value()):
            return _unauthorized("Invalid Passphrase")
        expected = key.sign(timestamp, request.method, request.target, request.body)
        if not _equal(signature, expected):
            return _unauthorized("invalid signature")
        return None


def _equal(sent: str, known: str) -> bool:
    return hmac.compare_digest(sent.encode(), known.encode())


def _unauthorized(message: str) -> Reply:
    return Reply(401, f'{{"message":"{message}"}}'.encode())
