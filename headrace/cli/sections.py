"""Tables below each other in a limited height: each keeps a place, and says what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from headrace.cli.common import table_of

Lines = list[list[Segment]]


@dataclass(frozen=True, slots=True)
class Section:
    """A titled table.

    Attributes:
        rows: as of `table_of`, what matters most first.
        none: what is said where there is no row; empty for nothing at all.
        whole: columns that are not broken into lines.
        brief: the rows in fewer words, for where there is no room for all of `rows`.
    """

    title: str
    rows: Sequence[dict[str, Any]]
    none: str = ""
    whole: Sequence[str] = ()
    brief: Sequence[dict[str, Any]] = ()

    def drawn(self, most: int, *, brief: bool = False) -> list[RenderableType]:
        """With at most so many of its rows."""
        if not self.rows:
            return [Text(f"{self.title}: {self.none}", style="dim")] if self.none else []
        left = len(self.rows) - most
        if not most:
            return [Text(f"{self.title}: {left}, for which there is no room here")]
        rows = self.brief if brief and self.brief else self.rows
        table = table_of(rows[:most], self.title, whole=self.whole, edge=False)
        return [table, Text(f"and {left:,} more", style="dim")] if left > 0 else [table]


@dataclass(frozen=True, slots=True)
class Sections:
    """A head, sections, what matters most first, and lines at the end.

    Attributes:
        limited: to the height of the terminal. Each section but the first gives way down to a
            quarter of it, and then the first one; the lines at the end to a third of it.
    """

    head: str
    sections: Sequence[Section]
    foot: Sequence[str] = ()
    limited: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What Rich draws."""
        height = options.max_height if self.limited else None
        free = options.reset_height()

        def lines(parts: Sequence[RenderableType]) -> Lines:
            return [line for part in parts for line in console.render_lines(part, free, pad=False)]

        def within(section: Section, room: int) -> Lines | None:
            for most in range(min(len(section.rows), room), 0, -1):
                if len(found := lines(section.drawn(most, brief=True))) <= room:
                    return found
            return None

        head = lines([Text(self.head)])
        foot = lines([Text(line, style="yellow") for line in self.foot])
        drawn = [lines(each.drawn(len(each.rows))) for each in self.sections]
        if height is not None:
            unused = height - len(head) - sum(map(len, drawn))
            foot = foot[: max(height // 3, unused)]
            room = height - len(head) - len(foot)
            for place, section in enumerate(self.sections):
                later = [len(each) for each in drawn[place + 1 :]]
                # Where a quarter for each of the others leaves no row, they have a line each.
                rooms = [room - sum(min(n, share) for n in later) for share in (height // 4, 1)]
                if len(drawn[place]) > rooms[0]:
                    found = within(section, rooms[0]) or within(section, rooms[1])
                    drawn[place] = found or lines(section.drawn(0))
                room -= len(drawn[place])
        blocks = [head, *filter(None, drawn), *filter(None, [foot])]
        apart = height is None or sum(map(len, blocks)) + len(blocks) - 1 <= height
        for place, block in enumerate(blocks):
            if place and apart:
                yield Segment.line()
            for line in block:
                yield from line
                yield Segment.line()
