"""What failed of a product, and whether it ends the pull of it."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

from headrace.errors import HeadraceError
from headrace.exchange.exceptions import UnknownProduct
from headrace.lake.exceptions import ObjectMissing, StoreError
from headrace.pull.report import ChunkReceipt
from headrace.quota import OutageError, QuotaUnavailable
from headrace.stopping import StopEvent, Stopped
from headrace.wire.exceptions import RefusedThroughout, RequestError

log = logging.getLogger(__name__)

#: Pages of a product that fail one after the other, with none answered in between, until no other
#: is asked for. Each that was refused cost one request, each that failed the attempts of a page.
BAD_PAGES_IN_A_ROW = 20


class Failures:
    """The failures of one product. Its methods may be called from many threads.

    Args:
        product: canonical product id.
        stop: of the product; set where no further chunk could be had.

    Attributes:
        first: the first failure that is not of one chunk alone; empty if there is none.
    """

    def __init__(self, product: str, stop: StopEvent) -> None:
        self._product = product
        self._stop = stop
        self._counting = threading.Lock()
        self._bad_pages = 0
        self.first = ""

    def note(self, error: str) -> None:
        """Keep a failure that is not of one chunk alone, for the report; the first one counts."""
        self.first = self.first or error

    def page_ended(self, failed: RequestError | None) -> None:
        """Stop the product when so many pages fail in a row that it is not about them."""
        with self._counting:
            self._bad_pages = self._bad_pages + 1 if failed else 0
        if failed and self._bad_pages >= BAD_PAGES_IN_A_ROW:
            self._end(failed)

    def chunk_failed(self, receipt: ChunkReceipt, failed: Exception) -> ChunkReceipt:
        """Log what failed of a chunk, and stop the product if the next chunk would fail as well.

        Returns:
            The receipt, in words for a reader if this program is at fault.
        """
        if isinstance(failed, Stopped):
            return receipt
        if not isinstance(failed, HeadraceError):
            log.exception("%s chunk %s-%s failed", self._product, *receipt.span, exc_info=failed)
            return replace(receipt, error=f"an error of this program: {failed!r}")
        if isinstance(failed, OutageError | RefusedThroughout):
            return receipt  # the end of the run, which is logged once
        log.warning("%s chunk %s-%s failed: %s", self._product, *receipt.span, failed)
        lake_failed = isinstance(failed, StoreError) and not isinstance(failed, ObjectMissing)
        if lake_failed or isinstance(failed, QuotaUnavailable | UnknownProduct):
            self._end(failed)
        return receipt

    def _end(self, error: HeadraceError) -> None:
        """Stop the product: no further chunk could be kept by the lake, get a permit or an answer.

        A store that is only slow or away for a moment has been asked again and again by now, and
        the quota's lock was waited for.
        """
        self.note(str(error))
        self._stop.set()
