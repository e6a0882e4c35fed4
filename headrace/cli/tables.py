"""Tables that show every value whole, however narrow the terminal is.

What does not fit gets less space between its columns, then texts in several lines, and in the end a
line for each value. Rich by itself cuts what may not be broken into lines: of 1,680,000 it leaves
1,680,00, a wrong number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

#: What a column of texts keeps, if they are so long: narrower ones are hard to read.
_READABLE = 16
#: Longest piece of a text that is not broken; of numbers and ranges of numbers none is.
_UNBROKEN = 20
_NUMERIC = re.compile(r"[\d.,:%+\-–]+")


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `whole`: its cells are not broken into lines."""

    name: str
    right: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class FittedTable:
    """Rows of texts, as wide as they need; in a narrower place they take another form.

    Attributes:
        styles: of the rows, in their order; may be empty.
        frame: one of Rich's boxes.
        edge: whether there is space around it.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    title: str = ""
    styles: Sequence[str] = ()
    frame: box.Box = field(default=box.SIMPLE_HEAD)
    edge: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What Rich draws."""
        if self.title:
            yield Text(self.title, style="bold")
        yield self._arranged(options.max_width)

    def _arranged(self, width: int) -> RenderableType:
        natural = [self._width(place, broken=False) for place in range(len(self.columns))]
        least = [self._width(place, broken=True) for place in range(len(self.columns))]
        for enough in (natural, least):
            for padding in (1, 0):
                around = len(self.columns) * (2 * padding + 1) - 1
                around += 2 if self._has_edge(padding) else -2 * padding
                if sum(enough) + around <= width:
                    return self._table(_shrunk(natural, least, width - around), padding)
        return self._list()

    def _width(self, place: int, *, broken: bool) -> int:
        """Of a column, with its texts in one line or in as many as they may have."""
        column = self.columns[place]
        cells = [line for row in self.rows for line in row[place].splitlines()]
        of_cells = max(map(cell_len, cells), default=0)
        if broken and not column.whole:
            words = [word for cell in cells for word in cell.split()]
            of_words = max((_least(word) for word in words), default=0)
            of_cells = max(of_words, min(of_cells, _READABLE))
        # A name has lines of its own words, which are short.
        names = column.name.split() if broken or column.right else [column.name]
        return max(1, of_cells, *map(cell_len, names))

    def _has_edge(self, padding: int) -> bool:
        return self.edge and padding > 0

    def _table(self, widths: Sequence[int], padding: int) -> Table:
        edge = self._has_edge(padding)
        table = Table(box=self.frame, padding=(0, padding), show_edge=edge, pad_edge=edge)
        for column, width in zip(self.columns, widths, strict=True):
            table.add_column(
                Text(column.name), justify="right" if column.right else "left", width=width
            )
        for place, row in enumerate(self.rows):
            cells = (Text(cell, overflow="fold") for cell in row)
            table.add_row(*cells, style=self.styles[place] if self.styles else "")
        return table

    def _list(self) -> Text:
        blocks = []
        for place, row in enumerate(self.rows):
            style = self.styles[place] if self.styles else ""
            lines = [
                Text.assemble((f"{column.name}: ", "bold"), cell, style=style)
                for column, cell in zip(self.columns, row, strict=True)
                if cell
            ]
            blocks.append(Text("\n").join(lines))
        shown = Text("\n\n").join(blocks)
        shown.overflow = "fold"
        return shown


def _least(word: str) -> int:
    return cell_len(word) if _NUMERIC.fullmatch(word) else min(cell_len(word), _UNBROKEN)


def _shrunk(natural: Sequence[int], least: Sequence[int], available: int) -> list[int]:
    """Widths that fit: what is widest gives first, and none becomes less than it needs."""
    widths = list(natural)
    while (over := sum(widths) - available) > 0:
        able = [place for place, width in enumerate(widths) if width > least[place]]
        widest = max(able, key=lambda place: widths[place])
        rest = max((widths[place] for place in able if place != widest), default=0)
        step = max(1, min(over, widths[widest] - max(rest, least[widest])))
        widths[widest] -= step
    return widths
