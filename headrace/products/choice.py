"""Which products a pipeline is about: the parameters that say it, and what they mean now.

Ids, or one other way to name them: patterns, a named set, all, or a file. What fetches chooses from
the list of products that the lake keeps, and takes those that are online. What looks at a lake
chooses from the products stored there, delisted ones too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from headrace.amounts import counted
from headrace.errors import ConfigurationError, PlaceError
from headrace.lake.exceptions import LakeUnusable, StoreError
from headrace.lake.store import Store, stored_products
from headrace.paths import user_path
from headrace.products.listing import (
    NamedSet,
    ProductList,
    canonical_product,
    canonical_products,
    checked_pattern,
    matching,
    some,
)
from headrace.run.parameters import Form, Parameters, about

Product = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

#: A list of ids is smaller than this; a larger file is something else.
_LARGEST_FILE = 4_000_000
#: How each way is written, for messages.
_WAYS = {
    "products": "product ids",
    "match": "--match",
    "set": "--set",
    "all": "--all",
    "from_file": "--from-file",
}


class NoList(PlaceError, ConfigurationError):
    """A choice needs the exchange's list of products, and the lake keeps none yet."""

    said = "the lake {where} keeps no list of products to choose from"
    way_out = "headrace products sync fetches it"


class NothingChosen(ConfigurationError):
    """A choice that is valid and leaves no product."""


class UnknownSet(ConfigurationError):
    """A named set that the lake does not keep.

    Args:
        name: what was asked for.
        known: the sets that there are.
    """

    def __init__(self, name: str, location: str, known: Sequence[str]) -> None:
        there = f"It keeps {some(known)}" if known else "It keeps none"
        super().__init__(
            f"the lake {location} keeps no set of products named {name!r}",
            hint=f"{there}; headrace products set {name} --match '*-USD' makes one",
        )
        self.name = name
        self.known = tuple(known)


class NothingStored(PlaceError, ConfigurationError):
    """There is no trade of any product in the lake; nothing was made there either."""

    said = "there are no trades in {where}"
    way_out = "Look at --lake and HEADRACE_LAKE; headrace backfill puts trades there"


class NotInLake(ConfigurationError):
    """Products that the lake has no folder for.

    Args:
        products: what was asked for and is not there.
        location: the lake.
        known: what is there.
    """

    def __init__(self, products: Sequence[str], location: str, known: Sequence[str]) -> None:
        super().__init__(
            f"the lake {location} holds nothing of {', '.join(products)}",
            hint=f"It holds {some(known)}; headrace backfill fetches others",
        )
        self.products = tuple(products)
        self.location = location
        self.known = tuple(known)


class ListFileUnusable(PlaceError, ConfigurationError):
    """A file that should hold product ids, one a line.

    Attributes:
        where: the path as it was given.
        reason: what is wrong with it.
    """

    said = "product ids cannot be read from {where}: {reason}"
    way_out = "Write one id a line, such as BTC-USD; lines that begin with # are passed over"


class ProductChoice(Parameters):
    """The products of a request, in one of five ways. `products` are canonical ids, each once."""

    leading: ClassVar[bool] = True
    #: Whether a request may name no product.
    optional: ClassVar[bool] = False

    products: Annotated[
        tuple[str, ...],
        about(
            "Products",
            "Product ids as the exchange lists them, such as BTC-USD.",
            ["BTC-USD", "ETH-USD"],
        ),
        Form(list[Product], empty=[], argument=True),
    ] = ()
    match: Annotated[
        tuple[str, ...],
        about(
            "Products that match",
            "Instead of ids: patterns of whole ids, such as *-USD, or re: and a "
            "regular expression.",
            ["*-USD"],
            ["re:(BTC|ETH)-.*"],
        ),
        Form(list[str], empty=[]),
    ] = ()
    set: Annotated[
        str,
        about(
            "Set of products", "Instead of ids: a set that headrace products set has named.", "usd"
        ),
    ] = ""
    all: Annotated[
        bool,
        about(
            "All products",
            "Instead of ids: all in the lake; of a fetch, all that were online at the "
            "last headrace products sync.",
            True,
        ),
    ] = False
    from_file: Annotated[
        str,
        about(
            "File of products",
            "Instead of ids: a text file with one id a line, read where the run is.",
            "products.txt",
        ),
    ] = ""

    @field_validator("products", mode="before")
    @classmethod
    def _canonical(cls, products: Any) -> tuple[str, ...]:
        if isinstance(products, str):
            products = products.split(",")
        return tuple(canonical_products([str(product) for product in products]))

    @field_validator("match")
    @classmethod
    def _usable(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            checked_pattern(pattern)
        return patterns

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [text for name, text in _WAYS.items() if getattr(self, name)]
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)} both say which products; give one of them")
        if not ways and not self.optional:
            raise ValueError(
                f"no product is named; give {', '.join(list(_WAYS.values())[:-1])} or "
                f"{_WAYS['from_file']}"
            )
        return self

    @property
    def way(self) -> str:
        """How the products are named, as it would be written; empty for ids."""
        if self.match:
            return " ".join(f"--match {pattern}" for pattern in self.match)
        if self.set:
            return f"--set {self.set}"
        if self.from_file:
            return f"--from-file {self.from_file}"
        return "--all" if self.all else ""

    def of_file(self) -> dict[str, Any]:
        """The parameters that change once the file is read, if there is one: it is read here.

        Raises:
            ListFileUnusable: it holds no ids.
        """
        if not self.from_file:
            return {}
        return {"products": ids_of_file(self.from_file), "from_file": ""}

    def of(self, products: Sequence[str]) -> Self:
        """The same request about these products."""
        chosen = {"products": tuple(products), "match": (), "set": "", "all": False}
        return self.model_copy(update={**chosen, "from_file": ""})


