"""Where a lake is, and how to reach it."""

from __future__ import annotations

from typing import Any, Literal

from prefect.blocks.core import Block
from pydantic import Field, SecretStr, ValidationError

from blocks.aws import aws_settings
from headrace.lake import Lake as OpenLake
from headrace.lake import S3Settings, Store, open_lake
from headrace.lake.exceptions import LakeUnusable
from headrace.lake.opening import make_store
from headrace.lake.s3_settings import AddressingStyle, Encryption
from headrace.stopping import STOP, StopEvent


class Lake(Block):
    """A folder, or a bucket of any S3-compatible store."""

    _block_type_name = "Headrace Lake"
    _block_type_slug = "headrace-lake"
    _description = "A lake of Parquet parts: a local folder or s3://bucket/prefix."
    _code_example = (
        "```python\nfrom blocks import Lake\n\n"
        'Lake(location="s3://bucket/trades", endpoint_url="http://127.0.0.1:8333").save("ours")\n'
        "```\nthen `headrace backfill BTC-USD --lake block:ours`"
    )

    location: str = Field(description="A folder, or s3://bucket/prefix.")
    endpoint_url: str | None = Field(
        None, description="Address of an S3-compatible store; empty for AWS."
    )
    region: str | None = Field(None, description="AWS region; empty for boto3's own.")
    access_key_id: str | None = Field(
        None, description="Access key; empty for boto3's usual chain."
    )
    secret_access_key: SecretStr | None = Field(None, description="Its secret.")
    session_token: SecretStr | None = Field(None, description="Session token of temporary keys.")
    profile: str | None = Field(None, description="Profile of ~/.aws; empty for AWS_PROFILE.")
    aws_credentials: str | None = Field(
        None,
        description="Name of an AWS Credentials block (prefect-aws) in place of keys and profile.",
    )
    server_side_encryption: Encryption | None = Field(
        None, description="What every object is stored with, for buckets that demand it."
    )
    kms_key_id: str | None = Field(
        None, description="KMS key that encrypts; empty for the bucket's own."
    )
    addressing_style: AddressingStyle = Field(
        "auto", description="Bucket in the path or in the host name; auto is path with an endpoint."
    )
    checksums: Literal["when_supported", "when_required"] = Field(
        "when_supported", description="when_required for stores that refuse checksum headers."
    )

    def open(self, stop: StopEvent = STOP) -> OpenLake:
        """The lake, once it was found to work. `stop` ends its waits for a store in trouble.

        Raises:
            LakeUnusable: it cannot be listed, written or reached.
        """
        return open_lake(self.location, s3=self._s3(), stop=stop)

    def store(self) -> Store:
        """What the lake is kept in, untouched: for its own name of itself, and for looking only.

        Raises:
            LakeUnusable: the location has a form that cannot work.
        """
        return make_store(self.location, s3=self._s3())

    def _s3(self) -> S3Settings:
        try:
            return S3Settings(
                **self._access(),
                server_side_encryption=self.server_side_encryption,
                kms_key_id=self.kms_key_id or None,
                addressing_style=self.addressing_style,
                checksums=self.checksums,
            )
        except ValidationError as error:
            raise LakeUnusable(self.location, error.errors()[0]["msg"]) from error

    def _access(self) -> dict[str, Any]:
        """Endpoint, region and keys: those of this block, else those of the one that it names."""
        ours = {
            "endpoint_url": self.endpoint_url or None,
            "region": self.region or None,
            "access_key_id": self.access_key_id or None,
            "secret_access_key": self.secret_access_key,
            "session_token": self.session_token,
            "profile": self.profile or None,
        }
        said = {name: value for name, value in ours.items() if value is not None}
        if not self.aws_credentials:
            return said
        if doubled := said.keys() - {"endpoint_url", "region"}:
            raise LakeUnusable(
                self.location,
                f"the block says {', '.join(sorted(doubled))} and aws_credentials",
                hint="Leave one of them empty",
            )
        return aws_settings(self.aws_credentials) | said
