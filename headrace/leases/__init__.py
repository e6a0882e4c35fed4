"""Who may write: one lease per name, with a fencing token that rises from holder to holder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from headrace.errors import ConfigurationError
from headrace.leases.exceptions import (
    DamagedLeases,
    InvalidLease,
    LeaseHeld,
    LeaseLost,
    LeaseStoreMisconfigured,
    LeaseStoreUnavailable,
    NewerLeases,
)
from headrace.leases.holding import (
    DEFAULT_TTL_S,
    claim,
    give_back_claim,
    give_back_claims,
    hold,
    is_claimed,
)
from headrace.leases.lease import Lease
from headrace.leases.model import Grant, Holder, LeaseState, LeaseStatus
from headrace.leases.sqlite import SqliteLeases
from headrace.leases.store import LeaseStore
from headrace.paths import user_path

if TYPE_CHECKING:
    from headrace.leases.dynamodb import DynamoLeases

__all__ = [
    "DEFAULT_TTL_S",
    "DamagedLeases",
    "DynamoLeases",
    "Grant",
    "Holder",
    "InvalidLease",
    "Lease",
    "LeaseHeld",
    "LeaseLost",
    "LeaseState",
    "LeaseStatus",
    "LeaseStore",
    "LeaseStoreMisconfigured",
    "LeaseStoreUnavailable",
    "NewerLeases",
    "SqliteLeases",
    "claim",
    "give_back_claim",
    "give_back_claims",
    "hold",
    "is_claimed",
    "open_leases",
]


_SCHEME = "dynamodb"
_OPTIONS = {"region", "endpoint_url", "create"}


def open_leases(location: str | Path) -> LeaseStore:
    """The store at `location`.

    Args:
        location: a folder, or `dynamodb://TABLE`, with the optional query parameters `region`,
            `endpoint_url` and `create=true`.

    Raises:
        ConfigurationError: another scheme, or an unknown parameter.
    """
    text = str(location)
    if "://" not in text:
        return SqliteLeases(user_path(text))
    parts = urlsplit(text)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    malformed = parts.path.strip("/") or set(options) - _OPTIONS
    if parts.scheme != _SCHEME or not parts.netloc or malformed:
        raise ConfigurationError(
            f"{text!r} is no place for leases",
            hint="Give a folder, or dynamodb://TABLE?region=REGION (and endpoint_url, create=true)",
        )
    from headrace.leases.dynamodb import DynamoLeases  # only here: boto3 is slow to load

    return DynamoLeases(
        parts.netloc,
        region=options.get("region"),
        endpoint_url=options.get("endpoint_url"),
        create=options.get("create", "false").lower() in ("1", "true", "yes"),
    )


def __getattr__(name: str) -> object:
    # Loading boto3 takes longer than finding out that another run holds the lease.
    if name == "DynamoLeases":
        from headrace.leases.dynamodb import DynamoLeases

        return DynamoLeases
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
