"""Listings and the ends of many S3 objects with less of the CPU that boto3 takes for them.

A run and an audit list and read the footers of thousands of parts, and then boto3's machinery
around each request is what takes the time (docs/benchmarks.md). So boto3 says once, with everything
it knows of endpoints, regions and credentials, what a request looks like; the thousands are signed
here and carried by `headrace.wire`. Where the store wants another kind of signature, this is not
used. Failures are raised as botocore's errors, so that one place decides what is transient; none of
their messages shows a signed request.

The signature is Version 4 of a GET request (AWS, "Signing AWS API requests"), for which botocore
takes half a millisecond of CPU. Here the key of the day is derived once and a signature is two
hashes. Which host, path, region and service it is for is botocore's to say: it presigns one URL,
and the form of that is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote_plus, urlsplit
from xml.etree import ElementTree

from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import ClientError, HTTPClientError, ProxyConnectionError, SSLError
from botocore.parsers import ResponseParserError

from headrace.lake.s3_settings import S3Settings
from headrace.wire import (
    Limits,
    Origin,
    Pool,
    ProxyRefused,
    Reply,
    Unreachable,
    WireError,
    proxy_for,
    tls_context,
)

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials
    from mypy_boto3_s3 import S3Client


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


#: What boto3 itself reads to know whom to trust, before the variables that all clients share.
AWS_CA_BUNDLE = "AWS_CA_BUNDLE"
_VALID_S = 60
_ANY_KEY = "any/key"
#: What boto3 and the wire call the parameters of a listing.
_QUERY = {
    "Prefix": "prefix",
    "Delimiter": "delimiter",
    "MaxKeys": "max-keys",
    "ContinuationToken": "continuation-token",
    "StartAfter": "start-after",
}
_CODE = re.compile(rb"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(rb"<Message>([^<]{1,500})</Message>")


class FastReader:
    """Lists one bucket and fetches the ends of its objects.

    Args:
        origin: where requests go.
        signer: makes them.
        settings: time-outs and the number of connections.
    """

    def __init__(self, origin: Origin, signer: Signer, settings: S3Settings) -> None:
        limits = Limits(settings.connect_timeout_s, settings.read_timeout_s)
        tls = tls_context(AWS_CA_BUNDLE) if origin.scheme == "https" else None
        self._origin = origin
        self._signer = signer
        self._proxy = proxy_for(origin)
        self._pool = Pool(origin, limits, keep=settings.connections, tls=tls, proxy=self._proxy)

    @classmethod
    def of(
        cls,
        client: S3Client,
        bucket: str,
        settings: S3Settings,
        credentials: Callable[[], ReadOnlyCredentials],
    ) -> FastReader | None:
        """A reader of what `client` would read.

        None where only boto3 knows how: with another kind of signature.

        Args:
            client: presigns one URL, which shows what requests look like.
            bucket: where the objects are.
            settings: time-outs and the number of connections.
            credentials: the credentials at this moment.

        Raises:
            BotoCoreError: if nothing can be signed.
        """
        presigned = client.generate_presigned_url(
            "get_object", Params={"Bucket": bucket, "Key": _ANY_KEY}, ExpiresIn=_VALID_S
        )
        form = Form.of(presigned, _ANY_KEY)
        if form is None:
            return None
        return cls(form.origin, Signer(form, credentials), settings)

    def tail(self, key: str, size_bytes: int) -> bytes:
        """The last `size_bytes` of the object, or all of it if it is shorter.

        Raises:
            ClientError: if S3 answers with an error.
            HTTPClientError: if there is no whole answer.
            BotoCoreError: if the request cannot be signed.
        """
        answer = self._ask(lambda: self._signer.tail(key, size_bytes))
        if answer.status in (200, 206):
            return answer.body[-size_bytes:]
        raise _refusal("GetObject", answer)

    def page(self, where: Mapping[str, Any]) -> dict[str, Any]:
        """One page of `ListObjectsV2`, asked and answered as boto3 does, as far as we use it.

        Raises:
            ClientError, HTTPClientError, BotoCoreError: as `tail`.
            ResponseParserError: if the answer is no listing.
        """
        query = {"list-type": "2", "encoding-type": "url"}
        query |= {name: str(where[long]) for long, name in _QUERY.items() if long in where}
        answer = self._ask(lambda: self._signer.listing(query))
        if answer.status != 200:
            raise _refusal("ListObjectsV2", answer)
        return parse_listing(answer.body)

    def _ask(self, signed: Callable[[], bytes]) -> Reply:
        try:
            try:
                return self._pool.ask(signed())
            except WireError as error:
                if not error.stale:
                    raise
                return self._pool.ask(signed(), fresh=True)
        except WireError as error:
            insecure = isinstance(error, Unreachable) and error.insecure
            if self._proxy and not insecure and isinstance(error, Unreachable | ProxyRefused):
                raise ProxyConnectionError(proxy_url=f"{self._proxy}: {error}") from None
            if insecure:
                url = f"{self._origin.scheme}://{self._origin.host_header}"
                raise SSLError(endpoint_url=url, error=error) from None
            raise HTTPClientError(error=error) from None


def parse_listing(content: bytes) -> dict[str, Any]:
    """The XML of a listing as the dictionary that boto3 makes of it, as far as we use it.

    Raises:
        ResponseParserError: if it is none.
    """
    try:
        root = ElementTree.fromstring(content)
        space = root.tag.rpartition("}")[0] + "}" if "}" in root.tag else ""
        if root.tag != f"{space}ListBucketResult":
            raise ValueError("not a ListBucketResult")
        encoded = root.findtext(f"{space}EncodingType") == "url"

        def plain(item: ElementTree.Element, name: str) -> str:
            text = item.findtext(space + name)
            if text is None:
                raise ValueError(f"an entry without {name}")
            return unquote_plus(text) if encoded else text

        page: dict[str, Any] = {
            "Contents": [
                {
                    "Key": plain(item, "Key"),
                    "Size": int(plain(item, "Size")),
                    "LastModified": _moment(item.findtext(f"{space}LastModified")),
                }
                for item in root.iter(f"{space}Contents")
            ],
            "CommonPrefixes": [
                {"Prefix": plain(item, "Prefix")} for item in root.iter(f"{space}CommonPrefixes")
            ],
            "IsTruncated": root.findtext(f"{space}IsTruncated") == "true",
        }
        if page["IsTruncated"]:
            page["NextContinuationToken"] = root.findtext(f"{space}NextContinuationToken") or ""
            if not page["NextContinuationToken"]:
                raise ValueError("more is said to follow, but not after what")
    except (ElementTree.ParseError, ValueError) as error:
        raise ResponseParserError(f"the listing cannot be read: {error}") from error
    return page


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(unquote_plus(text)) if text else None


def _refusal(operation: str, answer: Reply) -> ClientError:
    status = answer.status
    code, message = _CODE.search(answer.body), _MESSAGE.search(answer.body)
    return ClientError(
        {
            "Error": {
                "Code": code[1].decode(errors="replace") if code else str(status),
                "Message": message[1].decode(errors="replace") if message else "",
            },
            "ResponseMetadata": {
                "HTTPStatusCode": status,
                "RequestId": "",
                "HostId": "",
                "HTTPHeaders": {},
                "RetryAttempts": 0,
            },
        },
        operation,
    )
