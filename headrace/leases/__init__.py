"""Who may write: one lease per name, with a fencing token that rises from holder to holder."""

from headrace.leases.dynamodb import DynamoLeases
from headrace.leases.exceptions import (
    DamagedLeases,
    InvalidLease,
    LeaseHeld,
    LeaseLost,
    LeaseStoreMisconfigured,
    LeaseStoreUnavailable,
    NewerLeases,
)
from headrace.leases.lease import DEFAULT_TTL_S, Lease, hold
from headrace.leases.model import Grant, Holder, LeaseState, Standing
from headrace.leases.opening import leases_folder, open_leases
from headrace.leases.sqlite import SqliteLeases
from headrace.leases.store import LeaseStore

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
    "hold",
    "leases_folder",
    "open_leases",
]
