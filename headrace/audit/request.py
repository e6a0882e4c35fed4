"""What one audit is asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from headrace.audit.exceptions import NothingToAudit, NotInLake
from headrace.errors import ConfigurationError
from headrace.pull.request import PullRequest


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """An audit of some products of a lake, or of all that it holds.

    Args:
        products: canonical ids; empty for all in the lake.
        deep: read rows too, not names and footers alone.
        heal: repair, fetch what is missing, and audit again.
        offline: send no request; the newest id known is the newest stored.
        lag: trades may still be missing for so long; None: they may not.
        access: lake, exchange, rate and pools, as a pull would use them; its products mean nothing.

    Raises:
        ConfigurationError: if `heal` and `offline`, or `lag` and `offline`, are both set.
    """

    products: tuple[str, ...]
    deep: bool
    heal: bool
    offline: bool
    lag: timedelta | None
    access: PullRequest

    def __post_init__(self) -> None:
        if self.heal and self.offline:
            raise ConfigurationError(
                "heal and offline exclude each other: healing fetches what is missing",
                hint="Leave one of them out",
            )
        if self.lag is not None and self.offline:
            raise ConfigurationError(
                "lag and offline exclude each other: without the exchange nobody knows of newer "
                "trades",
                hint="Leave one of them out",
            )

    def pull_of(self, products: Sequence[str]) -> PullRequest:
        """The backfill of these products: it fetches what is missing and nothing else."""
        return self.access.model_copy(update={"products": tuple(products)})


def chosen_products(asked: Sequence[str], stored: Sequence[str], location: str) -> tuple[str, ...]:
    """The products to audit: those asked for, or all that are stored at `location`.

    Raises:
        NothingToAudit: nothing is stored.
        NotInLake: something that was asked for is not stored.
    """
    if not stored:
        raise NothingToAudit(location)
    unknown = [product for product in asked if product not in stored]
    if unknown:
        raise NotInLake(unknown, location, stored)
    return tuple(asked or stored)
