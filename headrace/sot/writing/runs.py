"""A run of frames in which one looks for single records."""

from __future__ import annotations

from headrace.sot.layout import LENGTH, LENGTH_BYTES


class RunIndex:
    """Where each record of a run begins.

    Args:
        first_seq: of the first frame.
        run: consecutive records of one symbol, checked.
    """

    def __init__(self, first_seq: int, run: bytes) -> None:
        self.first_seq = first_seq
        self.run = run
        self._offsets: list[int] = []
        offset = 0
        while offset < len(run):
            self._offsets.append(offset)
            offset += LENGTH_BYTES + LENGTH.unpack_from(run, offset)[0]
        self._offsets.append(offset)

    @property
    def last_seq(self) -> int:
        """Of the last frame."""
        return self.first_seq + len(self._offsets) - 2

    def holds(self, seq: int) -> bool:
        """Whether the record is in it."""
        return self.first_seq <= seq <= self.last_seq

    def frame(self, seq: int) -> bytes:
        """The frame of a record that is in it."""
        place = seq - self.first_seq
        return self.run[self._offsets[place] : self._offsets[place + 1]]

    def same(self, seq: int, run: bytes, offset: int) -> tuple[int, int]:
        """How many records from `seq` on stand at `offset` of `run` byte for byte, and their size.

        All that both have, or none: whoever gets none compares record by record.
        """
        start = self._offsets[seq - self.first_seq]
        size = min(len(self.run) - start, len(run) - offset)
        # Only whole frames count: cut back to the last border within both.
        last = self._last_border(start + size)
        size = self._offsets[last] - start
        if size <= 0 or self.run[start : start + size] != run[offset : offset + size]:
            return 0, 0
        return last - (seq - self.first_seq), size

    def _last_border(self, offset: int) -> int:
        low, high = 0, len(self._offsets) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._offsets[middle] <= offset:
                low = middle
            else:
                high = middle - 1
        return low
