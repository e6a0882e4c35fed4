"""What is covered of a product, what it holds and what failed: at the begin of a run, and kept up.

A run begins with what the lake holds, and with the checkpoint where the two agree. A lake never
mixes two sources of one product (`check_source`): a rehearsal against a simulator with the lake of
the real exchange would otherwise put made-up trades among real ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from headrace.coverage import EMPTY, IntervalSet, Range
from headrace.errors import ConfigurationError
from headrace.lake import RawLake
from headrace.pull.checkpoints import Checkpoint
from headrace.pull.report import ChunkReceipt, ProductReceipt

#: What leases, checkpoints and the lake call the exchange.
EXCHANGE = "coinbase"

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class ForeignSource(ConfigurationError):
    """The lake holds trades of the product that came from another host."""

    def __init__(self, product: str, stored: str, asked: str) -> None:
        super().__init__(
            f"{product}: the lake holds trades from {stored}, this run would add some from {asked}",
            hint="Use another lake for another source (--lake)",
        )
        self.product = product
        self.stored = stored
        self.asked = asked


def source_host(base_url: str) -> str:
    """The host that answers, without port or credentials; every name of this machine is one."""
    host = urlsplit(base_url).hostname or ""
    return "localhost" if host in _LOOPBACK else host


def check_source(lake: RawLake, product: str, host: str) -> None:
    """Look at the newest part's footer.

    Raises:
        ForeignSource: it came from another host.
    """
    sources = lake.newest_sources(product)
    if sources and host not in sources:
        raise ForeignSource(product, " and ".join(sources), host)


class Ledger:
    """Opened with what the lake holds, kept up with the receipts of chunks.

    Args:
        covered: ids answered for and durable in the lake.
        rows: trades stored within them.
        holes: ids proven absent, a page or more at once.
    """

    def __init__(
        self, covered: IntervalSet = EMPTY, rows: int = 0, holes: IntervalSet = EMPTY
    ) -> None:
        self.covered = covered
        self.rows = rows
        self.holes = holes
        self.new_rows = 0
        self.stored = EMPTY
        self.pages = 0
        self.brought = False
        self.changed = False
        self.counted = True
        self.first_error = ""
        self._tried = EMPTY

    @property
    def failed(self) -> IntervalSet:
        """What was tried and is not covered."""
        return self._tried - self.covered

    def cover(self, *answered: Range) -> None:
        """Note ranges as answered for."""
        self.covered = self.covered | IntervalSet.of(*answered)
        self.changed = True

    def found(self, listed: IntervalSet) -> None:
        """Note what the lake's names cover now; their trades have to be counted again."""
        self.covered = listed
        self.counted = False

    def recount(self, covered: IntervalSet, rows: int, holes: IntervalSet) -> None:
        """Start again with what the lake holds, all of one moment."""
        self.covered, self.rows, self.holes = covered, rows, holes
        self.counted = True

    def enter_part(self, receipt: ProductReceipt) -> None:
        """Note what a child run did; what is stored of it, the lake's names say."""
        self.pages += receipt.pages
        self.new_rows += receipt.new_rows
        self.brought = self.brought or bool(receipt.pages)
        self.first_error = self.first_error or receipt.error
        self._tried = self._tried | IntervalSet.from_ranges(receipt.failed_chunks)

    def enter(self, receipt: ChunkReceipt) -> None:
        """Note what became of a chunk."""
        self.pages += receipt.pages
        if receipt.error:
            self.first_error = self.first_error or receipt.error
            self._tried = self._tried | IntervalSet.of(receipt.span)
        if not receipt.answered:
            return
        self.brought = True
        self.stored = self.stored | IntervalSet.of(*receipt.answered)
        self.rows += receipt.rows
        self.new_rows += receipt.rows if receipt.written else 0
        self.holes = self.holes | IntervalSet.from_ranges(receipt.holes)
        self.cover(*receipt.answered)


log = logging.getLogger(__name__)

#: Takes what operators may want to hear of: a name and its facts.
Listener = Callable[[str, Mapping[str, object]], None]


def open_ledger(lake: RawLake, product: str, before: Checkpoint | None, emit: Listener) -> Ledger:
    """The ledger as the lake has it; the checkpoint saves a count where the two agree.

    Raises:
        PartUnreadable, StoreError: the lake cannot be read.
    """
    covered = lake.coverage(product)
    if before is not None and before.coverage == covered and before.rows:
        return Ledger(covered, before.rows, IntervalSet(before.holes))
    if before is not None and (lost := before.coverage - covered):
        log.warning(
            "%s: the checkpoint claims ids that the lake does not hold; the lake wins: %s",
            product,
            lost.as_lists(),
        )
        emit("checkpoint-ahead", {"product": product, "missing": lost.as_lists()})
    # Not the ids from one look and their trades from a later one: others store meanwhile.
    held = lake.stats(product)
    return Ledger(held.covered, held.rows, held.holes)


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of the ends of a product's history before the exchange is asked.

    Args:
        product: canonical product id.
        lake: where its trades are.
        first: its first trade, None unless everything below it is answered for.
        newest: the newest trade stored; 0 if none is.
        noted: the newest trade that an earlier run was shown, stored or not; 0 if none was.
    """

    product: str
    lake: RawLake
    first: int | None
    newest: int
    noted: int

    @property
    def newest_seen(self) -> int:
        """The newest trade that any earlier run has stored or seen; 0 if none has."""
        return max(self.newest, self.noted)


def load_known(
    lake: RawLake, product: str, before: Checkpoint | None, covered: IntervalSet
) -> Stored:
    """What the lake and the checkpoint say of a history's ends.

    Raises:
        PartUnreadable, StoreError: the lake cannot be read.
    """
    noted_first = before.first if before and covered.contains(1) else 0
    newest = lake.newest(product)
    return Stored(
        product,
        lake,
        first=noted_first or lake.proven_first(product),
        newest=newest.trade_id if newest else 0,
        noted=before.newest if before else 0,
    )
