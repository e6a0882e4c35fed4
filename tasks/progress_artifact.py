"""The bar of a run in the Prefect UI: seldom told, and never in the way of the run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import TracebackType
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact

from blocks.api import API_ERRORS, require_api

log = logging.getLogger(__name__)

#: An update costs the API some 50 ms, so the UI hears of progress this often at most.
UPDATE_INTERVAL_S = 1.0

#: After a failure the display rests; it must never slow a run down.
REST_S = 30.0


class ProgressArtifact:
    """A progress bar from the start of a `with` block to its end.

    Args:
        key: the artifact's.
        told: percent done, and how far everything is in words.
        ends_full: work without a known end is all done when it ends well, whatever `told` says.
    """

    def __init__(
        self, key: str, told: Callable[[], tuple[float, str]], *, ends_full: bool = False
    ) -> None:
        self._key = key
        self._told = told
        self._ends_full = ends_full
        self._id: UUID | None = None
        self._next = 0.0

    def __enter__(self) -> ProgressArtifact:
        self.tick()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None and self._next - time.monotonic() <= UPDATE_INTERVAL_S:  # it does not rest
            self._next = 0.0
            self._update(full=self._ends_full)

    def tick(self) -> None:
        """Bring the bar up to date, if it is time."""
        self._update(full=False)

    def _update(self, *, full: bool) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + UPDATE_INTERVAL_S
        percent, description = self._told()
        try:
            require_api()
            self._show(100.0 if full else min(100.0, percent), description)
        except API_ERRORS as error:
            log.info("progress is not shown for a while: %s", error)
            self._next = now + REST_S

    def _show(self, percent: float, description: str) -> None:
        if self._id is None:
            created = create_progress_artifact(
                progress=percent, key=self._key, description=description
            )
            self._id = created if isinstance(created, UUID) else None
        else:
            update_progress_artifact(self._id, progress=percent, description=description)
