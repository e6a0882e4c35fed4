"""Assemble what the site is built from: `python docs/site.py FOLDER`.

The folder mirrors the project, so that a link means the same in the repository and on the site: the
documents as they are, the files they link to, and the pages that `docs/reference.py` makes.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from docs import reference  # noqa: E402

_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def assemble(target: Path) -> None:
    """Write all pages below a folder, whose former content is removed."""
    shutil.rmtree(target, ignore_errors=True)
    pages = [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")]
    linked = {found for page in pages for found in _linked_files(page)}
    for file in {*pages, *linked, *PROJECT.glob("docs/vendor/*")}:
        to = target / file.relative_to(PROJECT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, to)
    (target / "docs/reference").mkdir()
    for name, page in reference.PAGES.items():
        (target / f"docs/reference/{name}.md").write_text(page(), encoding="utf-8")
    decisions = target / "docs/adr/index.md"
    decisions.write_text(_decisions(), encoding="utf-8")


def _linked_files(page: Path) -> list[Path]:
    """The files of the project that a page links to; a dead link is left for the build to name."""
    places = ((page.parent / link).resolve() for link in _LINK.findall(page.read_text("utf-8")))
    return [each for each in places if each.is_file() and each.is_relative_to(PROJECT)]


def _decisions() -> str:
    files = sorted((PROJECT / "docs/adr").glob("*.md"))
    titles = [(file.name, file.read_text("utf-8").splitlines()[0].lstrip("# ")) for file in files]
    return "# Decisions\n\n" + "\n".join(f"- [{title}]({name})" for name, title in titles) + "\n"


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
