"""Product ids: one canonical spelling, and nothing that could become a path or a query."""

from __future__ import annotations

import re

from headrace.errors import ConfigurationError

#: What exchanges use in product ids (BTC-USD, 1INCH-USD, XBT.F, BTC_USD), and the lake in paths.
_PRODUCT = re.compile(r"[A-Z0-9][A-Z0-9._-]{0,63}")


def canonical_product(text: str) -> str:
    """The one spelling of a product id: upper case (`btc-usd` and `BTC-USD` are one product).

    Raises:
        ConfigurationError: if the text cannot be a product id.
    """
    # Some letters beyond ASCII have capitals within it, and would share a product's name.
    product = text.upper() if text.isascii() else text
    if not _PRODUCT.fullmatch(product):
        raise ConfigurationError(
            f"{text!r} is no product id",
            hint="A product id is letters, digits, '-', '_' and '.', for example BTC-USD",
        )
    return product


def canonical_products(texts: list[str]) -> list[str]:
    """Canonical ids in the order given, each once.

    Raises:
        ConfigurationError: if one of them cannot be a product id.
    """
    return list(dict.fromkeys(canonical_product(text) for text in texts))
