"""From the flat parameters of `audit` to its checked request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from flows.pull_requests import pull_request
from headrace.audit.request import AuditRequest
from headrace.errors import ConfigurationError
from headrace.exchange.products import canonical_products
from headrace.pull.request import parse_span

#: A pull names its products; those of an audit may be known only once the lake is open.
_NOT_KNOWN_YET = ["ALL"]


def audit_request(parameters: Mapping[str, Any]) -> AuditRequest:
    """The request that the parameters mean, completed from the settings of this machine.

    Raises:
        ConfigurationError: naming the first parameter that cannot be used, and why.
    """
    fields = dict(parameters)
    products = canonical_products(list(fields.pop("products", [])))
    asked = {name: bool(fields.pop(name, False)) for name in ("deep", "heal", "offline")}
    lag = parsed_lag(str(fields.pop("lag", "")))
    access = pull_request("backfill", {**fields, "products": products or _NOT_KNOWN_YET})
    return AuditRequest(tuple(products), **asked, lag=lag, access=access)


def parsed_lag(text: str) -> timedelta | None:
    """How long trades may be missing; None if no lag was given.

    Raises:
        ConfigurationError: it is no length of time.
    """
    try:
        return parse_span(text) if text else None
    except ValueError as error:
        raise ConfigurationError(f"lag: {error}") from error
