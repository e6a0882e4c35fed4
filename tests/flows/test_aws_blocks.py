"""A Lake block that names an AWS Credentials block of prefect-aws: keys, profile, role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prefect_aws import AwsClientParameters, AwsCredentials
from pydantic import SecretStr

from blocks import Lake
from blocks.aws import settings_of
from headrace.errors import ConfigurationError
from headrace.lake.exceptions import LakeUnusable
from headrace.lake.s3 import S3Store
from tests.services_fixtures import ACCESS_KEY, BUCKET, SECRET_KEY, moto_url  # noqa: F401

pytestmark = pytest.mark.flows

ROLE = "arn:aws:iam::123456789012:role/lake"
PROFILES = f"""
[profile base]
region = eu-central-1
aws_access_key_id = {ACCESS_KEY}
aws_secret_access_key = {SECRET_KEY}
[profile lake]
region = eu-central-1
role_arn = {ROLE}
source_profile = base
"""


def saved(name: str, **fields: Any) -> str:
    AwsCredentials(**fields).save(name, overwrite=True)
    return name


def test_its_keys_token_region_and_endpoint_reach_a_bucket(moto_url: str) -> None:  # noqa: F811
    name = saved(
        "lake-keys",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        aws_session_token="a-session",
        region_name="eu-west-1",
        aws_client_parameters=AwsClientParameters(endpoint_url=moto_url),
    )
    lake = Lake(location=f"s3://{BUCKET}/by-block", aws_credentials=name)
    options = lake.open().store.object_store_options()
    assert (options["aws_session_token"], options["aws_region"]) == ("a-session", "eu-west-1")
    elsewhere = lake.model_copy(update={"region": "us-west-2"}).store()
    assert elsewhere.object_store_options()["aws_region"] == "us-west-2", (
        "the lake's own goes first"
    )


def test_a_profile_takes_its_role_and_renews_it(
    moto_url: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "config").write_text(PROFILES)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_url)
    name = saved("lake-role", profile_name="lake")
    store = Lake(location=f"s3://{BUCKET}/by-role", aws_credentials=name).store()
    assert isinstance(store, S3Store)
    store.put("x", b"1")
    credentials = store._credentials
    assert credentials is not None
    assert (credentials.method, credentials.refresh_needed()) == ("assume-role", False)
    assert store.object_store_options()["aws_access_key_id"] != ACCESS_KEY


def test_what_cannot_be_followed_is_named() -> None:
    with pytest.raises(ConfigurationError, match="AWS Credentials block named 'no-such'"):
        Lake(location="s3://bucket/x", aws_credentials="no-such").store()
    name = saved("lake-plain", aws_access_key_id="k", aws_secret_access_key="s")
    twice = Lake(location="s3://bucket/x", aws_credentials=name, profile="p")
    with pytest.raises(LakeUnusable, match="says profile and aws_credentials"):
        twice.store()
    unverified = AwsCredentials(aws_client_parameters=AwsClientParameters(verify=False))
    with pytest.raises(ConfigurationError, match="sets verify for clients"):
        settings_of(unverified, "x")
    stray = saved("lake-stray", aws_access_key_id="k\n", aws_secret_access_key=SecretStr("s"))
    with pytest.raises(LakeUnusable, match="access_key_id"):
        Lake(location="s3://bucket/x", aws_credentials=stray).store()
