"""How to reach an S3 store, and how long to insist."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class S3Settings(BaseModel):
    """Settings of an S3 store. Credentials left out come from boto3's usual chain.

    `checksums` is botocore's `request_checksum_calculation`. Since boto3 1.36 it sends checksum
    headers by default, which some S3-compatible stores refuse; `when_required` turns that off.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint_url: str | None = Field(None, description="URL of an S3-compatible store")
    region: str | None = Field(None, description="AWS region; boto3's own setting if left out")
    access_key_id: str | None = None
    secret_access_key: SecretStr | None = None
    checksums: Literal["when_supported", "when_required"] = "when_supported"
    connect_timeout_s: float = Field(5, gt=0)
    read_timeout_s: float = Field(30, gt=0)
    give_up_after_s: float = Field(
        90, ge=0, description="transient failures are retried for so long"
    )
    longest_pause_s: float = Field(8, gt=0, description="limit of the growing pauses between them")
    listing_page: int = Field(1_000, ge=1, le=1_000, description="objects asked for per listing")
    connections: int = Field(32, ge=1, description="size of the connection pool")


def s3_location(bucket: str, prefix: str) -> str:
    """A place in S3 in its one spelling, as in s3://bucket/prefix."""
    return f"s3://{bucket}/{prefix.strip('/')}".rstrip("/")
