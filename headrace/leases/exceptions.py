"""What can go wrong between runs that want the same name, and between us and the store."""

from __future__ import annotations

from headrace.errors import ConfigurationError, HeadraceError, NewerVersion, PlaceError, StateError
from headrace.leases.model import Holder


class LeaseHeld(HeadraceError):
    """Another run holds the lease; the caller has touched nothing (exit code 3).

    Attributes:
        name: what was asked for.
        holder: who has it, and until when.
    """

    def __init__(self, name: str, holder: Holder, *, hint: str = "") -> None:
        super().__init__(f"already running elsewhere (holder {holder})", hint=hint)
        self.name = name
        self.holder = holder


class LeaseLost(HeadraceError):
    """The lease is no longer ours: nothing may be committed under its token.

    Attributes:
        name, token: the lease that was lost.
        reason: what became of it.
        holder: the holder now, if there is one.
    """

    def __init__(self, name: str, token: int, reason: str, *, holder: Holder | None = None) -> None:
        super().__init__(
            f"lost the lease on {name} (token {token}): {reason}",
            hint="Nothing was committed under it; start the run again, it goes on from the lake",
        )
        self.name = name
        self.token = token
        self.reason = reason
        self.holder = holder


class InvalidLease(ConfigurationError):
    """A name, a run id or a time to live that cannot be used for a lease."""

    def __init__(self, what: str, value: object, allowed: str) -> None:
        super().__init__(f"{value!r} cannot be used as {what}", hint=f"Allowed: {allowed}")
        self.what = what
        self.value = value


class LeaseStoreUnavailable(PlaceError):
    """The store did not answer in time or could not write; asking again later may help.

    Attributes:
        where: path or table.
        reason: what the store said.
    """

    said = "the leases in {where} cannot be reached: {reason}"


class LeaseStoreMisconfigured(ConfigurationError):
    """The store refuses us for good: no permission, no credentials, no such table.

    Attributes:
        where: path or table.
        action: what was asked of it, such as `dynamodb:UpdateItem`.
        reason: what the store said.
    """

    def __init__(self, where: str, action: str, reason: str, *, hint: str) -> None:
        super().__init__(f"{action} on {where} was refused: {reason}", hint=hint)
        self.where = where
        self.action = action
        self.reason = reason


class DamagedLeases(PlaceError, StateError):
    """The store holds something that is not a lease of ours, or half of one. It was not touched.

    Attributes:
        where: path, or table and item.
        reason: how the damage showed.
    """

    said = "the leases in {where} are damaged: {reason}"


class NewerLeases(NewerVersion):
    """The store was written by a later version of Headrace than this one. It was not touched."""

    said = "the leases in {where} have schema version {found}, this version knows {known}"
    way_out = "Upgrade this installation of headrace; all that share the leases must be alike"
