"""What a store demands can be met, and its refusals name the next step."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from blocks import Lake
from headrace.errors import ConfigurationError
from headrace.lake import S3Settings, open_lake
from headrace.lake.exceptions import LakeUnusable, StoreDenied
from headrace.lake.s3 import S3Store
from headrace.lake.s3_settings import s3_from_environment
from tests.s3_proxy import Answer, S3Proxy, s3_proxy
from tests.services_fixtures import BUCKET, settings_for
from tests.support.forward_proxy import forward_proxy

NEXT_STEPS = {
    (400, "ExpiredToken"): "Renew the credentials",
    (400, "InvalidToken"): "Renew the credentials",
    (403, "RequestTimeTooSkewed"): "clock",
    (403, "InvalidAccessKeyId"): "access key or its secret",
    (403, "SignatureDoesNotMatch"): "access key or its secret",
    (403, "SecondLevelDomainForbidden"): "addressing_style",
    (400, "AuthorizationHeaderMalformed"): "region",
    (403, "AccessDenied"): "Allow s3:ListBucket",
    (400, "InvalidRequest"): "when_required",
}


@pytest.fixture
def store(moto_url: str) -> S3Proxy:
    with s3_proxy(moto_url) as proxy:
        yield proxy


@pytest.mark.parametrize("answer", NEXT_STEPS, ids=lambda answer: answer[1])
def test_the_next_step_follows_the_store_s_code(store: S3Proxy, answer: tuple[int, str]) -> None:
    store.script("GET", Answer(*answer), times=None)

    with pytest.raises(LakeUnusable, match=answer[1]) as refused:
        open_lake(f"s3://{BUCKET}/x", s3=settings_for(store.url))

    assert NEXT_STEPS[answer] in refused.value.hint
    if answer[1] != "AccessDenied":
        assert "Allow" not in refused.value.hint


def test_a_profile_that_does_not_exist_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(LakeUnusable, match="nonexistent") as refused:
        open_lake(f"s3://{BUCKET}/x", s3=S3Settings(profile="nonexistent"))
    assert "AWS_PROFILE" in refused.value.hint

    monkeypatch.setenv("AWS_PROFILE", "nowhere")
    with pytest.raises(LakeUnusable, match="nowhere"):
        open_lake(f"s3://{BUCKET}/x")


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"server_side_encryption": "AES256"}, {"x-amz-server-side-encryption": "AES256"}),
        (
            {"server_side_encryption": "aws:kms", "kms_key_id": "key-7"},
            {
                "x-amz-server-side-encryption": "aws:kms",
                "x-amz-server-side-encryption-aws-kms-key-id": "key-7",
            },
        ),
        (
            {"kms_key_id": "key-7"},
            {
                "x-amz-server-side-encryption": "aws:kms",
                "x-amz-server-side-encryption-aws-kms-key-id": "key-7",
            },
        ),
        ({}, {}),
    ],
)
def test_every_object_is_stored_with_the_encryption_that_is_set(
    store: S3Proxy, settings: dict[str, str], sent: dict[str, str]
) -> None:
    lake = S3Store(BUCKET, "sse", settings_for(store.url, **settings))
    lake.check()
    lake.put("a", b"content")
    lake.put_if_absent("b", b"content")

    puts = store.requests("PUT")
    assert len(puts) == 3
    for put in puts:
        headers = {name.lower(): value for name, value in put.headers.items()}
        found = {name: value for name, value in headers.items() if "encryption" in name}
        assert found == sent


def test_a_bucket_that_demands_encryption_says_which_setting_is_missing(store: S3Proxy) -> None:
    def bare(request: object) -> bool:
        return not any("encryption" in name.lower() for name in request.headers)  # type: ignore[attr-defined]

    store.script("PUT", Answer(403, "AccessDenied"), times=None, where=bare)

    with pytest.raises(LakeUnusable, match="HEADRACE_S3_SERVER_SIDE_ENCRYPTION"):
        open_lake(f"s3://{BUCKET}/y", s3=settings_for(store.url))
    open_lake(f"s3://{BUCKET}/y", s3=settings_for(store.url, server_side_encryption="AES256"))


def test_the_bucket_stands_in_the_host_name_where_that_is_set(
    store: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(store.url.rpartition(":")[2])
    with forward_proxy({f"{BUCKET}.stores.test": port}) as way:
        monkeypatch.setenv("HTTP_PROXY", way.url)
        lake = S3Store(
            BUCKET, "virtual", settings_for("http://stores.test", addressing_style="virtual")
        )
        # The server behind it does not know the name: only what is asked counts here.
        for method in ("PUT", "GET"):
            store.script(method, Answer(403, "AccessDenied"), times=None)
        for ask in (
            lambda: lake.put("a", b"content"),
            lambda: lake.tail("a", 3),
            lambda: list(lake.entries("")),
        ):
            with pytest.raises(StoreDenied):
                ask()

    assert [line.split("?")[0].split(" HTTP")[0] for line in way.seen] == [
        f"PUT http://{BUCKET}.stores.test/virtual/a",
        f"GET http://{BUCKET}.stores.test/virtual/a",
        f"GET http://{BUCKET}.stores.test/",
    ]


def test_a_session_token_goes_with_its_keys(store: S3Proxy) -> None:
    lake = S3Store(BUCKET, "token", settings_for(store.url, session_token="temporary-token"))
    lake.put("a", b"content")
    lake.tail("a", 3)

    for request in (*store.requests("PUT"), *store.requests("GET")):
        headers = {name.lower(): value for name, value in request.headers.items()}
        assert headers["x-amz-security-token"] == "temporary-token"


def test_the_environment_sets_what_boto3_has_no_variable_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_S3_SERVER_SIDE_ENCRYPTION", "aws:kms")
    monkeypatch.setenv("HEADRACE_S3_KMS_KEY_ID", "key-7")
    monkeypatch.setenv("HEADRACE_S3_ADDRESSING_STYLE", "virtual")
    found = s3_from_environment()
    assert (found.encryption, found.addressing_style) == (
        {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "key-7"},
        "virtual",
    )

    monkeypatch.setenv("HEADRACE_S3_SERVER_SIDE_ENCRYPTION", "AES256")
    with pytest.raises(ConfigurationError, match="HEADRACE_S3_KMS_KEY_ID"):
        s3_from_environment()


def test_a_block_holds_all_of_it_and_refuses_what_does_not_go_together() -> None:
    block = Lake(
        location="s3://bucket/x",
        session_token="temporary-token",
        server_side_encryption="aws:kms",
        kms_key_id="key-7",
        addressing_style="virtual",
    )
    store = block.store()
    assert store._settings.encryption["SSEKMSKeyId"] == "key-7"  # type: ignore[attr-defined]
    assert store._settings.addressing_style == "virtual"  # type: ignore[attr-defined]
    assert "temporary-token" not in f"{block!r} {store._settings!r}"  # type: ignore[attr-defined]

    with pytest.raises(LakeUnusable, match="kms_key_id"):
        Lake(location="s3://b/x", server_side_encryption="AES256", kms_key_id="key").store()
    with pytest.raises(ValidationError):
        Lake(location="s3://b/x", server_side_encryption="rot13")