class StoredChoice(ProductChoice):
    """The same of a request about what a lake holds; without products it means all that are stored.

    What it chooses from are the products in the lake, delisted ones too.
    """

    leading: ClassVar[bool] = True
    optional: ClassVar[bool] = True

    products: Annotated[
        tuple[str, ...],
        about(
            "Products",
            "Product ids in the lake; empty for all that it holds.",
            ["BTC-USD", "ETH-USD"],
            [],
        ),
        Form(list[Product], empty=[], argument=True),
    ] = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a choice means now.

    Args:
        products: canonical ids, each once; never none.
        way: how they were named; empty for ids.
        left_out: what it would mean, too, if it was online.
        delisted: those of the products that the exchange lists no longer.
    """

    products: tuple[str, ...]
    way: str = ""
    left_out: tuple[str, ...] = ()
    delisted: frozenset[str] = field(default_factory=frozenset)

    def described(self) -> str:
        """In one line, beside the table that names the products; empty where ids were given."""
        if not self.way:
            return ""
        text = f"{self.way}: {counted(len(self.products), 'product')}"
        return f"{text} (not online, left out: {some(self.left_out)})" if self.left_out else text


def to_fetch(choice: ProductChoice, store: Store, exchange: str) -> Chosen:
    """The products of a request that fetches.

    Raises:
        NoList: the lake keeps no list to choose from.
        UnknownSet, NothingChosen, ListFileUnusable: the choice means no product.
        ListDamaged, StoreError: the list cannot be read.
    """
    from headrace.products.list_file import kept_list  # not for help

    if choice.products or choice.from_file:
        return Chosen(_named(choice), choice.way)
    kept = kept_list(store, exchange)
    if choice.set:
        members = _set_of(choice, kept, store).members(kept.ids())
        removed = {each.id for each in kept.products if each.removed}
        wanted = [each for each in members if each not in removed]
    elif not kept.products:
        raise NoList(store.location)
    else:
        wanted = matching(choice.match, kept.ids()) if choice.match else kept.ids()
    listed, online = {each.id for each in kept.products}, set(kept.online())
    # What a set names and no sync has seen is asked for; the exchange knows.
    products = [each for each in wanted if each in online or each not in listed]
    left_out = tuple(each for each in wanted if each not in products)
    if not products:
        raise NothingChosen(
            f"{choice.way}: no product is meant by it"
            + (f" that is online (not online: {some(left_out)})" if left_out else ""),
            hint="Patterns match whole ids: '*BTC*' for all that have BTC in them. "
            "headrace products list shows what there is",
        )
    return Chosen(tuple(products), choice.way, () if choice.all else left_out)


def to_look_at(
    choice: StoredChoice, store: Store, exchange: str, *, strict: bool = False
) -> Chosen:
    """The products of a request about what a lake holds; a lake that is not there is not made.

    Args:
        strict: refuse also what a set names by id and is not stored, as any other id.

    Raises:
        NothingStored: there is nothing to look at.
        NotInLake: something that was named by id is not stored.
        UnknownSet, NothingChosen, ListFileUnusable: the choice means no product.
        LakeUnusable: the lake is a file, or cannot be reached.
        ListDamaged: the list cannot be read.
    """
    from headrace.products.list_file import kept_list  # not for help

    try:
        stored = stored_products(store, exchange)
        kept = kept_list(store, exchange)
    except StoreError as error:
        raise LakeUnusable(store.location, error.message, hint=error.hint) from error
    if not stored:
        raise NothingStored(store.location)
    if choice.products or choice.from_file:
        products = _named(choice)
    elif choice.set:
        products = tuple(_set_of(choice, kept, store).members(stored))
    else:
        products = tuple(matching(choice.match, stored) if choice.match else stored)
    unknown = [product for product in products if product not in stored]
    if unknown and (strict or not choice.set):
        raise NotInLake(unknown, store.location, stored)
    if not products:
        raise NothingChosen(
            f"{choice.way}: no product that the lake {store.location} holds is meant by it",
            hint=f"It holds {some(stored)}; patterns match whole ids",
        )
    return Chosen(products, choice.way, delisted=kept.delisted() & frozenset(products))


def ids_of_file(path: str) -> list[str]:
    """The product ids of a text file: one a line; blank lines and comments (#) are passed over.

    Raises:
        ListFileUnusable: it cannot be read, is no text, holds something else or nothing.
    """
    try:
        with user_path(path).open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        raise ListFileUnusable(path, getattr(error, "strerror", None) or str(error)) from error
    if len(content) > _LARGEST_FILE:
        raise ListFileUnusable(path, "it is too large for a list of ids")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ListFileUnusable(path, "it is no UTF-8 text") from error
    products = []
    for number, line in enumerate(text.splitlines(), 1):
        if word := line.partition("#")[0].strip():
            try:
                products.append(canonical_product(word))
            except ConfigurationError as error:
                raise ListFileUnusable(path, f"line {number}: {error.message}") from error
    if not products:
        raise ListFileUnusable(path, "there is no id in it")
    return list(dict.fromkeys(products))


def _named(choice: ProductChoice) -> tuple[str, ...]:
    return choice.products or tuple(ids_of_file(choice.from_file))


def _set_of(choice: ProductChoice, kept: ProductList, store: Store) -> NamedSet:
    if named := kept.set_named(choice.set):
        return named
    raise UnknownSet(choice.set, store.location, [each.name for each in kept.sets])
