"""Clients of S3 as the settings want them, and what is wrong where none can be made.

One of boto3, and what deltalake and Polars pass to theirs, object_store (in Rust).
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import boto3
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ConfigParseError, ProfileNotFound

from headrace.errors import ConfigurationError
from headrace.lake.s3_reading import AWS_CA_BUNDLE
from headrace.lake.s3_settings import S3Settings
from headrace.wire import Origin, Proxy, proxy_for, trusted_files

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials
    from mypy_boto3_s3 import S3Client


def make_client(settings: S3Settings) -> tuple[S3Client, Credentials | None]:
    """A client, and the credentials that it signs with, if any were found.

    Raises:
        ConfigurationError: a profile, a configuration file or the endpoint cannot be used.
    """
    try:
        session = _make_session(settings)
        return _make_client(session, settings), session.get_credentials()
    except ProfileNotFound as error:
        hint = "Correct AWS_PROFILE (or the block's profile); `aws configure list-profiles` has all"
        raise ConfigurationError(str(error), hint=hint) from error
    except ConfigParseError as error:
        raise ConfigurationError(str(error), hint="Correct that file") from error
    except (ValueError, BotoCoreError) as error:
        raise ConfigurationError(str(error), hint="Look at the endpoint URL") from error


def _make_session(settings: S3Settings) -> boto3.Session:
    secret, token = settings.secret_access_key, settings.session_token
    return boto3.Session(
        region_name=settings.region,
        profile_name=settings.profile,
        aws_access_key_id=settings.access_key_id,
        aws_secret_access_key=secret.get_secret_value() if secret else None,
        aws_session_token=token.get_secret_value() if token else None,
    )


def _make_client(session: boto3.Session, settings: S3Settings) -> S3Client:
    style = settings.addressing_style
    if style == "auto" and settings.endpoint_url:
        style = "path"
    return session.client(
        "s3",
        endpoint_url=settings.endpoint_url,
        verify=_bundle(),
        config=Config(
            proxies=_proxies(settings.endpoint_url),
            connect_timeout=settings.connect_timeout_s,
            read_timeout=settings.read_timeout_s,
            max_pool_connections=settings.connections,
            signature_version="s3v4",
            # S3Call counts, spaces and stops attempts; botocore's own would multiply them.
            retries={"total_max_attempts": 1, "mode": "standard"},
            request_checksum_calculation=settings.checksums,
            response_checksum_validation=settings.checksums,
            s3={"addressing_style": style} if style != "auto" else None,
        ),
    )


def _bundle() -> str | None:
    """The certificates to trust where boto3 knows of none: it does not read `SSL_CERT_FILE`."""
    named = trusted_files(AWS_CA_BUNDLE)
    return str(named["SSL_CERT_FILE"]) if list(named) == ["SSL_CERT_FILE"] else None


def _proxies(endpoint_url: str | None) -> dict[str, str] | None:
    """An empty dictionary for a store that is reached directly, None for boto3's own choice.

    boto3 knows no networks in `NO_PROXY`, and would ask a proxy for a store on this machine.
    """
    if endpoint_url is None:
        return None
    try:
        origin = Origin.of(endpoint_url)
    except ValueError:
        return None  # which boto3 refuses by name
    return None if proxy_for(origin) else {}


def object_store_options(
    settings: S3Settings,
    bucket: str,
    *,
    endpoint_url: str,
    region: str,
    virtual: bool,
    keys: ReadOnlyCredentials | None,
) -> dict[str, str]:
    """Settings of object_store with which it reaches the bucket as boto3 does.

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
