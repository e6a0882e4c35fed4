"""`headrace checkpoint …`: what runs recorded of each product; shown, rebuilt, deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from headrace.amounts import counted
from headrace.cli.common import Json, LakeOption, Yes, confirm, print_json, result_console, table_of
from headrace.cli.exit_codes import Exit, exit_of_status
from headrace.cli.server import api_for_run
from headrace.cli.server.run import say_on_stderr
from headrace.cli.tables import FittedTable
from headrace.coverage import Range
from headrace.errors import ConfigurationError, HeadraceError
from headrace.lake.names import exchange_prefix, location_digest
from headrace.leases import LeaseHeld, open_leases
from headrace.products.listing import canonical_product, canonical_products
from headrace.pull.checkpoints import Checkpoint
from headrace.pull.ledger import EXCHANGE
from headrace.pull.product_leases import ProductLeases
from headrace.pull.rebuild import rebuild
from headrace.run.report import Status, combined
from headrace.settings import Settings, load_settings

if TYPE_CHECKING:
    from blocks import BlockCheckpoints, Lake

app = typer.Typer(help="Checkpoints: what runs recorded of each product.", no_args_is_help=True)


_RANGES_SHOWN = 20
_DELETED, _ABSENT = "forgotten", "there was no checkpoint"

Product = Annotated[str, typer.Argument(help="Product id, such as BTC-USD.")]


@dataclass(frozen=True)
class _Place:
    """A lake as the options name it, and its checkpoints."""

    lake: Lake
    checkpoints: BlockCheckpoints
    settings: Settings

    def product_leases(self, product: str) -> ProductLeases:
        leases = open_leases(self.settings.lease_location)
        return ProductLeases(leases, EXCHANGE, product, self.checkpoints.lake)


@dataclass(frozen=True)
class Rebuilt:
    """How the rebuild of one product ended."""

    product: str
    status: Status
    checkpoint: Checkpoint | None = None
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """The form of `--json`."""
        return {
            "product": self.product,
            "status": self.status.value,
            "checkpoint": self.checkpoint.model_dump(mode="json") if self.checkpoint else None,
            "error": self.error or None,
        }


@app.command("list")
def list_checkpoints(
    lake: LakeOption = "",
    all_lakes: Annotated[
        bool, typer.Option("--all-lakes", help="Of every lake, not only this one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the checkpoints of a lake, unusable ones included."""
    with _opened(lake, quiet=as_json) as place:
        from blocks.checkpoint import found_checkpoints

        here = place.checkpoints.lake
        # The name of a block ends with its lake's tag, which an unusable one has as well.
        found = [
            entry
            for entry in found_checkpoints()
            if all_lakes or entry.block.endswith(f"-{location_digest(here)}")
        ]
    if as_json:
        listed = [
            {
                "block": entry.block,
                "problem": entry.problem or None,
                "checkpoint": entry.checkpoint and entry.checkpoint.model_dump(mode="json"),
            }
            for entry in found
        ]
        print_json({"lake": None if all_lakes else here, "checkpoints": listed})
    elif found:
        for each in sorted({entry.checkpoint.lake for entry in found if entry.checkpoint}):
            usable = [e.checkpoint for e in found if e.checkpoint and e.checkpoint.lake == each]
            result_console().print(_table(usable, each, saved=True))
        for entry in found:
            if entry.problem:
                typer.echo(f"{entry.block}: {entry.problem}")
    else:
        typer.echo("there is no checkpoint" + ("" if all_lakes else f" of the lake {here}"))


@app.command()
def show(product: Product, lake: LakeOption = "", as_json: Json = False) -> None:
    """Show everything that the checkpoint of one product holds, and what the last transform took.

    The table's own log is the truth of what was taken; this is a copy.
    """
    product = canonical_product(product)
    with _opened(lake, quiet=as_json) as place:
        from blocks import BlockUnifiedStates

        checkpoint = place.checkpoints.load(EXCHANGE, product)
        unified = BlockUnifiedStates(place.checkpoints.lake).of_product(product)
    if checkpoint is None:
        raise ConfigurationError(
            f"there is no checkpoint of {product} for the lake {place.checkpoints.lake}",
            hint="headrace checkpoint list --all-lakes shows those that there are",
        )
    if as_json:
        print_json({**checkpoint.model_dump(mode="json"), "unified": unified})
    else:
        result_console().print(_details(checkpoint, unified))


