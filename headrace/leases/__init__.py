"""Who may write: one lease per name, with a fencing token that rises from holder to holder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.leases.exceptions import (
    DamagedLeases,
    InvalidLease,
    LeaseHeld,
    LeaseLost,
    LeaseStoreMisconfigured,
    LeaseStoreUnavailable,
    NewerLeases,
)
from headrace.leases.holding import DEFAULT_TTL_S, claim, give_back_claims, hold
from headrace.leases.lease import Lease
from headrace.leases.model import Grant, Holder, LeaseState, Standing
from headrace.leases.opening import open_leases
from headrace.leases.sqlite import SqliteLeases
from headrace.leases.store import LeaseStore

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
    "LeaseStore",
    "LeaseStoreMisconfigured",
    "LeaseStoreUnavailable",
    "NewerLeases",
    "SqliteLeases",
    "Standing",
    "claim",
    "give_back_claims",
    "hold",
    "open_leases",
]


def __getattr__(name: str) -> object:
    # Loading boto3 takes longer than finding out that another run holds the lease.
    if name == "DynamoLeases":
        from headrace.leases.dynamodb import DynamoLeases

        return DynamoLeases
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
