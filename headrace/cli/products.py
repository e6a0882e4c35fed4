"""`headrace products …`: the exchange's list, kept in the lake, and named sets of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from headrace.amounts import counted
from headrace.cli.common import LakeOption, print_json, result_console, table_of
from headrace.cli.places import opened_store, place_of_quotas
from headrace.cli.tables import FittedTable
from headrace.errors import ConfigurationError
from headrace.exchange.client import ExchangeClient, ProductInfo
from headrace.lake.names import product_prefix
from headrace.leases import open_leases
from headrace.logs.redaction import safe_text
from headrace.products.choice import NoList, UnknownSet
from headrace.products.list_file import UnknownListed, change_list, kept_list
from headrace.products.listing import (
    Changes,
    ListDoubted,
    ListedProduct,
    NamedSet,
    ProductList,
    canonical_products,
    checked_pattern,
    doubt,
    matching,
)
from headrace.pull.ledger import EXCHANGE, source_host
from headrace.quota import QuotaConfig, open_gate, parse_rates
from headrace.settings import load_settings
from headrace.wire.transport import Transport, check_base_url, quota_name

app = typer.Typer(
    help="The exchange's list of products, kept in the lake, and named sets of products."
)

UrlOption = Annotated[str, typer.Option(help="Address of the exchange. [HEADRACE_COINBASE_URL]")]
RateOption = Annotated[list[str], typer.Option(help="What the exchange allows. [HEADRACE_RATE]")]
MatchOption = Annotated[
    list[str],
    typer.Option(help="Only ids that match, such as '*-USD', or re: and a regular expression."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON value on stdout, nothing else.")]
Ids = Annotated[list[str], typer.Argument(help="Product ids, such as BTC-USD.")]

_SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@app.callback(invoke_without_command=True)
def products(
    context: typer.Context,
    text: Annotated[str, typer.Option("--match", help="Only ids that contain this text.")] = "",
    base_url: UrlOption = "",
    rate: RateOption = [],  # noqa: B006 - typer reads it, it is never changed
    as_json: Json = False,
) -> None:
    """The exchange's list of products, kept in the lake, and named sets of products.

    Without a command: list what the exchange has now, and keep nothing.
    """
    if context.invoked_subcommand:
        if text or base_url or rate or as_json:
            raise ConfigurationError(
                "options of a command stand behind it",
                hint=f"headrace products {context.invoked_subcommand} --help",
            )
        return
    found = sorted(
        (each for each in _asked(_address(base_url), rate) if text.upper() in each.id.upper()),
        key=lambda each: each.id,
    )
    if as_json:
        print_json([msgspec.to_builtins(each) for each in found])
        return
    now = datetime.now(UTC).replace(microsecond=0)
    listed = ProductList().with_listed(found, source="", now=now)[0]
    result_console().print(_table(listed, listed.products))


@app.command()
def sync(
    lake: LakeOption = "",
    base_url: UrlOption = "",
    rate: RateOption = [],  # noqa: B006 - typer reads it, it is never changed
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Even if it is another exchange's, or lacks most of the products."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Fetch the exchange's list into the lake; what users added, removed and named stays."""
    url = _address(base_url)
    with opened_store(lake, quiet=as_json) as store:
        listed = _asked(url, rate)
        found: list[Changes] = []

        def change(before: ProductList) -> ProductList:
            now = datetime.now(UTC).replace(microsecond=0)
            after, changes = before.with_listed(listed, source=source_host(url), now=now)
            if not force and (reason := doubt(before, after, listed)):
                raise ListDoubted(reason)
            found[:] = [changes]
            return after

        after = change_list(store, EXCHANGE, open_leases(load_settings().lease_location), change)
        where = store.location
    [changes] = found
    if as_json:
        counts = {"products": len(after.products), "online": len(after.online())}
        about = {"lake": where, "source": after.source, "synced_at": after.synced_at}
        typer.echo(msgspec.json.encode({**about, **counts, **msgspec.to_builtins(changes)}))
        return
    typer.echo(
        f"{counted(len(listed), 'product')} of {after.source}, "
        f"{len(after.online()):,} of the list online; "
        f"kept in {where}"
    )
    for name in changes.__struct_fields__:
        if ids := getattr(changes, name):
            typer.echo(f"{name}: {safe_text(', '.join(ids))}")


