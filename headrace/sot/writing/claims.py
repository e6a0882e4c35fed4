"""Opens symbols for writing, attempt after attempt."""

from __future__ import annotations

import time
from collections.abc import Sequence

from headrace.sot.exceptions import DamagedLog, StoreUnavailable
from headrace.sot.store import Head, SotStore
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.stats import Problems
from headrace.sot.writing.symbol_writer import SymbolWriter


class Claims:
    """Opens symbols; from any thread.

    Args:
        store: where they are claimed.
        options: of the write.
        problems: for the writers.
    """

    def __init__(self, store: SotStore, options: WriteOptions, problems: Problems) -> None:
        self._store = store
        self._options = options
        self._problems = problems

    def open(self, symbol_ids: Sequence[int]) -> list[SymbolWriter | DamagedLog]:
        """Claim all of these, with as few waits for the disk as the store can.

        Returns:
            For each its writer, or why it cannot be written.

        Raises:
            StoreUnavailable: the store does not answer, attempt after attempt.
        """
        for attempt in range(self._options.attempts):
            try:
                heads = self._store.claim_all(symbol_ids, first_seq=self._options.first_seq)
                return [self._writer(head) for head in heads]
            except DamagedLog as error:
                if len(symbol_ids) == 1:
                    return [error]
                # Not all of them need be concerned.
                return [self.open([symbol_id])[0] for symbol_id in symbol_ids]
            except StoreUnavailable:
                if attempt + 1 == self._options.attempts:
                    raise
                time.sleep(self._options.retry_pause_s * 2**attempt)
        raise RuntimeError("unreachable: at least one attempt is made")

    def blocked(self, symbol_id: int, error: DamagedLog) -> SymbolWriter:
        """A writer that refuses everything, for a symbol that cannot be written."""
        writer = SymbolWriter.refusing(symbol_id, self._store, self._options, self._problems)
        writer.block("damage", str(error))
        return writer

    def _writer(self, head: Head) -> SymbolWriter | DamagedLog:
        try:
            return SymbolWriter(head, self._store, self._options, self._problems)
        except DamagedLog as error:
            return error
