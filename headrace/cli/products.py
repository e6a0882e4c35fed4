"""`headrace products`: what the exchange lists."""

from __future__ import annotations

import json
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.exchange.client import ExchangeClient, ProductInfo
from headrace.logs.redaction import safe_text
from headrace.quota import QuotaConfig, open_gate, parse_rates
from headrace.settings import load_settings
from headrace.wire.transport import Transport, checked_base_url, quota_name


def products(
    match: Annotated[str, typer.Option(help="Only ids that contain this text.")] = "",
    base_url: Annotated[
        str, typer.Option(help="Address of the exchange. [HEADRACE_COINBASE_URL]")
    ] = "",
    rate: Annotated[list[str], typer.Option(help="What the exchange allows. [HEADRACE_RATE]")] = [],  # noqa: B006 - typer reads it, it is never changed
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON array on stdout, nothing else.")
    ] = False,
) -> None:
    """List the products that the exchange knows."""
    settings = load_settings()
    url = checked_base_url(base_url or settings.coinbase_url)
    rates = parse_rates(",".join(rate) or settings.rate)
    quota = QuotaConfig(name=quota_name(url), rates=rates)
    with Transport(url) as transport:
        transport.check_reachable()
        gate = open_gate(settings.quota_folder, quota, outage_limit_s=0.0)
        try:
            listed = ExchangeClient(transport, gate).products()
        finally:
            gate.close()
    found = sorted(
        (product for product in listed if match.upper() in product.id.upper()),
        key=lambda product: product.id,
    )
    if as_json:
        typer.echo(json.dumps([msgspec.to_builtins(product) for product in found]))
    else:
        Console().print(_table(found))


def _table(found: list[ProductInfo]) -> Table:
    table = Table("product", "base", "quote", "status", "trading")
    for product in found:
        trading = {None: "", True: "disabled", False: "enabled"}[product.trading_disabled]
        texts = (product.id, product.base_currency, product.quote_currency, product.status or "")
        # As Text: what the exchange sends is no markup, and nothing that moves the cursor.
        table.add_row(*(Text(safe_text(text)) for text in texts), trading)
    return table
