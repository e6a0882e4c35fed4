"""Take the pictures in docs/images: `python docs/screenshots.py`, from the project's folder.

A simulated exchange, `headrace up` in a folder of its own, a form filled in and submitted in a real
Chromium, and pictures of what there is to see on the way. Needs `make setup-dev` and chromium.
`python docs/screenshots.py report` takes those of the page of a lake alone.
"""

from __future__ import annotations

import sys
import tempfile
from io import StringIO
from math import ceil
from pathlib import Path

from playwright.sync_api import Page
from rich.console import Console
from rich.text import Text

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from headrace.lake_report.page import render  # noqa: E402
from headrace.sim import SimulatedExchange  # noqa: E402
from tests.support.browser import browser_page  # noqa: E402
from tests.support.prefect_pages import PrefectPages  # noqa: E402
from tests.support.reported import facts_of  # noqa: E402
from tests.support.run_graph import RunGraph  # noqa: E402
from tests.support.served import Server, served, wait_until  # noqa: E402

IMAGES = PROJECT / "docs" / "images"
LARGEST_BYTES = 300_000
#: A machine that does something else, too, takes its time to draw a page.
_PATIENCE_S = 240
TAPE = ("BTC-USD:260000", "ETH-USD:120000", "DOGE-USD:60000,density=0.5")
_RENAME = """([from, to]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    texts.currentNode.data = texts.currentNode.data.replaceAll(from, to);
  }
}"""


def main(names: list[str]) -> None:
    """Take all pictures, or those of the page of a lake."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser_page(1280, 800) as page:
        page.set_default_timeout(_PATIENCE_S * 1_000)
        pictures_of_a_lake(Path(folder), page)
    if "report" not in names:
        pictures_of_a_server()


def pictures_of_a_lake(folder: Path, page: Page) -> None:
    """The page of a lake of a few products, and of one of many in the dark."""
    for name, count, scheme, height in (
        ("report", 6, "light", 1000),
        ("report-dark", 400, "dark", 700),
    ):
        file = folder / f"{name}.html"
        file.write_text(render(facts_of(folder / name, count)))
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.goto(file.as_uri())
        picture(page, name, height=height)


def pictures_of_a_server() -> None:
    """The form, a run, deployments, alarms."""
    with (
        tempfile.TemporaryDirectory() as folder,
        SimulatedExchange(*TAPE, seed=7, latency="lognormal:p50=0.3,p95=1.2") as sim,
        served(Path(folder), sim, HEADRACE_RATE="15/s") as server,
        browser_page(1280, 800) as page,
    ):
        page.set_default_timeout(_PATIENCE_S * 1_000)
        server.up()
        ui = PrefectPages(page, server.ui_url)
        run_id = started_from_the_form(server, ui)
        pictures_of_a_run(server, ui, run_id)
        ui.deployments()
        picture(page, "deployments")
        ui.goto("/automations")
        picture(page, "alarms", height=1500)


def started_from_the_form(server: Server, ui: PrefectPages) -> str:
    """Fill in the form of `backfill`, take its picture, submit it; the run's id."""
    deployment = server.deployment("backfill/on-demand")
    ui.form(deployment["id"])
    for position, product in enumerate(("ETH-USD", "DOGE-USD"), start=1):
        ui.property("Products").get_by_role("button", name="Add item").click()
        ui.property("Products").locator("textarea").nth(position).fill(product)
    ui.fill("To trade id", 250_000)
    ui.fill("Chunks at once per product", 8)
    ui.property("Products").scroll_into_view_if_needed()
    picture(ui.page, "form", height=1120)
    return ui.submit()


def pictures_of_a_run(server: Server, ui: PrefectPages, run_id: str) -> None:
    """The graph while it runs and at the end, and what the run leaves."""
    wait_until(lambda: server.run(run_id)["state_type"] == "RUNNING", _PATIENCE_S, "the start")
    wait_until(lambda: progress(server, run_id) > 40, _PATIENCE_S, "some chunks")
    server.environment["COLUMNS"] = "120"
    top = server.command("top", "--once").stdout.replace(str(server.folder), "/srv/headrace")
    show(server, ui, run_id, "progress", height=420)
    ended = server.ended(run_id, _PATIENCE_S)
    assert ended["state_type"] == "COMPLETED", ended["state"]
    ui.run(run_id)
    ui.page.wait_for_timeout(4_000)
    picture(ui.page, "run")
    graph = RunGraph(ui.page)
    graph.widen(4)
    graph.expand(graph.bars()[-1])
    graph.move(graph.bars()[0], 160, 70)
    # Beyond the end of the run there is nothing to see.
    picture(ui.page, "graph", shown_width=760)
    show(server, ui, run_id, "coverage", width=1500, height=520)
    show(server, ui, run_id, "summary", height=700)
    picture_of_a_terminal(ui.page, "headrace top", top)


def progress(server: Server, run_id: str) -> float:
    """In percent."""
    shown = server.artifacts(run_id).get("headrace-progress")
    return float(shown["data"]) if shown else 0.0


def show(server: Server, ui: PrefectPages, run_id: str, name: str, **size: int) -> None:
    """The page of what a run shows."""
    artifact = server.artifacts(run_id)[f"headrace-{name}"]
    ui.goto(f"/artifacts/artifact/{artifact['id']}")
    # The name of a temporary folder tells a reader nothing.
    ui.page.evaluate(_RENAME, [str(server.folder), "/srv/headrace"])
    picture(ui.page, name, **size)


def picture_of_a_terminal(page: Page, title: str, said: str) -> None:
    """What a command said, as a terminal shows it; the picture has the name of its last word."""
    width = max(map(len, said.splitlines()))
    console = Console(record=True, width=width, file=StringIO())
    console.print(Text(said))
    page.set_content(console.export_svg(title=title))
    box = page.locator("svg").bounding_box()
    assert box
    name = title.split()[-1]
    picture(page, name, width=ceil(box["width"]) + 16, height=ceil(box["height"]) + 16)


def picture(
    page: Page, name: str, *, width: int = 1280, height: int = 800, shown_width: int | None = None
) -> None:
    """Save what the page shows in a window of that size, or the left of it."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(1_500)
    path = IMAGES / f"{name}.png"
    clip = {"x": 0, "y": 0, "width": shown_width or width, "height": height}
    page.screenshot(path=path, clip=clip)  # type: ignore[arg-type]
    size = path.stat().st_size
    if size > LARGEST_BYTES:
        raise SystemExit(f"{path} has {size:,} bytes; at most {LARGEST_BYTES:,} are wanted")
    print(f"{path.relative_to(PROJECT)}: {size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
