"""An AWS Credentials block of prefect-aws in the place of keys of ours.

What it says becomes settings of ours, rather than a session of boto3 that the block makes: what a
run checks of keys (a stray line break, say) is then checked of these, too, and boto3 renews what a
profile with a role gave, as it does for a profile of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blocks.loading import loaded
from headrace.errors import ConfigurationError
from headrace.extras import import_with

if TYPE_CHECKING:
    from prefect_aws import AwsCredentials

_BY_ENVIRONMENT = "AWS_CA_BUNDLE names certificates, and HEADRACE_S3_* the rest, for the worker"


def aws_settings(name: str) -> dict[str, Any]:
    """What a saved AWS Credentials block says, as fields of `S3Settings`.

    Without keys and without a profile they come from boto3's usual chain: the role of the machine,
    the task or the pod.

    Raises:
        ExtraMissing: prefect-aws is not installed.
        ConfigurationError: there is no such block, or it says what cannot be followed.
    """
    kind: type[AwsCredentials] = import_with("aws", "prefect_aws").AwsCredentials
    return settings_of(loaded(kind, name), name)


def settings_of(block: AwsCredentials, name: str) -> dict[str, Any]:
    """The same of a block that is there.

    Raises:
        ConfigurationError: it says what cannot be followed.
    """
    client = block.aws_client_parameters
    refused = {
        "api_version": client.api_version,
        "verify": client.verify is not None and client.verify is not True,
        "verify_cert_path": client.verify_cert_path,
        "config": client.config,
        "use_ssl": not client.use_ssl and not client.endpoint_url,
    }
    if said := [parameter for parameter, value in refused.items() if value]:
        raise ConfigurationError(
            f"the AWS Credentials block {name!r} sets {', '.join(said)} for clients of AWS, which "
            "cannot be followed here",
            hint=f"Empty it in the block; {_BY_ENVIRONMENT}",
        )
    return {
        "access_key_id": block.aws_access_key_id or None,
        "secret_access_key": block.aws_secret_access_key,
        "session_token": block.aws_session_token or None,
        "profile": block.profile_name or None,
        "region": block.region_name or None,
        "endpoint_url": client.endpoint_url or None,
    }
