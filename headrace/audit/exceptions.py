"""What can keep an audit from beginning, or from coming to an end."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import ConfigurationError, HeadraceError, StateError

_SHOWN = 10


class NothingToAudit(ConfigurationError):
    """There is no trade of any product at the location; nothing was made there either."""

    def __init__(self, location: str) -> None:
        super().__init__(
            f"there are no trades to audit in {location}",
            hint="Look at --lake and HEADRACE_LAKE; headrace backfill puts trades there",
        )
        self.location = location


class NotInLake(ConfigurationError):
    """Products that the lake has no folder for.

    Args:
        products: what was asked for and is not there.
        location: the lake.
        known: what is there.
    """

    def __init__(self, products: Sequence[str], location: str, known: Sequence[str]) -> None:
        shown = ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
        super().__init__(
            f"the lake {location} holds nothing of {', '.join(products)}",
            hint=f"It holds {shown}; headrace backfill fetches others",
        )
        self.products = tuple(products)
        self.location = location
        self.known = tuple(known)


class PartsKeepChanging(HeadraceError):
    """The parts of a product went away faster than they could be listed and looked at."""

    def __init__(self, product: str) -> None:
        super().__init__(
            f"{product}: its parts change faster than they can be looked at",
            hint="Audit again when fewer runs are at work on it",
        )
        self.product = product


class HealingRefused(StateError):
    """A product whose parts this version must not touch; nothing was."""

    def __init__(self, product: str, reason: str, *, hint: str) -> None:
        super().__init__(f"{product} was not healed: {reason}", hint=hint)
        self.product = product
        self.reason = reason
