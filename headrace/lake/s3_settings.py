"""How to reach an S3 store, and how long to insist."""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from headrace.errors import ConfigurationError
from headrace.settings import load_settings
from headrace.wire import problem_of_credential

Encryption = Literal["AES256", "aws:kms", "aws:kms:dsse"]
AddressingStyle = Literal["auto", "path", "virtual"]

_S3 = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?")
#: A prefix becomes part of every key; what S3 documents as safe, and no empty or dotted step.
_PREFIX = re.compile(r"(?:[A-Za-z0-9!_.*'()=-]+/)*[A-Za-z0-9!_.*'()=-]*")
#: How a place in S3 has to be written, for messages.
S3_FORM = "Write s3://bucket/prefix, with letters, digits and - _ . ! * ' ( ) = in it"


class S3Settings(BaseModel, frozen=True, extra="forbid"):
    """Settings of an S3 store. Credentials left out come from boto3's usual chain.

    `checksums` is botocore's `request_checksum_calculation`. Since boto3 1.36 it sends checksum
    headers by default, which some S3-compatible stores refuse; `when_required` turns that off.
    """

    endpoint_url: str | None = Field(None, description="URL of an S3-compatible store")
    region: str | None = Field(None, description="AWS region; boto3's own setting if left out")
    access_key_id: str | None = None
    secret_access_key: SecretStr | None = None
    session_token: SecretStr | None = Field(None, description="of temporary credentials")
    profile: str | None = Field(None, description="of ~/.aws; AWS_PROFILE if left out")
    server_side_encryption: Encryption | None = Field(
        None, description="asked for with every object; the bucket's own setting if left out"
    )
    kms_key_id: str | None = Field(
        None, description="the KMS key for it; implies server_side_encryption aws:kms"
    )
    addressing_style: AddressingStyle = Field(
        "auto", description="bucket in the path or in the host name; auto is path with endpoint_url"
    )
    checksums: Literal["when_supported", "when_required"] = "when_supported"
    connect_timeout_s: float = Field(5, gt=0)
    read_timeout_s: float = Field(30, gt=0)
    give_up_after_s: float = Field(
        90, ge=0, description="transient failures are retried for so long"
    )
    longest_pause_s: float = Field(8, gt=0, description="limit of the growing pauses between them")
    listing_page: int = Field(1_000, ge=1, le=1_000, description="objects asked for per listing")
    connections: int = Field(32, ge=1, description="size of the connection pool")

    @field_validator("access_key_id", "secret_access_key", "session_token")
    @classmethod
    def _sendable(cls, value: str | SecretStr | None, field: ValidationInfo) -> Any:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value or ""
        if problem := problem_of_credential(text):
            raise ValueError(f"{field.field_name} {problem}")
        return value

    @model_validator(mode="after")
    def _key_fits_encryption(self) -> Self:
        if self.kms_key_id and self.server_side_encryption == "AES256":
            raise ValueError("kms_key_id does not go with server_side_encryption AES256")
        return self

    @property
    def encryption(self) -> dict[str, str]:
        """What a PUT asks for, as boto3's parameters."""
        kind = self.server_side_encryption or ("aws:kms" if self.kms_key_id else None)
        wanted = {"ServerSideEncryption": kind, "SSEKMSKeyId": self.kms_key_id}
        return {name: value for name, value in wanted.items() if value}


def s3_from_environment(**changes: Any) -> S3Settings:
    """The settings of a store that no block describes: `HEADRACE_S3_*`, and boto3's own.

    Args:
        changes: fields that differ.

    Raises:
        ConfigurationError: a variable cannot be used.
    """
    ours = load_settings()
    try:
        return S3Settings(
            server_side_encryption=ours.s3_server_side_encryption or None,
            kms_key_id=ours.s3_kms_key_id or None,
            addressing_style=ours.s3_addressing_style,
            **changes,
        )
    except ValidationError as error:
        raise ConfigurationError(
            f"HEADRACE_S3_KMS_KEY_ID cannot be used: {error.errors()[0]['msg']}",
            hint="Set HEADRACE_S3_SERVER_SIDE_ENCRYPTION to aws:kms, or unset the key",
        ) from error


def s3_location(bucket: str, prefix: str) -> str:
    """A place in S3 in its one spelling, as in s3://bucket/prefix."""
    return f"s3://{bucket}/{prefix.strip('/')}".rstrip("/")


def bucket_and_prefix(location: str) -> tuple[str, str] | None:
    """The two parts of s3://bucket/prefix; None if it has another form (`S3_FORM`)."""
    match = _S3.fullmatch(location)
    if match is None or not _PREFIX.fullmatch(match[2] or "") or ".." in location:
        return None
    return match[1], match[2] or ""
