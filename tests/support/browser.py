"""A real Chromium on the pages of a Prefect server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, expect, sync_playwright

#: Found on the machine, never downloaded by Playwright.
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--no-proxy-server"),
    # Other hosts are unknown to it. A route with a callback here would hold up every request of
    # the page, ours among them, for as long as the test does not talk to the browser.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)

#: How long a page may take to show what it should, on a machine that is busy with other tests.
LIMIT_MS = 30_000
expect.set_options(timeout=LIMIT_MS)


@contextmanager
def browser_page(width: int = 1280, height: int = 900) -> Iterator[Page]:
    """A page of a browser of its own, which finds no host but this one."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_ARGUMENTS))
        try:
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme="light"
            )
            page = context.new_page()
            page.set_default_timeout(LIMIT_MS)
            yield page
        finally:
            browser.close()
