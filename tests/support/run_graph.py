"""The graph of a run, which is one picture to a browser: its bars are found by their colour."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from playwright.sync_api import Page

#: Heights of a bar in pixels, at the zoom that a graph opens with.
_HEIGHTS = range(24, 41)
_SETTLED_MS = 2_500
#: Decoded by the browser, so that no library is needed for it. For each line of the picture the
#: first stretch of the green of completed tasks, as [x from, x to], or null.
_GREEN = """async (picture) => {
  const image = new Image();
  image.src = "data:image/png;base64," + picture;
  await image.decode();
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const {data, width} = context.getImageData(0, 0, image.width, image.height);
  const green = (x, y) => {
    const at = 4 * (y * width + x);
    return data[at] < 70 && data[at + 1] > 130 && data[at + 2] < 110;
  };
  return Array.from({length: image.height}, (_, y) => {
    let from = 0;
    while (from < width && !green(from, y)) from++;
    let to = from;
    while (to < width && green(to, y)) to++;
    return from < width ? [from, to] : null;
  });
}"""


@dataclass(frozen=True)
class Bar:
    """A completed task: its left end and the middle of its height, in pixels of the page."""

    left: int
    middle: int


class RunGraph:
    """The graph of a run that is open in a page, filling the window from here on."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._press("f")

    def widen(self, times: int) -> None:
        """Stretch its time axis."""
        options = self.page.get_by_role("button", name="Run Graph Options")
        options.click()
        for _ in range(times):
            self.page.get_by_title("Increase scale (+)").click()
        options.click()
        self._press("c")

    def bars(self) -> list[Bar]:
        """Whatever has completed and is in sight, from top to bottom."""
        picture = base64.b64encode(self.page.screenshot()).decode()
        lines = self.page.evaluate(_GREEN, picture)
        found, from_y = [], 0
        for y, line in enumerate([*lines, None]):
            if line:
                continue
            if y - from_y in _HEIGHTS:
                middle = (from_y + y) // 2
                found.append(Bar(lines[middle][0], middle))
            from_y = y + 1
        return found

    def expand(self, bar: Bar) -> None:
        """Show the tasks below a task, below its bar."""
        self.page.mouse.click(bar.left + 16, bar.middle)
        self.page.wait_for_timeout(_SETTLED_MS)

    def move(self, bar: Bar, x: int, y: int) -> None:
        """Drag everything so that a bar begins at `x`, with `y` the middle of its height."""
        # What is grabbed is the ground to the left of the bar; its margin is some 20 px.
        grabbed = (bar.left - 40, bar.middle)
        self.page.mouse.move(*grabbed)
        self.page.mouse.down()
        self.page.mouse.move(x - 40, y, steps=10)
        self.page.mouse.up()
        self.page.mouse.move(0, 0)
        self.page.wait_for_timeout(_SETTLED_MS)

    def _press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.page.wait_for_timeout(_SETTLED_MS)
