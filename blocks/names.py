"""Names of block documents: Prefect allows lower-case letters, digits and dashes only."""

from __future__ import annotations

import re

from headrace.lake.names import lake_tag

_PLAIN = re.compile(r"[A-Z0-9]+(-[A-Z0-9]+)*")
_SOURCE = re.compile(r"[a-z0-9]+")


def checkpoint_name(lake: str, source: str, product: str) -> str:
    """The one-to-one name of a product's checkpoint, such as `coinbase-btc-usd-1f3a9c2e`.

    A product id with other characters keeps a readable stem, and its exact bytes follow in hex
    behind a double dash, which no plain id has: BTC_USD is `coinbase-btc-usd--4254435f555344-...`.
    The end is a digest of the lake's location, so that two lakes have checkpoints of their own.

    Raises:
        ValueError: if the source is not lower-case letters and digits, or the product is empty.
    """
    if not _SOURCE.fullmatch(source) or not product:
        raise ValueError(f"no checkpoint name for {source!r} {product!r}")
    return f"{source}-{_product_part(product)}-{lake_tag(lake)}"


def _product_part(product: str) -> str:
    if _PLAIN.fullmatch(product):
        return product.lower()
    stem = re.sub(r"[^a-z0-9]+", "-", product.lower()).strip("-")
    return f"{stem}--{product.encode().hex()}"
