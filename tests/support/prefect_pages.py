"""The pages of the Prefect UI that people use."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect


class PrefectPages:
    """A browser's page on the UI of a server.

    Args:
        page: of a browser.
        ui_url: where the UI is.
    """

    def __init__(self, page: Page, ui_url: str) -> None:
        self.page = page
        self.ui_url = ui_url

    def deployments(self) -> None:
        """The list of deployments."""
        self.goto("/deployments")
        expect(self.page.get_by_text("every-5-minutes").first).to_be_visible()

    def form(self, deployment_id: str) -> None:
        """The form that starts a run."""
        self.goto(f"/deployments/deployment/{deployment_id}/run")
        expect(self.submit_button()).to_be_enabled()

    def run(self, run_id: str) -> None:
        """A run: its graph above, its tabs below."""
        self.goto(f"/runs/flow-run/{run_id}")

    def property(self, title: str) -> Locator:
        """A field of a form with its title, its help and what is said about its value."""
        label = self.page.locator(".schema-form-property__label").filter(
            has_text=re.compile(rf"^{re.escape(title)}( \(Optional\))?$")
        )
        return self.page.locator(".schema-form-property").filter(has=label).last

    def fill(self, title: str, value: object) -> None:
        """Fill in a field of a form."""
        self.property(title).locator("input, textarea").first.fill(str(value))

    def submit_button(self) -> Locator:
        """What starts the run."""
        return self.page.get_by_role("button", name="Submit")

    def submit(self) -> str:
        """Start a run from the form; its id."""
        # While its database is locked the server answers 503 and starts nothing: click again.
        for _ in range(5):
            with self.page.expect_response(re.compile("/create_flow_run$")) as answer:
                self.submit_button().click()
            if answer.value.status != 503:
                break
        assert answer.value.status == 201, answer.value.text()
        return str(answer.value.json()["id"])

    def refusal(self, parameter: str) -> Locator:
        """What the server said of a parameter; the page shows it for some seconds, at its foot."""
        said = f"Error creating flow run: Validation failed for field '{parameter}'"
        return self.page.get_by_role("article").filter(has_text=said).first

    def goto(self, path: str) -> None:
        """Open a page and wait until it has what it asked for."""
        self.page.goto(f"{self.ui_url}{path}")
        self.page.wait_for_load_state("networkidle")
