"""Checkpoints as people see them. What comes from outside is shown as text, never as markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from headrace.coverage import Range
from headrace.pull.checkpoints import Checkpoint

if TYPE_CHECKING:
    from blocks.inspection import FoundCheckpoint

_NUMBERS = ("rows", "watermark", "newest", "holes", "failed")
_RANGES_SHOWN = 20


def list_tables(found: Sequence[FoundCheckpoint]) -> Iterator[Table]:
    """A table per lake, with one line per usable checkpoint."""
    usable = [entry.checkpoint for entry in found if entry.checkpoint]
    for lake in sorted({checkpoint.lake for checkpoint in usable}):
        table = _numbers_table()
        table.title = Text(lake)
        table.title_justify = "left"
        table.add_column("saved", min_width=10)
        for checkpoint in usable:
            if checkpoint.lake == lake:
                row = (*_numbers(checkpoint), _when(checkpoint))
                table.add_row(Text(checkpoint.product), *row)
        yield table


def details_table(checkpoint: Checkpoint) -> Table:
    """All that one checkpoint says."""
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
    }
    for name, value in facts.items():
        table.add_row(name, Text(value))
    return table


def rebuilt_table(rebuilt: Sequence[Checkpoint]) -> Table:
    """The checkpoints that were rebuilt."""
    table = _numbers_table()
    for checkpoint in rebuilt:
        table.add_row(Text(checkpoint.product), *_numbers(checkpoint))
    return table


def _numbers_table() -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("product", overflow="fold")
    for name in _NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _numbers(checkpoint: Checkpoint) -> list[str]:
    numbers = (
        checkpoint.rows,
        checkpoint.watermark,
        checkpoint.newest,
        len(checkpoint.holes),
        len(checkpoint.failed),
    )
    return [f"{number:,}" for number in numbers]


def _when(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.updated_at:%Y-%m-%d %H:%M:%SZ}"


def _ranges(ranges: Sequence[Range]) -> str:
    shown = ", ".join(f"{lo}-{hi}" for lo, hi in ranges[:_RANGES_SHOWN])
    more = len(ranges) - _RANGES_SHOWN
    return (shown or "none") + (f" and {more:,} more" if more > 0 else "")
