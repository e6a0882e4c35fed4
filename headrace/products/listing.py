"""The list of products: what an exchange said last, what users added or removed, named sets.

Patterns choose from it: `*-USD`, or `re:` and a regular expression. Both match whole ids.

An exchange drops what it no longer trades. The list does not: such a product stays, marked as
delisted, since its trades stay in the lake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from fnmatch import translate
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.amounts import counted
from headrace.errors import ConfigurationError, StateError

if TYPE_CHECKING:
    from headrace.exchange.client import ProductInfo

LIST_VERSION = 1

_SHOWN = 10

#: What exchanges use in product ids (BTC-USD, 1INCH-USD, XBT.F, BTC_USD), and the lake in paths:
#: nothing that could become a path or a query.
_PRODUCT = re.compile(r"[A-Z0-9][A-Z0-9._-]{0,63}")

ONLINE, DELISTED, ADDED, REMOVED = "online", "delisted", "added", "removed"


#: What a pattern that is a regular expression begins with.
REGEX_PREFIX = "re:"


def some(names: Sequence[str]) -> str:
    """The first names, with three dots for the rest."""
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def matching(patterns: Iterable[str], products: Iterable[str]) -> list[str]:
    """The products that at least one of the patterns matches, in their order.

    Raises:
        ConfigurationError: a pattern cannot be used; see `checked_pattern`.
    """
    compiled = [re.compile(checked_pattern(pattern), re.IGNORECASE) for pattern in patterns]
    return [each for each in products if any(one.fullmatch(each) for one in compiled)]


def checked_pattern(pattern: str) -> str:
    """The regular expression of a pattern; upper and lower case are the same.

    Args:
        pattern: with `*` for any characters, `?` for one, `[AB]` for one of these; or, behind
            `re:`, a regular expression.

    Raises:
        ConfigurationError: it is empty, or no regular expression.
    """
    text = pattern.strip()
    if not text.removeprefix(REGEX_PREFIX):
        raise ConfigurationError(
            f"{pattern!r} is no pattern of product ids", hint="Write for example '*-USD'"
        )
    if not text.startswith(REGEX_PREFIX):
        return translate(text)
    expression = text.removeprefix(REGEX_PREFIX)
    try:
        re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigurationError(
            f"{pattern!r} is no regular expression: {error}",
            hint=f"Write for example '{REGEX_PREFIX}(BTC|ETH)-.*', or a pattern such as '*-USD'",
        ) from error
    return expression


class ListedProduct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One product of the list.

    Args:
        id: canonical id.
        base_currency, quote_currency, status, trading_disabled: as the exchange sent them last.
        listed: the exchange listed it at the last sync.
        first_seen, last_seen: the first and the last sync at which the exchange listed it, UTC;
            None for a product that it never listed.
        added: a user put it on the list; no sync takes it off.
        removed: a user took it off; no sync puts it back.
    """

    id: str
    base_currency: str = ""
    quote_currency: str = ""
    status: str | None = None
    trading_disabled: bool | None = None
    listed: bool = False
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    added: bool = False
    removed: bool = False


class NamedSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Products under one name: ids, and patterns that also take what is listed later."""

    name: str
    products: tuple[str, ...] = ()
    match: tuple[str, ...] = ()

    def members(self, of: Iterable[str]) -> list[str]:
        """Its ids, then what its patterns match `of` these; each once."""
        return list(dict.fromkeys([*self.products, *matching(self.match, of)]))


class Changes(msgspec.Struct, frozen=True):
    """What a sync found, by product id.

    Args:
        new: listed for the first time.
        delisted: listed before, and online no longer: gone from the exchange's list, or marked so.
        relisted: delisted before.
        ignored: ids that cannot be used as such.
    """

    new: tuple[str, ...] = ()
    delisted: tuple[str, ...] = ()
    relisted: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class ProductList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The list of one exchange.

    Args:
        source: host of the exchange that was asked.
        synced_at: when, UTC; None if it never was.
        products: by rising id.
        sets: by name.
    """

    schema_version: int = LIST_VERSION
    source: str = ""
    synced_at: datetime | None = None
    products: tuple[ListedProduct, ...] = ()
    sets: tuple[NamedSet, ...] = ()

    def state(self, product: ListedProduct) -> str:
        """`removed`, `delisted`, `added` (never listed by the exchange), or its status there."""
        if product.removed:
            return REMOVED
        if product.last_seen is None:
            return ADDED
        if not product.listed:
            return DELISTED
        return product.status or ONLINE

    def get(self, product: str) -> ListedProduct | None:
        """The entry of a product."""
        return next((each for each in self.products if each.id == product), None)

    def ids(self) -> list[str]:
        """Every product that no user has removed."""
        return [each.id for each in self.products if not each.removed]

    def online(self) -> list[str]:
        """What can be fetched: online at the exchange, or added by a user."""
        return [each.id for each in self.products if self.state(each) in (ONLINE, ADDED)]

    def delisted(self) -> frozenset[str]:
        """What the exchange listed once, and does no longer."""
        return frozenset(each.id for each in self.products if self.state(each) == DELISTED)

    def set_named(self, name: str) -> NamedSet | None:
        """The set of that name."""
        return next((each for each in self.sets if each.name == name), None)

    def with_listed(
        self, listed: Iterable[ProductInfo], *, source: str, now: datetime
    ) -> tuple[ProductList, Changes]:
        """The list after a sync, and what changed; what users did stays as it is."""
        before = {each.id: each for each in self.products}
        was_delisted = self.delisted()
        usable, ignored = _usable(listed)
        merged = {each.id: msgspec.structs.replace(each, listed=False) for each in self.products}
        for product, info in usable.items():
            old = before.get(product, ListedProduct(product))
            merged[product] = msgspec.structs.replace(
                old,
                base_currency=info.base_currency,
                quote_currency=info.quote_currency,
                status=info.status,
                trading_disabled=info.trading_disabled,
                listed=True,
                first_seen=old.first_seen or now,
                last_seen=now,
            )
        after = msgspec.structs.replace(
            self, source=source, synced_at=now, products=_sorted(merged.values())
        )
        delisted = after.delisted()
        seen = {each.id for each in self.products if each.last_seen is not None}
        return after, Changes(
            new=tuple(sorted(usable.keys() - seen)),
            delisted=tuple(sorted(delisted & seen - was_delisted)),
            relisted=tuple(sorted(was_delisted - delisted)),
            ignored=ignored,
        )

    def with_added(self, products: Iterable[str]) -> ProductList:
        """With these products on it, whatever the exchange lists."""
        merged = {each.id: each for each in self.products}
        for product in products:
            entry = merged.get(product, ListedProduct(product))
            merged[product] = msgspec.structs.replace(entry, added=True, removed=False)
        return msgspec.structs.replace(self, products=_sorted(merged.values()))

    def with_removed(self, products: Iterable[str]) -> ProductList:
        """Without what only users added; what the exchange lists is marked, and stays off."""
        merged = {each.id: each for each in self.products}
        for product in products:
            entry = merged[product]
            if entry.last_seen is None:
                del merged[product]
            else:
                merged[product] = msgspec.structs.replace(entry, added=False, removed=True)
        return msgspec.structs.replace(self, products=_sorted(merged.values()))

    def with_set(self, named: NamedSet) -> ProductList:
        """With this set, in the place of one of the same name."""
        others = [each for each in self.sets if each.name != named.name]
        return msgspec.structs.replace(
            self, sets=tuple(sorted([*others, named], key=lambda each: each.name))
        )

    def without_set(self, name: str) -> ProductList:
        """Without the set of that name; its products stay."""
        return msgspec.structs.replace(
            self, sets=tuple(each for each in self.sets if each.name != name)
        )

    def as_row(self, product: ListedProduct) -> dict[str, Any]:
        """Plain values of one product, for `--json`."""
        row: dict[str, Any] = msgspec.to_builtins(product)
        return {"id": row.pop("id"), "state": self.state(product), **row}


def _sorted(products: Iterable[ListedProduct]) -> tuple[ListedProduct, ...]:
    return tuple(sorted(products, key=lambda each: each.id))


def _usable(listed: Iterable[ProductInfo]) -> tuple[dict[str, ProductInfo], tuple[str, ...]]:
    """What the exchange lists by canonical id, and the ids that cannot be used."""
    usable: dict[str, ProductInfo] = {}
    ignored: list[str] = []
    for info in listed:
        try:
            usable[canonical_product(info.id)] = info
        except ConfigurationError:
            ignored.append(info.id)
    return usable, tuple(ignored)


class ListDoubted(StateError):
    """What the exchange lists differs so much from what is kept that nothing was changed."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the list of products was left as it is: {reason}",
            hint="If that is right, run headrace products sync --force",
        )
        self.reason = reason


def doubt(before: ProductList, after: ProductList, listed: Sequence[ProductInfo]) -> str:
    """Why a sync is more likely a mistake than news; empty if it is not."""
    if not listed:
        return f"{after.source} lists no product at all"
    if before.source and before.source != after.source:
        return f"it is that of {before.source}, and this is {after.source}"
    were, are = set(before.online()), set(after.online())
    gone = were - are
    if len(gone) > max(1, len(were) // 2):
        return f"{after.source} lists {len(gone):,} of {counted(len(were), 'product')} no longer"
    return ""


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
