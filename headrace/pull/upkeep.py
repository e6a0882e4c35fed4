"""What keeps a product's parts few and single while runs store them: sweeping and merging.

Both need the upkeep lease, which one run of the product has at a time (`pull.product_leases`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from headrace.exchange.planning import page_count
from headrace.lake import RawLake
from headrace.lake.upkeep import merge_plan
from headrace.pull.memory_budget import MemoryBudget, merge_bytes
from headrace.pull.product_leases import ProductLeases
from headrace.stopping import StopEvent, Stopped

log = logging.getLogger(__name__)

# A merge of one cell takes seconds at most; a full refresh holds it for hours, and sweeps last.
_SWEEP_TRIES = 20
_SWEEP_PAUSE_S = 0.5


class Upkeep:
    """Sweeping and merging of one product by one run.

    Args:
        product: canonical product id.
        leases: of the product.
        run_id: of the run.
        holds_lease: whether the run has the upkeep lease from its beginning to its end, as a full
            refresh does.
        memory: where a merge reserves what it reads.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        product: str,
        leases: ProductLeases,
        run_id: str,
        holds_lease: bool,
        memory: MemoryBudget,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._product = product
        self._leases = leases
        self._run_id = run_id
        self._holds_lease = holds_lease
        self._memory = memory
        self._sleep = sleep

    def run(self, lake: RawLake, page_bytes: int, stop: StopEvent) -> None:
        """Sweep and merge what is due, unless another run does just now.

        Args:
            lake: under the run's own lease.
            page_bytes: what a page of the product takes in memory.
            stop: ends it between two merges; the next run does the rest.
        """
        if self._holds_lease:
            self._sweep_and_merge(lake, page_bytes, stop)
            return
        with self._leases.acquire_upkeep(self._run_id) as upkeep:
            if upkeep:
                self._sweep_and_merge(lake.under(upkeep.check_time), page_bytes, stop)

    def _sweep_and_merge(self, lake: RawLake, page_bytes: int, stop: StopEvent) -> None:
        lake.sweep(self._product)
        due = merge_plan(lake.parts(self._product).parts, lake.grid)
        for pieces in due:
            rows_bytes = page_count(pieces[0].lo, pieces[-1].hi) * page_bytes
            try:
                with self._memory.reserved(merge_bytes(rows_bytes), stop):
                    lake.merge(self._product, pieces)
            except Stopped:
                break
        if due:
            # What a run that lost its lease stored during the merge lies beside the merged part.
            lake.sweep(self._product)

    def sweep_after_loss(self, lake: RawLake) -> None:
        """Remove what this run stored after its lease had expired, if a longer part holds it.

        See docs/adr/0004: every part in the lake at this moment is seen, and a part goes only
        after its rows were found in a longer one. Where nothing longer holds them, what was stored
        late is answered for like any other part.

        Args:
            lake: under no lease.
        """
        for _ in range(_SWEEP_TRIES):
            with self._leases.acquire_upkeep(self._run_id) as upkeep:
                if upkeep:
                    swept = lake.under(upkeep.check_time).sweep(self._product)
                    for piece in swept.pieces:
                        log.warning("%s: removed %s, stored twice", self._product, piece.name)
                    return
            self._sleep(_SWEEP_PAUSE_S)
        log.warning(
            "%s: another run is sweeping; if this one stored a part after its lease had expired, "
            "that run or the next one removes it",
            self._product,
        )