@app.command("list")
def list_(
    match: MatchOption = [],  # noqa: B006 - as above
    set_name: Annotated[str, typer.Option("--set", help="Only the products of a set.")] = "",
    state: Annotated[
        str, typer.Option(help="Only those in this state: online, delisted, added, removed, ...")
    ] = "",
    live: Annotated[
        bool, typer.Option("--live", help="Ask the exchange now, and keep nothing.")
    ] = False,
    lake: LakeOption = "",
    base_url: UrlOption = "",
    rate: RateOption = [],  # noqa: B006 - as above
    as_json: Json = False,
) -> None:
    """List the products that the lake's list has, or, with --live, the exchange's now."""
    if live and (set_name or state):
        raise ConfigurationError("--live excludes --set and --state: the exchange knows neither")
    if live:
        now = datetime.now(UTC).replace(microsecond=0)
        listed = _asked(_address(base_url), rate)
        kept, where = ProductList().with_listed(listed, source="", now=now)[0], ""
    else:
        kept, where = _kept(lake, quiet=as_json)
        if not kept.products:
            raise NoList(where)
    chosen = [each.id for each in kept.products]
    if set_name:
        chosen = _set(kept, set_name, where).members(kept.ids())
    if match:
        chosen = matching(match, chosen)
    wanted = set(chosen)
    found = [
        each
        for each in kept.products
        if each.id in wanted and (not state or kept.state(each) == state.lower())
    ]
    if as_json:
        print_json([kept.as_row(each) for each in found])
    else:
        result_console().print(_table(kept, found))


@app.command()
def show(
    product: Annotated[str, typer.Argument(help="Product id, such as BTC-USD.")],
    lake: LakeOption = "",
    as_json: Json = False,
) -> None:
    """Show what the list says of one product, its sets, and whether the lake has parts of it."""
    [product] = canonical_products([product])
    with opened_store(lake, quiet=as_json) as store:
        kept = kept_list(store, EXCHANGE)
        entry = kept.get(product)
        if entry is None:
            raise UnknownListed([product], store.location)
        stored = next(iter(store.entries(product_prefix(EXCHANGE, product))), None) is not None
    sets = [each.name for each in kept.sets if product in each.members(kept.ids())]
    facts = {**kept.as_row(entry), "sets": sets, "stored": stored}
    if as_json:
        print_json(facts)
        return
    table = Table(show_header=False)
    for name, value in facts.items():
        shown = ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)
        table.add_row(name.replace("_", " "), Text(safe_text(shown)))
    result_console().print(table)


@app.command()
def add(ids: Ids, lake: LakeOption = "", as_json: Json = False) -> None:
    """Put products on the list, whatever the exchange lists; they stay at every sync."""
    wanted = canonical_products(ids)
    _change(lake, lambda kept, _: kept.with_added(wanted), as_json, f"added: {', '.join(wanted)}")


@app.command()
def remove(ids: Ids, lake: LakeOption = "", as_json: Json = False) -> None:
    """Take products off the list; --all and patterns leave them out from then on.

    No trade is touched. `headrace products add` puts them back.
    """
    wanted = canonical_products(ids)

    def change(kept: ProductList, where: str) -> ProductList:
        unknown = [product for product in wanted if kept.get(product) is None]
        if unknown:
            raise UnknownListed(unknown, where)
        return kept.with_removed(wanted)

    _change(lake, change, as_json, f"removed: {', '.join(wanted)}")


