"""The page of a lake in a real browser: with one product and with many, light and dark, narrow."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.lake_report.page import render
from tests.support.reported import facts_of

pytest.importorskip("playwright.sync_api", reason="needs playwright")

from tests.support.browser import CHROMIUM, browser_page

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(not CHROMIUM, reason="no chromium here: apt-get install chromium"),
]

#: Colour of the text and of what is behind it, as light as 0 to 255.
_SHADES = """() => {
  const shade = (element, name) => {
    const found = getComputedStyle(element)[name].match(/\\d+/g).slice(0, 3).map(Number);
    return found.reduce((sum, each) => sum + each) / 3;
  };
  return [shade(document.body, "color"), shade(document.body, "backgroundColor")];
}"""
#: Colours in which the strips of a product are drawn, none of them empty.
_DRAWN = """row => [...row.querySelectorAll("svg.strip path")].map(path => [
  path.getAttribute("class"), path.getBoundingClientRect().width > 0,
  getComputedStyle(path).fill !== "rgb(0, 0, 0)"])"""


@pytest.mark.parametrize("count", [1, 400])
def test_a_page_is_drawn_and_asks_for_nothing(tmp_path: Path, count: int) -> None:
    file = tmp_path / "page.html"
    file.write_text(render(facts_of(tmp_path / "lake", count)))
    asked: list[str] = []
    said: list[str] = []
    with browser_page() as page:
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(file.as_uri())
            text, behind = page.evaluate(_SHADES)
            assert (text < 80 < 200 < behind) if scheme == "light" else (behind < 80 < 200 < text)
        rows = page.locator("table.products tbody tr")
        assert rows.count() == count
        drawn = rows.first.evaluate(_DRAWN)
        assert all(wide and coloured for _, wide, coloured in drawn)
        kinds = {kind for kind, _, _ in drawn}
        assert kinds == ({"stored"} if count == 1 else {"stored", "missing", "failed"})
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (asked, said) == ([file.as_uri()] * 2, [])
