"""What a pull asks of an API that serves trades: the seam between it and one exchange's client."""

from __future__ import annotations

from typing import Protocol

from headrace.exchange.pages import Outline, Page
from headrace.exchange.proof import Check, unchecked
from headrace.metrics.requests import ClientStats
from headrace.quota import Lane
from headrace.stopping import Ending


class Source(Protocol):
    """An API with pages of trades below a cursor. Safe to use from many threads.

    Planner, walk, job and audit know this and nothing else of it. What its answers prove is decided
    in `headrace.exchange.proof`, which a source calls through `check`: an answer for which it
    raises `Contradiction` is asked for again. `ExchangeClient` is that of a Coinbase-Exchange API.
    """

    @property
    def source(self) -> str:
        """The API's address, as recorded with what was fetched from it."""

    @property
    def page_limit(self) -> int:
        """The most trades of one page."""

    @property
    def stats(self) -> ClientStats:
        """Requests, answers and times so far."""

    @property
    def ending(self) -> Ending:
        """What ends the whole run: an outage beyond its limit, a refusal of who asks."""

    def page(
        self,
        product: str,
        after: int | None,
        *,
        limit: int | None = None,
        lane: Lane = Lane.BACKFILL,
        check: Check = unchecked,
    ) -> Page:
        """The newest trades with ids below `after` (None: the newest of all), at most `limit`.

        Args:
            limit: the source's own limit if left out.

        Raises:
            RequestError: as `ExchangeClient.page`.
        """

    def outline(
        self,
        product: str,
        after: int | None,
        *,
        lane: Lane = Lane.BACKFILL,
        check: Check = unchecked,
    ) -> Outline:
        """The ids alone of a full page, for one that holds what cannot be kept."""

    def close(self) -> None:
        """Close the connections."""
