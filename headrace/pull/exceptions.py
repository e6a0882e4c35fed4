"""What can go wrong in a pull, beyond the exchange and the lake themselves."""

from __future__ import annotations

from headrace.errors import HeadraceError, StateError


class CheckpointUnreadable(StateError):
    """A checkpoint exists but cannot be used: damaged, or written by a newer version."""


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
