"""Reading the ends of many S3 objects with less of the CPU that boto3 takes for it.

An audit reads the footers of thousands of parts, and then boto3's machinery around each request is
what takes the time (docs/benchmarks.md). So boto3 says once, with everything it knows of endpoints,
regions and credentials, what a request looks like; the thousands are signed by
`headrace.lake.s3_signing` and carried by `headrace.wire`. Where the store wants another kind of
signature, boto3 signs each URL. Failures are raised as botocore's errors, so that one place decides
what is transient; none of their messages shows a signed URL.
"""

from __future__ import annotations

import os
import re
import ssl
import threading
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from botocore.exceptions import ClientError, HTTPClientError, SSLError

from headrace.lake.s3_settings import S3Settings
from headrace.lake.s3_signing import Form, Signer
from headrace.wire import Limits, Origin, Pool, Unreachable, WireError

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials
    from mypy_boto3_s3 import S3Client

_VALID_S = 60
_CODE = re.compile(rb"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(rb"<Message>([^<]{1,500})</Message>")
#: A request for the last bytes of an object, as it is sent.
_Sign = Callable[[str, int], bytes]


class TailReader:
    """Fetches the ends of objects of one bucket.

    Args:
        client: says what requests look like, and signs what we do not know how to.
        bucket: where the objects are.
        settings: time-outs and the number of connections.
        credentials: the credentials at this moment; if left out, the client signs every request.
    """

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        settings: S3Settings,
        credentials: Callable[[], ReadOnlyCredentials] | None = None,
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._settings = settings
        self._credentials = credentials
        self._ready: tuple[Pool, _Sign] | None = None
        self._lock = threading.Lock()

    @staticmethod
    def possible(client: S3Client) -> bool:
        """Whether the store is reached without a proxy, which boto3 would follow and this not."""
        endpoint = urlsplit(client.meta.endpoint_url)
        proxies = urllib.request.getproxies()
        return (
            endpoint.scheme not in proxies
            or urllib.request.proxy_bypass(endpoint.hostname or "") is True
        )

    def read(self, key: str, size_bytes: int) -> bytes:
        """The last `size_bytes` of the object, or all of it if it is shorter.

        Raises:
            ClientError: if S3 answers with an error.
            HTTPClientError: if there is no whole answer.
            BotoCoreError: if the request cannot be signed.
        """
        pool, sign = self._prepared(key)
        try:
            answer = pool.ask(sign(key, size_bytes))
        except WireError as error:
            if isinstance(error, Unreachable) and error.insecure:
                raise SSLError(endpoint_url=self._client.meta.endpoint_url, error=error) from None
            raise HTTPClientError(error=error) from None
        if answer.status in (200, 206):
            return answer.body[-size_bytes:]
        raise _refusal(answer.status, answer.body)

    def _prepared(self, key: str) -> tuple[Pool, _Sign]:
        """Connections to where the objects are, and who signs; found out with the first key."""
        with self._lock:
            if self._ready is None:
                presigned = self._presigned(key)
                form = Form.of(presigned, key) if self._credentials else None
                sign = (
                    Signer(form, self._credentials).request
                    if form and self._credentials
                    else (self._signed_by_client)
                )
                self._ready = self._pool(Origin.of(presigned)), sign
            return self._ready

    def _presigned(self, key: str) -> str:
        return self._client.generate_presigned_url(
            "get_object", Params={"Bucket": self._bucket, "Key": key}, ExpiresIn=_VALID_S
        )

    def _signed_by_client(self, key: str, size_bytes: int) -> bytes:
        parts = urlsplit(self._presigned(key))
        host = Origin.of(parts.geturl()).host_header
        return (
            f"GET {parts.path}?{parts.query} HTTP/1.1\r\n"
            f"Host: {host}\r\nRange: bytes=-{size_bytes}\r\n\r\n"
        ).encode("ascii")

    def _pool(self, origin: Origin) -> Pool:
        limits = Limits(self._settings.connect_timeout_s, self._settings.read_timeout_s)
        tls = None
        if origin.scheme == "https":
            bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
            tls = ssl.create_default_context(cafile=bundle or None)
        return Pool(origin, limits, keep=self._settings.connections, tls=tls)


def _refusal(status: int, content: bytes) -> ClientError:
    code, message = _CODE.search(content), _MESSAGE.search(content)
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
        "GetObject",
    )
