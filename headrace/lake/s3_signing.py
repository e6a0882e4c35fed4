"""Signature Version 4 of a GET request, for thousands of them (AWS, "Signing AWS API requests").

botocore signs one request in half a millisecond of CPU. Here the key of the day is derived once and
a signature is two hashes. Which host, path, region and service it is for is botocore's to say: it
presigns one URL, and the form of that is kept.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import parse_qs, quote, urlsplit

from botocore.credentials import ReadOnlyCredentials

from headrace.wire import Origin

_ALGORITHM = "AWS4-HMAC-SHA256"
_NOTHING = hashlib.sha256(b"").hexdigest()
#: What a presigned URL of plain Signature Version 4 holds; another parameter means another scheme.
_KNOWN = {
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    "X-Amz-Security-Token",
    "X-Amz-Signature",
    "x-id",
}


@dataclass(frozen=True, slots=True)
class Form:
    """Where requests about the objects of one bucket go, and what their signatures are for.

    Args:
        origin: the server.
        path: what stands before an object's key, with the slash between them.
        region, service: of the credential scope.
    """

    origin: Origin
    path: str
    region: str
    service: str

    @classmethod
    def of(cls, presigned: str, key: str) -> Form | None:
        """The form of a URL that botocore presigned for `key`; None if it is not of the plain kind.

        S3 Express, Outposts and multi-region access points sign in other ways.
        """
        parts = urlsplit(presigned)
        query = parse_qs(parts.query)
        path = quoted(key)
        scope = query.get("X-Amz-Credential", [""])[0].split("/")[-4:]
        plain = query.get("X-Amz-Algorithm") == [_ALGORITHM] and query.keys() <= _KNOWN
        if not plain or not parts.path.endswith("/" + path) or len(scope) != 4:
            return None
        _day, region, service, _end = scope
        origin = Origin.of(presigned)
        return cls(origin, parts.path[: -len(path)], region, service)


def quoted(key: str) -> str:
    """A key as it stands in a path, and in a canonical request."""
    return quote(key, safe="/-_.~")


class Signer:
    """Signs GET requests about one bucket and its objects.

    Args:
        form: what to sign for.
        credentials: the credentials at this moment; they may be renewed between two calls.
        now: the time.
    """

    def __init__(
        self,
        form: Form,
        credentials: Callable[[], ReadOnlyCredentials],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._form = form
        self._credentials = credentials
        self._now = now
        self._host = form.origin.host_header

    def tail(self, key: str, last_bytes: int) -> bytes:
        """The head of a request for the last bytes of an object, as sent."""
        return self._request(self._form.path + quoted(key), "", {"range": f"bytes=-{last_bytes}"})

    def listing(self, query: Mapping[str, str]) -> bytes:
        """The head of a request about the bucket itself, as sent."""
        pairs = sorted((quote(name, safe=""), quote(query[name], safe="-_.~")) for name in query)
        written = "&".join(f"{name}={value}" for name, value in pairs)
        return self._request(self._form.path.rstrip("/") or "/", written, {})

    def _request(self, path: str, query: str, extra: Mapping[str, str]) -> bytes:
        who, moment = self._credentials(), self._now().strftime("%Y%m%dT%H%M%SZ")
        headers = {
            "host": self._host,
            **extra,
            "x-amz-content-sha256": _NOTHING,
            "x-amz-date": moment,
        }
        if who.token:
            headers["x-amz-security-token"] = who.token
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        canonical = f"GET\n{path}\n{query}\n{lines}\n{names}\n{_NOTHING}"
        scope = f"{moment[:8]}/{self._form.region}/{self._form.service}/aws4_request"
        hashed = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"{_ALGORITHM}\n{moment}\n{scope}\n{hashed}"
        secret = _key_of(who.secret_key, moment[:8], self._form.region, self._form.service)
        signature = hmac.digest(secret, text.encode(), "sha256").hex()
        sent = "".join(f"{name.title()}: {value}\r\n" for name, value in headers.items())
        target = f"{path}?{query}" if query else path
        return (
            f"GET {target} HTTP/1.1\r\n{sent}Authorization: {_ALGORITHM} "
            f"Credential={who.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
            "\r\n\r\n"
        ).encode("ascii")


@lru_cache(maxsize=8)
def _key_of(secret: str, day: str, region: str, service: str) -> bytes:
    """The signing key of a day."""
    key = b"AWS4" + secret.encode()
    for text in (day, region, service, "aws4_request"):
        key = hmac.digest(key, text.encode(), "sha256")
    return key
