"""Names in the raw lake: what comes from outside is checked here before it becomes a path.

    raw/trades/exchange=coinbase/product=BTC-USD/part-000000000001-000000100000.parquet

A name states the inclusive range of ids the part answers for, so that coverage is known without
opening a file. Ids are padded to 12 digits; longer ids keep their own length.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from headrace.lake.exceptions import InvalidName

RAW_ROOT = "raw/trades"
#: What Headrace keeps in a lake beside its trades.
OWN_ROOT = "_headrace"
#: Where a local lake writes a part before the part has its name, with a slash at its end.
TEMPORARY_PREFIX = f"{OWN_ROOT}/tmp/"
#: What has been signed of a lake, with a slash at its end.
MANIFESTS_PREFIX = f"{OWN_ROOT}/manifests/"
#: Files that were set aside began so before, among the parts.
FORMER_SET_ASIDE = "_aside-"
MAX_ID = (1 << 63) - 1

_PRODUCT = re.compile(r"[A-Z0-9][A-Z0-9._-]{0,63}")
_EXCHANGE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_PART = re.compile(r"part-([0-9]{12,19})-([0-9]{12,19})\.parquet")


def canonical_product(product: str) -> str:
    """The one spelling of a product id, the one used in paths, locks and blocks: `BTC-USD`.

    Lower case is folded to upper case. Everything but ASCII letters, digits, `-`, `_` and `.` is
    refused, a leading punctuation mark too.

    Raises:
        InvalidName: if the id has other characters, is empty or longer than 64.
    """
    folded = product.upper() if product.isascii() else product
    if not _PRODUCT.fullmatch(folded):
        raise InvalidName(
            "product", product, allowed="letters, digits, - _ . (at most 64), as in BTC-USD"
        )
    return folded


def canonical_exchange(exchange: str) -> str:
    """The one spelling of an exchange's name: lower case, as in `coinbase`.

    Raises:
        InvalidName: if it has other characters than letters, digits, `-` and `_`, or over 32.
    """
    folded = exchange.lower() if exchange.isascii() else exchange
    if not _EXCHANGE.fullmatch(folded):
        raise InvalidName("exchange", exchange, allowed="letters, digits, - _ (at most 32)")
    return folded


def is_exchange(name: str) -> bool:
    """Whether it is an exchange's name in its one spelling."""
    return _EXCHANGE.fullmatch(name) is not None


def exchange_prefix(exchange: str) -> str:
    """The key prefix of an exchange's raw trades, with a slash at its end."""
    return f"{RAW_ROOT}/exchange={canonical_exchange(exchange)}/"


def product_prefix(exchange: str, product: str) -> str:
    """The key prefix of a product's parts, with a slash at its end."""
    return f"{exchange_prefix(exchange)}product={canonical_product(product)}/"


def set_aside_prefix(exchange: str, product: str) -> str:
    """The key prefix of what was set aside of a product, with a slash at its end."""
    return product_prefix(exchange, product).replace(RAW_ROOT, f"{OWN_ROOT}/aside", 1)


def manifest_prefix(exchange: str, product: str) -> str:
    """The key prefix of a product's manifests, with a slash at its end."""
    return product_prefix(exchange, product).replace(f"{RAW_ROOT}/", MANIFESTS_PREFIX, 1)


def product_of_folder(folder: str) -> str | None:
    """The product of a folder name `product=BTC-USD`, or None if it is no product's folder."""
    key, _, product = folder.partition("=")
    return product if key == "product" and _PRODUCT.fullmatch(product) else None


def location_digest(location: str) -> str:
    """Eight hex digits that stand for a lake's location, in names of leases and blocks."""
    return hashlib.sha256(location.encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True, order=True)
class PartName:
    """The inclusive range of ids that a part answers for, which is its name.

    Raises:
        ValueError: unless 1 <= lo <= hi < 2^63.
    """

    lo: int
    hi: int

    def __post_init__(self) -> None:
        if not 1 <= self.lo <= self.hi <= MAX_ID:
            raise ValueError(f"not a range of trade ids: [{self.lo}, {self.hi}]")

    def __str__(self) -> str:
        return f"part-{self.lo:012d}-{self.hi:012d}.parquet"

    @classmethod
    def parse(cls, name: str) -> PartName | None:
        """The range of a file name, or None if the file is not one of ours."""
        match = _PART.fullmatch(name)
        if match is None:
            return None
        lo, hi = int(match[1]), int(match[2])
        if not 1 <= lo <= hi <= MAX_ID:
            return None
        parsed = cls(lo, hi)
        return parsed if str(parsed) == name else None
