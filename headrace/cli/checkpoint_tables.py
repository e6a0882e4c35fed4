"""Checkpoints as people see them. What comes from outside is shown as text, never as markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from headrace.coverage import Range
from headrace.pull.checkpoints import Checkpoint

if TYPE_CHECKING:
    from blocks.inspection import FoundCheckpoint
    from headrace.cli.checkpoint import Rebuilt

_NUMBERS = ("rows", "covered ids", "holes", "failed", "watermark", "newest")
_RANGES_SHOWN = 20


def list_table(found: Sequence[FoundCheckpoint], *, with_lake: bool) -> Table:
    """One line per checkpoint; an unusable one with its problem."""
    table = Table()
    table.add_column("product", no_wrap=True)
    for name in _NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("saved", no_wrap=True)
    if with_lake:
        table.add_column("lake")
    for entry in found:
        checkpoint = entry.checkpoint
        if checkpoint is None:
            table.add_row(Text(entry.block), *[""] * len(_NUMBERS), "unusable", style="red")
            continue
        lake = [Text(checkpoint.lake)] if with_lake else []
        table.add_row(Text(checkpoint.product), *_numbers(checkpoint), _when(checkpoint), *lake)
    problems = [entry.problem for entry in found if entry.problem]
    if problems:
        table.caption = Text("\n".join(problems))
        table.caption_justify = "left"
    return table


def details_table(checkpoint: Checkpoint) -> Table:
    """All that one checkpoint says."""
    table = Table(show_header=False)
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
        "covered": _ranges(checkpoint.covered),
        "holes": _ranges(checkpoint.holes),
        "failed": _ranges(checkpoint.failed),
        "saved": _when(checkpoint),
        "by run": checkpoint.run_id,
        "fencing token": str(checkpoint.fencing_token),
        "schema version": str(checkpoint.schema_version),
    }
    for name, value in facts.items():
        table.add_row(name, Text(value))
    return table


def rebuilt_table(results: Sequence[Rebuilt]) -> Table:
    """What became of each product's rebuild."""
    table = Table("product", "outcome")
    for name in _NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        if result.checkpoint is None:
            table.add_row(
                Text(result.product), Text(result.error), *[""] * len(_NUMBERS), style="red"
            )
        else:
            table.add_row(Text(result.product), "rebuilt", *_numbers(result.checkpoint))
    return table


def _numbers(checkpoint: Checkpoint) -> list[str]:
    failed = sum(hi - lo + 1 for lo, hi in checkpoint.failed)
    return [
        f"{checkpoint.rows:,}",
        f"{checkpoint.coverage.count:,}",
        f"{len(checkpoint.holes):,}",
        f"{failed:,}",
        f"{checkpoint.watermark:,}",
        f"{checkpoint.newest:,}",
    ]


def _when(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.updated_at:%Y-%m-%d %H:%M:%SZ}"


def _ranges(ranges: Sequence[Range]) -> str:
    shown = ", ".join(f"{lo}-{hi}" for lo, hi in ranges[:_RANGES_SHOWN])
    more = len(ranges) - _RANGES_SHOWN
    return (shown or "none") + (f" and {more:,} more" if more > 0 else "")
