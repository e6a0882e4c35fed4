"""From the flat parameters of `audit` to its checked request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from flows.requests import pull_request
from headrace.audit.request import AuditRequest
from headrace.exchange.products import canonical_products

Stored = Annotated[list[str], Field(title="Products", examples=[["BTC-USD", "ETH-USD"]])]

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
    access = pull_request("backfill", {**fields, "products": products or _NOT_KNOWN_YET})
    return AuditRequest(tuple(products), **asked, access=access)
