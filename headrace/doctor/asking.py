"""One HTTP request with short limits, through the proxy and with the certificates of a run."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from headrace.errors import HeadraceError
from headrace.exchange.exceptions import ExchangeError
from headrace.exchange.transport import Response, Timeouts, Transport

_LIMITS = Timeouts(connect_s=3.0, read_s=4.0, total_s=8.0)


class NoAnswer(HeadraceError):
    """Nobody answered."""


def ask(url: str, headers: Mapping[str, str] | None = None) -> Response:
    """Ask once; follow no redirect.

    Raises:
        NoAnswer: no connection, no answer in time, or no such URL.
    """
    parts = urlsplit(url)
    # The path is part of the base, so that errors name the whole URL.
    path = parts.path.rstrip("/")
    target = ("" if path else "/") + (f"?{parts.query}" if parts.query else "")
    try:
        with Transport(f"{parts.scheme}://{parts.netloc}{path}", timeouts=_LIMITS) as transport:
            return transport.get(target, headers)
    except ExchangeError as error:
        raise NoAnswer(error.message, hint=error.hint) from error
