"""The documents as a whole: what runs as a command is marked so, and every page can be found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.documents import DOCS, PROJECT, blocks_of, script_of

PAGES = sorted(DOCS.glob("*.md"))
DOCUMENTS = [*PAGES, PROJECT / "README.md", PROJECT / "CONTRIBUTING.md"]
#: Those of blocks: `sh` are commands, which a test runs.
LANGUAGES = {"sh", "text", "json", "yaml", "python", "sql"}
_COMMAND = re.compile(r"^\$? *(?:headrace|prefect|python|pip|uv|make|docker|export) ", re.MULTILINE)
_INDENTED = re.compile(r"\n\n((?: {4,}.*\n)+)")


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.stem)
def test_commands_are_marked_as_such(page: Path) -> None:
    assert page.read_text("utf-8").count("\n```") % 2 == 0
    others = [each for each in blocks_of(page) if each.language != "sh"]
    assert {each.language for each in others} <= LANGUAGES
    assert [each.line for each in others if _COMMAND.search(each.text)] == []
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    indented = [found for found in _INDENTED.findall(text) if not found.lstrip().startswith("- ")]
    assert [found for found in indented if _COMMAND.search(re.sub("^ +", "", found))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_begins_with_what_it_is_for(page: Path) -> None:
    title, empty, first, *_ = page.read_text("utf-8").splitlines()
    assert title.startswith("# ")
    assert (empty, bool(re.match(r"[A-Z`][\w ].*\w", first))) == ("", True)


def test_every_page_can_be_reached_from_the_navigation() -> None:
    def entries(part: Any) -> list[str]:
        if isinstance(part, str):
            return [part]
        parts = part.values() if isinstance(part, dict) else part
        return [entry for each in parts for entry in entries(each)]

    listed = entries(yaml.safe_load((PROJECT / "mkdocs.yml").read_text("utf-8"))["nav"])
    assert len(set(listed)) == len(listed)
    expected = {str(page.relative_to(PROJECT)) for page in PAGES}
    assert expected | {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"} <= set(listed)


def test_a_script_has_what_is_run_and_what_stands_for_names(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n```sh\nserve --port 8080 --state 18080 https://a.example\n```\n\n"
        "*Not run by a test: it needs\na disk.*\n\n```sh\nformat\n```\n\n```text\nsaid\n```\n\n"
        "```sh\nask\n```\n"
    )
    script = script_of(
        page, stand_ins={"8080": "9", "https://a.example": "http://b"}, given={"ask": "learn"}
    )
    assert script.splitlines()[3:] == ["serve --port 9 --state 18080 http://b", "learn", "ask"]
    assert [each.not_run for each in blocks_of(page)] == ["", "it needs a disk", "", ""]
    with pytest.raises(AssertionError, match="names no 7070"):
        script_of(page, stand_ins={"7070": "9"})
    with pytest.raises(AssertionError, match="no block with format"):
        script_of(page, stand_ins={}, given={"format": "learn"})
