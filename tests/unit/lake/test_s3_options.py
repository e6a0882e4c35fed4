"""S3 settings as deltalake and Polars take them."""

from __future__ import annotations

import pytest
from botocore.credentials import ReadOnlyCredentials

from headrace.lake import S3Settings
from headrace.lake.s3 import S3Store
from headrace.lake.s3_client import object_store_options

KEYS = ReadOnlyCredentials("key", "secret", "token")


def options(settings: S3Settings | None = None, **changes: object) -> dict[str, str]:
    given = {"endpoint_url": "http://127.0.0.1:8333", "region": "eu-west-1", "virtual": False}
    return object_store_options(
        settings or S3Settings(), "lake", **{**given, "keys": KEYS, **changes}
    )


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_keys_endpoint_region_and_conditional_put() -> None:
    found = options()
    assert found["aws_access_key_id"] == "key"
    assert found["aws_secret_access_key"] == "secret"
    assert found["aws_session_token"] == "token"
    assert found["aws_endpoint"] == "http://127.0.0.1:8333"
    assert found["aws_region"] == "eu-west-1"
    assert found["allow_http"] == "true"
    assert found["aws_conditional_put"] == "etag"
    assert "proxy_url" not in found


def test_without_keys_object_store_looks_for_them() -> None:
    assert not [name for name in options(keys=None) if "key" in name]


def test_a_bucket_in_the_host_name() -> None:
    found = options(virtual=True, endpoint_url="https://s3.example:9000")
    assert found["aws_endpoint"] == "https://lake.s3.example:9000"
    assert found["aws_virtual_hosted_style_request"] == "true"
    assert found["allow_http"] == "false"


def test_encryption() -> None:
    found = options(S3Settings(kms_key_id="arn:key"))
    assert found["aws_server_side_encryption"] == "aws:kms"
    assert found["aws_sse_kms_key_id"] == "arn:key"


def test_the_proxy_with_its_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://us%40er:p%2Fw@proxy:3128")
    found = options(endpoint_url="https://s3.eu-west-1.amazonaws.com")
    assert found["proxy_url"] == "http://us%40er:p%2Fw@proxy:3128"
    assert "proxy_url" not in options(), "loopback through a proxy"


def test_a_store_says_what_boto3_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    found = S3Store("lake").object_store_options()
    assert found["aws_access_key_id"] == "of-the-environment"
    assert found["aws_endpoint"] == "http://127.0.0.1:1"
    assert found["aws_region"] == "eu-north-1"