@app.command("rebuild")
def rebuild_checkpoints(
    products: Annotated[
        list[str] | None, typer.Argument(help="Product ids; none: all that the lake holds.")
    ] = None,
    lake: LakeOption = "",
    force: Annotated[
        bool, typer.Option("--force", help="Replace even one that a newer version wrote.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Rebuild checkpoints from the lake alone, without one request to the exchange.

    For checkpoints that are damaged, or gone with the Prefect database.
    """
    wanted = canonical_products(products or [])
    with _opened(lake, quiet=as_json) as place:
        results = _rebuilt(place, wanted, force=force)
    if as_json:
        print_json(
            {"lake": place.checkpoints.lake, "products": [result.as_json() for result in results]}
        )
    else:
        if any(result.checkpoint for result in results):
            result_console().print(_table([each.checkpoint for each in results if each.checkpoint]))
        for result in results:
            if result.error:
                said = result.error.removeprefix(f"{result.product}: ")
                typer.echo(f"{result.product}: {said}", err=True)
    raise typer.Exit(exit_of_status(combined(result.status for result in results)))


@app.command()
def reset(
    products: Annotated[list[str], typer.Argument(help="Product ids, such as BTC-USD.")],
    lake: LakeOption = "",
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete checkpoints. No trade is touched: the next run starts from what the lake holds.

    What only a checkpoint knows is gone then: which ranges failed, and the newest id seen.
    """
    wanted = canonical_products(products)
    if not yes:
        confirm(
            f"Delete the checkpoint of {', '.join(wanted)}? The trades stay in the lake.",
            refusal="no checkpoint was deleted",
        )
    outcomes: dict[str, str] = {}
    with _opened(lake, quiet=as_json) as place:
        for product in wanted:
            outcomes[product] = _reset(place, product)
    if as_json:
        print_json({"lake": place.checkpoints.lake, "products": outcomes})
    else:
        for product, outcome in outcomes.items():
            typer.echo(f"{product}: {outcome}")
    if not {_DELETED, _ABSENT}.issuperset(outcomes.values()):
        raise typer.Exit(Exit.RUNNING_ELSEWHERE)


@contextmanager
def _opened(lake: str, *, quiet: bool) -> Iterator[_Place]:
    """The lake's checkpoints, behind whatever Prefect API is configured or ours."""
    settings = load_settings()
    say = (lambda _line: None) if quiet else say_on_stderr
    with api_for_run(settings.home, say=say):
        from blocks import BlockCheckpoints
        from blocks.resolve import lake_of

        block = lake_of(lake or settings.lake)
        yield _Place(block, BlockCheckpoints(block.store().location), settings)


def _rebuilt(place: _Place, wanted: list[str], *, force: bool) -> list[Rebuilt]:
    here = place.checkpoints.lake
    if not place.lake.store().folders(exchange_prefix(EXCHANGE)):
        # Asked before the lake is opened, which would make it where there is none.
        raise ConfigurationError(f"the lake {here} holds no trades", hint="Look at --lake")
    raw = place.lake.open().raw(EXCHANGE)
    run_id = f"rebuild-{uuid4().hex[:12]}"
    results = []
    for product in wanted or raw.products():
        try:
            checkpoint = rebuild(
                raw,
                product,
                checkpoints=place.checkpoints,
                product_leases=place.product_leases(product),
                run_id=run_id,
                ttl_s=place.settings.lease_ttl_s,
                now=datetime.now(UTC),
                force=force,
            )
        except LeaseHeld as error:
            results.append(Rebuilt(product, Status.RUNNING_ELSEWHERE, error=str(error)))
        except HeadraceError as error:
            results.append(Rebuilt(product, Status.FAILED, error=str(error)))
        else:
            results.append(Rebuilt(product, Status.DONE, checkpoint))
    return results


def _reset(place: _Place, product: str) -> str:
    """Delete one checkpoint; the outcome in words."""
    run_id, ttl_s = f"reset-{uuid4().hex[:12]}", place.settings.lease_ttl_s
    try:
        with place.product_leases(product).acquire_all(run_id, ttl_s=ttl_s):
            return _DELETED if place.checkpoints.delete(EXCHANGE, product) else _ABSENT
    except LeaseHeld as error:
        return str(error)


def _table(
    checkpoints: Sequence[Checkpoint], lake: str = "", *, saved: bool = False
) -> FittedTable:
    rows = [
        {
            "product": each.product,
            "rows": each.rows,
            "watermark": each.watermark,
            "newest": each.newest,
            "holes": len(each.holes),
            "failed": len(each.failed),
            **({"saved": _when(each)} if saved else {}),
        }
        for each in checkpoints
    ]
    return table_of(rows, lake)


def _details(checkpoint: Checkpoint, unified: dict[str, Any] | None) -> Table:
    """Everything that one checkpoint holds, and what the unified table has taken."""
    table = Table(show_header=False, box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    facts = {
        "product": checkpoint.product,
        "source": checkpoint.source,
        "lake": checkpoint.lake,
        "rows": f"{checkpoint.rows:,}",
        "first trade": f"{checkpoint.first:,}" if checkpoint.first else "not known",
        "watermark": f"{checkpoint.watermark:,}",
        "newest seen": f"{checkpoint.newest:,}",
        "ingests from": f"{checkpoint.ingest_from:,}" if checkpoint.ingest_from else "not known",
        "covered": _ranges(checkpoint.covered),
        "holes": _ranges(checkpoint.holes),
        "failed": _ranges(checkpoint.failed),
        "saved": _when(checkpoint),
        "by run": checkpoint.run_id,
        "fencing token": str(checkpoint.fencing_token),
        "schema version": str(checkpoint.schema_version),
        "unified table": _taken(unified) if unified else "no transform has taken it",
    }
    for name, value in facts.items():
        table.add_row(name, Text(value))
    return table


def _when(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.updated_at:%Y-%m-%d %H:%M:%SZ}"


def _taken(unified: dict[str, Any]) -> str:
    return (
        f"{_ranges([(lo, hi) for lo, hi in unified['taken']])}; "
        f"{counted(unified['rows'], 'trade')} in {counted(unified['files'], 'file')}, "
        f"as of version {unified['version']}"
    )


def _ranges(ranges: Sequence[Range]) -> str:
    shown = ", ".join(f"{lo}-{hi}" for lo, hi in ranges[:_RANGES_SHOWN])
    more = len(ranges) - _RANGES_SHOWN
    return (shown or "none") + (f" and {more:,} more" if more > 0 else "")