@app.command("set")
def set_(
    name: Annotated[str, typer.Argument(help="Name of the set.")],
    ids: Annotated[list[str], typer.Argument(help="Product ids in it, such as BTC-USD.")] = [],  # noqa: B006 - as above
    match: Annotated[
        list[str],
        typer.Option(help="Patterns: what matches is in the set, also what is listed later."),
    ] = [],  # noqa: B006 - as above
    delete: Annotated[bool, typer.Option("--delete", help="Delete the set.")] = False,
    lake: LakeOption = "",
    as_json: Json = False,
) -> None:
    """Name a set of products, in the place of one of the same name; or delete it."""
    if not _SET_NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not a name for a set", hint="Use letters, digits and - _ . (at most 64)"
        )
    if delete == bool(ids or match):
        raise ConfigurationError(
            f"the set {name}: give ids, --match or both, or --delete alone",
            hint=f"For example: headrace products set {name} --match '*-USD'",
        )
    for pattern in match:
        checked_pattern(pattern)
    named = NamedSet(name, tuple(canonical_products(ids)), tuple(match))

    def change(kept: ProductList, where: str) -> ProductList:
        if not delete:
            return kept.with_set(named)
        _set(kept, name, where)
        return kept.without_set(name)

    after = _change(lake, change, as_json, f"deleted the set {name}" if delete else "")
    if not delete and not as_json:
        members = named.members(after.ids())
        typer.echo(
            f"{name}: {counted(len(members), 'product')} now: {', '.join(members) or 'none'}"
        )


@app.command()
def sets(lake: LakeOption = "", as_json: Json = False) -> None:
    """List the named sets, and what is in them now."""
    kept, where = _kept(lake, quiet=as_json)
    members = {each.name: each.members(kept.ids()) for each in kept.sets}
    if as_json:
        rows = [{**msgspec.to_builtins(each), "members": members[each.name]} for each in kept.sets]
        print_json(rows)
        return
    if not kept.sets:
        typer.echo(f"the lake {where} keeps no set; headrace products set NAME makes one")
        return
    rows = [
        {
            "set": each.name,
            "ids": ", ".join(each.products),
            "patterns": " ".join(each.match),
            "products now": len(members[each.name]),
        }
        for each in kept.sets
    ]
    result_console().print(table_of(rows))


def _kept(lake: str, *, quiet: bool) -> tuple[ProductList, str]:
    """The list, and the lake that keeps it."""
    with opened_store(lake, quiet=quiet) as store:
        return kept_list(store, EXCHANGE), store.location


def _change(
    lake: str, change: Callable[[ProductList, str], ProductList], as_json: bool, done: str
) -> ProductList:
    with opened_store(lake, quiet=as_json) as store:
        leases = open_leases(load_settings().lease_location)
        after = change_list(store, EXCHANGE, leases, lambda kept: change(kept, store.location))
    if as_json:
        print_json(_as_json(after, store.location))
    elif done:
        typer.echo(done)
    return after


def _as_json(kept: ProductList, where: str) -> dict[str, Any]:
    products = [kept.as_row(each) for each in kept.products]
    return {"lake": where, "products": products, "sets": msgspec.to_builtins(kept.sets)}


def _set(kept: ProductList, name: str, where: str) -> NamedSet:
    if found := kept.set_named(name):
        return found
    raise UnknownSet(name, where, [each.name for each in kept.sets])


def _address(base_url: str) -> str:
    return check_base_url(base_url or load_settings().coinbase_url)


def _asked(url: str, rate: Sequence[str]) -> list[ProductInfo]:
    """What the exchange lists now."""
    settings = load_settings()
    rates = parse_rates(",".join(rate) or settings.rate)
    quota = QuotaConfig(name=quota_name(url), rates=rates)
    with Transport(url) as transport:
        transport.check_reachable()
        gate = open_gate(place_of_quotas(settings), quota, outage_limit_s=0.0)
        try:
            return ExchangeClient(transport, gate).products()
        finally:
            gate.close()


def _table(kept: ProductList, found: Iterable[ListedProduct]) -> FittedTable:
    rows = [
        {
            # What the exchange sends may move the cursor of a terminal.
            "product": safe_text(each.id),
            "base": safe_text(each.base_currency),
            "quote": safe_text(each.quote_currency),
            "state": safe_text(kept.state(each)),
            "trading": {None: "", True: "disabled", False: "enabled"}[each.trading_disabled],
            "first seen": f"{each.first_seen:%Y-%m-%d}" if each.first_seen else "",
            "last seen": f"{each.last_seen:%Y-%m-%d}" if each.last_seen else "",
        }
        for each in found
    ]
    return table_of(rows or [{"product": "none"}])
