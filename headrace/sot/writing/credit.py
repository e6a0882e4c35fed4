"""How much may be under way: read and handed on, neither durable nor put aside yet."""

from __future__ import annotations

import threading


class Credit:
    """A number of bytes that are taken before work is handed on and given back when it is done.

    One piece may exceed what there is: it goes alone.

    Args:
        size_bytes: how many there are.
    """

    def __init__(self, size_bytes: int) -> None:
        self._size = size_bytes
        self._used = 0
        self._changed = threading.Condition()
        self._over = False

    def take(self, size_bytes: int) -> bool:
        """Wait for room, then take it; False if nobody will ever give any back."""
        with self._changed:
            while not self._over and self._used and self._used + size_bytes > self._size:
                self._changed.wait()
            self._used += size_bytes
            return not self._over

    def give_back(self, size_bytes: int) -> None:
        """Work of this size is done."""
        with self._changed:
            self._used -= size_bytes
            self._changed.notify_all()

    def end(self) -> None:
        """Let everybody go who waits: the other side has stopped."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
