"""Our signatures against botocore's own, byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime

import boto3
import botocore.auth
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials, ReadOnlyCredentials

from headrace.lake.s3_reading import Form, Signer, quoted
from headrace.wire import Origin

KEY = "raw/trades/exchange=coinbase/product=BTC-USD/part-1.parquet"
KEYS = [KEY, "a/b c=d!*'()/part-1.parquet", "ü/€~.-_"]
MOMENT = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
FORM = Form(Origin("http", "127.0.0.1", 8333), "/lake/", "eu-west-1", "s3")


@pytest.mark.parametrize("token", [None, "to/ken=="])
@pytest.mark.parametrize("key", KEYS)
def test_the_signature_is_botocores(
    monkeypatch: pytest.MonkeyPatch, key: str, token: str | None
) -> None:
    monkeypatch.setattr(
        botocore.auth, "get_current_datetime", lambda *_: MOMENT.replace(tzinfo=None)
    )
    theirs = AWSRequest(
        "GET", f"http://127.0.0.1:8333/lake/{quoted(key)}", headers={"Range": "bytes=-100"}
    )
    theirs.context["payload_signing_enabled"] = True
    S3SigV4Auth(Credentials("AKID", "secret", token), "s3", "eu-west-1").add_auth(theirs)

    signer = Signer(FORM, lambda: ReadOnlyCredentials("AKID", "secret", token), lambda: MOMENT)
    lines = signer.tail(key, 100).decode().split("\r\n")[1:-2]
    ours = {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines}

    assert ours["authorization"] == theirs.headers["Authorization"]
    assert ours["host"] == "127.0.0.1:8333"
    assert ours.get("x-amz-security-token") == token


@pytest.mark.parametrize("path", ["/lake/", "/"])
@pytest.mark.parametrize("query", [{"prefix": "a b/c=d/ü+&", "delimiter": "/"}, {"list-type": "2"}])
def test_the_signature_of_a_listing_is_botocores(
    monkeypatch: pytest.MonkeyPatch, path: str, query: dict[str, str]
) -> None:
    monkeypatch.setattr(
        botocore.auth, "get_current_datetime", lambda *_: MOMENT.replace(tzinfo=None)
    )
    form = Form(Origin("https", "lake.example", 443), path, "eu-west-1", "s3")
    signer = Signer(form, lambda: ReadOnlyCredentials("AKID", "secret", None), lambda: MOMENT)
    first, *lines = signer.listing(query).decode().split("\r\n")[:-2]
    target = first.split(" ")[1]
    theirs = AWSRequest("GET", f"https://lake.example{target}")
    theirs.context["payload_signing_enabled"] = True
    S3SigV4Auth(Credentials("AKID", "secret"), "s3", "eu-west-1").add_auth(theirs)

    # botocore signs no body's hash for https unless it is asked to; both have to be the same.
    signed = {line.partition(": ")[0]: line.partition(": ")[2] for line in lines}
    assert signed["Authorization"] == theirs.headers["Authorization"]
    assert target.startswith(("/lake?", "/?"))


def test_renewed_credentials_and_a_new_day_change_the_signature() -> None:
    signed = {
        Signer(
            FORM, lambda secret=secret: ReadOnlyCredentials("AKID", secret, None), lambda at=at: at
        ).tail(KEY, 1)
        for secret in ("one", "two")
        for at in (MOMENT, MOMENT.replace(day=2))
    }

    assert len(signed) == 4


def presigned(key: str, **options: object) -> str:
    client = boto3.client(
        "s3",
        region_name="eu-west-1",
        aws_access_key_id="AKID",
        aws_secret_access_key="secret",
        **options,
    )
    return client.generate_presigned_url("get_object", Params={"Bucket": "lake", "Key": key})


@pytest.mark.parametrize("key", KEYS)
def test_the_form_is_that_of_the_url_which_botocore_signs(key: str) -> None:
    version = Config(signature_version="s3v4")
    path = Config(signature_version="s3v4", s3={"addressing_style": "path"})

    amazon = Form.of(presigned(key, config=version), key)
    other = Form.of(presigned(key, config=path, endpoint_url="http://127.0.0.1:8333"), key)

    assert amazon == Form(
        Origin("https", "lake.s3.eu-west-1.amazonaws.com", 443), "/", "eu-west-1", "s3"
    ) or amazon == Form(Origin("https", "lake.s3.amazonaws.com", 443), "/", "eu-west-1", "s3")
    assert other == FORM


def test_another_kind_of_signature_is_left_to_botocore() -> None:
    old = presigned(KEY, config=Config(signature_version="s3"))

    assert Form.of(old, KEY) is None
    assert Form.of("https://x/lake/other?X-Amz-Algorithm=AWS4-ECDSA-P256-SHA256", "other") is None
