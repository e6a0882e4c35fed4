"""The form of `backfill` in a real browser: what it shows, what it refuses, what it starts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.sim import SimulatedExchange
from tests.support.served import Server, served

pytest.importorskip("playwright.sync_api", reason="needs playwright")

from playwright.sync_api import expect

from tests.support.browser import CHROMIUM, browser_page
from tests.support.prefect_pages import PrefectPages

pytestmark = [
    pytest.mark.services,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not CHROMIUM, reason="no chromium here: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with (
        SimulatedExchange("BTC-USD:4200", seed=4) as sim,
        served(tmp_path_factory.mktemp("browser"), sim) as started,
    ):
        started.up()
        yield started


def runs(server: Server) -> list[dict]:
    named = {"deployments": {"name": {"any_": ["on-demand"]}}}
    return list(server.ask("POST", "/flow_runs/filter", named))


def test_a_form_refuses_then_starts_a_run(server: Server) -> None:
    deployment = server.deployment("backfill/on-demand")
    with browser_page() as page:
        ui = PrefectPages(page, server.ui_url)
        ui.form(deployment["id"])
        expect(ui.property("Since")).to_contain_text("First time wanted (ISO 8601")
        ui.fill("Products", "BTC/USD")
        ui.submit_button().click()
        expect(ui.property("Products")).to_contain_text("'BTC/USD' does not match")
        ui.fill("Products", "BTC-USD")
        # Bounds of plain fields stay at the server: the page leaves them out when it asks whether
        # values are valid, and then shows what it answered.
        ui.fill("Products at once", 77)
        ui.submit_button().click()
        expect(ui.refusal("workers")).to_contain_text("77 is greater than the maximum of 50")
        ui.fill("Products at once", 2)
        ui.fill("Since", "yesterday")
        ui.submit_button().click()
        expect(ui.refusal("since")).to_contain_text("'yesterday' does not match")
        assert runs(server) == []

        ui.fill("Since", "")
        ui.fill("To trade id", 2_000)
        ui.fill("Lake", "from-the-form")
        run_id = ui.submit()
    [run] = runs(server)
    assert run["id"] == run_id
    assert run["parameters"]["workers"] == 2
    ended = server.ended(run["id"])
    assert ended["state_type"] == "COMPLETED", ended["state"]
    parts = list((server.folder / "from-the-form").rglob("*.parquet"))
    assert [part.name for part in parts] == ["part-000000000001-000000002000.parquet"]
