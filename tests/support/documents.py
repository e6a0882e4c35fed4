"""Command blocks of documents, run as a reader would type them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"

#: A fenced block, with the line before it that tells readers why no test runs it.
_BLOCK = re.compile(
    r"(?:^\*Not run by a test: (?P<reason>[^*]+)\.\*\n+)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page.

    Attributes:
        page: the file.
        line: where its text begins.
        language: what stands behind the fence; commands are `sh`.
        text: its lines.
        not_run: why no test runs it; empty for those that are run.
    """

    page: Path
    line: int
    language: str
    text: str
    not_run: str


def blocks_of(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("text")) + 1
        reason = " ".join((found["reason"] or "").split())
        yield Block(page, line, found["language"], found["text"], reason)


def pages_with_commands() -> list[Path]:
    """The pages of `docs` that have commands which are run."""
    return [page for page in sorted(DOCS.glob("*.md")) if _commands(page)]


def script_of(
    page: Path, *, stand_ins: Mapping[str, str], given: Mapping[str, str] | None = None
) -> str:
    """All commands of a page as one script, which says each and ends at the first that fails.

    Args:
        page: the file.
        stand_ins: names and addresses of the page, and what stands for them; a port is a word.
        given: what the reader has done before, other than on this page: commands, by words of the
            block before which they come.
    """
    blocks = _commands(page)
    for named, meant in stand_ins.items():
        assert any(named in block for block in blocks), f"{page.name} names no {named}"
        pattern = re.compile(rf"\b{named}\b" if named.isdigit() else re.escape(named))
        blocks = [pattern.sub(lambda _, meant=meant: meant, block) for block in blocks]
    for words, commands in (given or {}).items():
        [before] = [n for n, block in enumerate(blocks) if words in block] or [None]
        assert before is not None, f"{page.name} has no block with {words}"
        blocks[before] = f"{commands}\n{blocks[before]}"
    return "".join(
        ["set -euo pipefail\ntrap 'jobs -p | xargs -r kill || true' EXIT\nset -x\n", *blocks]
    )


def _commands(page: Path) -> list[str]:
    return [each.text for each in blocks_of(page) if each.language == "sh" and not each.not_run]


def main() -> None:
    """Print the command blocks that no test runs, each with the reason."""
    for page in sorted(DOCS.glob("*.md")):
        for block in blocks_of(page):
            if block.not_run:
                first = block.text.splitlines()[0]
                print(
                    f"not run: {page.relative_to(PROJECT)}:{block.line} `{first}`: {block.not_run}"
                )


if __name__ == "__main__":
    main()
