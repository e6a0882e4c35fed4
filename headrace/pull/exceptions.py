"""What can go wrong in a pull, beyond the exchange and the lake themselves."""

from __future__ import annotations

from headrace.errors import HeadraceError, NewerVersion, PlaceError, StateError


class CheckpointUnreadable(StateError):
    """A checkpoint exists but cannot be used: damaged, or written by a newer version."""


class CheckpointTooNew(NewerVersion, CheckpointUnreadable):
    """A checkpoint was written by a newer version, which may know better than this one."""

    said = (
        "the checkpoint of {where} has schema version {found}, this version of headrace knows "
        "{known}"
    )
    way_out = (
        "Upgrade headrace here, all that share a lake must be alike; or replace it by what the "
        "lake says: headrace checkpoint rebuild --force"
    )


class NothingToRebuild(StateError):
    """The lake holds nothing of a product, so that its checkpoint cannot come from there."""

    def __init__(self, product: str, lake: str) -> None:
        super().__init__(
            f"{product}: the lake {lake} holds no part of it; its checkpoint was left as it is",
            hint=f"Look at --lake; headrace checkpoint reset {product} forgets the checkpoint",
        )
        self.product = product
        self.lake = lake


class TokenBehind(HeadraceError):
    """The lease's token does not exceed the checkpoint's: leases forgotten, and a clock set back.

    The holder takes the lease again, above the token that was noted.

    Attributes:
        product: whose lease and checkpoint.
        token: of the lease.
        noted: the token under which the checkpoint was written.
    """

    def __init__(self, product: str, *, token: int, noted: int) -> None:
        super().__init__(
            f"{product}: the lease has token {token}, the checkpoint was written under {noted}"
        )
        self.product = product
        self.token = token
        self.noted = noted


class CheckpointNotSaved(HeadraceError):
    """The store of checkpoints could not be reached; the data in the lake is safe."""


class LakeAhead(HeadraceError):
    """The exchange shows no trades for a product whose trades the lake holds."""

    def __init__(self, product: str, rows_until: int) -> None:
        super().__init__(
            f"{product}: the exchange shows no trades, although trades up to id {rows_until} "
            "are stored",
            hint="The product may be delisted; what is stored was left as it is",
        )
        self.product = product
        self.rows_until = rows_until


class AnotherHistory(PlaceError):
    """The exchange shows other trades under the ids of those that are stored."""

    said = "{where}: another history: {reason}; nothing was written"
    way_out = (
        "If the exchange began its numbering again, pull it into another lake (--lake). "
        "Trades that it corrected are fetched by headrace backfill --full-refresh"
    )
