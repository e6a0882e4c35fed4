"""The settings of an S3 store as object_store (Rust) has them, for deltalake and Polars."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from headrace.lake.s3_settings import S3Settings
from headrace.wire import Origin, Proxy, proxy_for

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials


def object_store_options(
    settings: S3Settings,
    bucket: str,
    *,
    endpoint_url: str,
    region: str,
    virtual: bool,
    keys: ReadOnlyCredentials | None,
) -> dict[str, str]:
    """What reaches the bucket as boto3 does.

    Args:
        settings: encryption and time-outs.
        bucket: its name.
        endpoint_url: the endpoint that boto3 chose.
        region: the region that boto3 chose.
        virtual: whether the bucket's name stands in the host name.
        keys: the credentials that boto3 found; None for those that object_store finds itself.
    """
    parts = urlsplit(endpoint_url)
    options = {
        "aws_endpoint": endpoint_url,
        "aws_region": region,
        "aws_virtual_hosted_style_request": str(virtual).lower(),
        "allow_http": str(parts.scheme == "http").lower(),
        # What keeps two commits from taking the same number: If-None-Match on the log's entry.
        "aws_conditional_put": "etag",
        "connect_timeout": f"{settings.connect_timeout_s:g}s",
        "timeout": f"{settings.read_timeout_s:g}s",
    }
    if virtual:
        options["aws_endpoint"] = parts._replace(netloc=f"{bucket}.{parts.netloc}").geturl()
    if keys is not None and keys.access_key and keys.secret_key:
        options["aws_access_key_id"] = keys.access_key
        options["aws_secret_access_key"] = keys.secret_key
        if keys.token:
            options["aws_session_token"] = keys.token
    if encryption := settings.encryption.get("ServerSideEncryption"):
        options["aws_server_side_encryption"] = encryption
        if settings.kms_key_id:
            options["aws_sse_kms_key_id"] = settings.kms_key_id
    if proxy := proxy_for(Origin.of(endpoint_url)):
        options["proxy_url"] = f"{proxy.origin.scheme}://{_login(proxy)}{proxy.origin.host_header}"
    return options


def _login(proxy: Proxy) -> str:
    """Name and password for the proxy, as they stand in a URL; empty for none."""
    if not proxy.authorization:
        return ""
    name, _, password = b64decode(proxy.authorization.partition(" ")[2]).decode().partition(":")
    return f"{quote(name, safe='')}:{quote(password, safe='')}@"
