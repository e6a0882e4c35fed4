"""Command blocks of documents, run as a reader would type them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

#: A fenced block of commands, with the mark before it that says why it is not run.
_BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\n)?^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def script_of(page: str, ports: Mapping[int, int]) -> str:
    """All command blocks of a page as one script, which ends at the first command that fails.

    Args:
        page: the name of the file in `docs`, without its ending.
        ports: those of the page, and those to use instead.
    """
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    blocks = [block for mark, block in _BLOCK.findall(text) if not mark]
    assert blocks, f"{page} has no command block that is run"
    script = "".join(["set -euo pipefail\n", *blocks])
    for port, free in ports.items():
        script = re.sub(rf"\b{port}\b", str(free), script)
    return script
