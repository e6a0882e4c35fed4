"""Which refusals of DynamoDB pass by themselves, and what the others mean.

Source: DynamoDB developer guide, "Error handling with DynamoDB", and botocore's exceptions.
"""

from __future__ import annotations

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's own, wider than the builtin
    HTTPClientError,
)

from headrace.leases.exceptions import LeaseStoreMisconfigured

_THROTTLED = {
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "TransactionConflictException",
}
_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
}


def code_of(error: ClientError) -> str:
    """DynamoDB's name for the error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later: throttling, 5xx, broken or slow connections."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return code_of(error) in _THROTTLED or status >= 500
    return isinstance(error, ConnectionError | HTTPClientError)


def permanent(
    error: ClientError | BotoCoreError, *, table: str, operation: str
) -> LeaseStoreMisconfigured:
    """The refusal in our words: what was refused, on which table, and what mends it."""
    action = f"dynamodb:{operation}"
    reason = str(error)
    if not isinstance(error, ClientError):
        hint = "Give credentials and a region (AWS_PROFILE, AWS_REGION, or a role)"
    elif code_of(error) in _DENIED:
        hint = f"Use credentials that are valid and allow {action} on this table"
    elif code_of(error) == "ResourceNotFoundException":
        hint = "Create the table (partition key `lease`, a string), or correct its name and region"
    else:
        hint = "The table needs a partition key `lease` (a string) and no sort key"
    return LeaseStoreMisconfigured(f"table {table}", action, reason, hint=hint)
