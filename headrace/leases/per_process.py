"""What a process must make for itself, such as connections: a forked child cannot share them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """One `T` in each process that asks, whether it was forked or spawned.

    Args:
        make: makes it; called again in a process that has none.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: tuple[int, T] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_made": None}

    def get(self) -> T:
        """That of this process."""
        if self._made is None or self._made[0] != os.getpid():
            self._made = os.getpid(), self._make()
        return self._made[1]
