"""What a fork needs: a child that inherits neither locks held half-way nor open databases.

While a process forks, no thread of ours is inside SQLite, whose own mutexes would stay locked in
the child for ever. The child makes sessions of its own; it neither uses nor closes the parent's,
lest SQLite tidy up files that the parent works on.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Holdable(Protocol):
    """Something that can keep its threads out of its files for a moment."""

    def hold(self) -> None:
        """Wait until no thread is inside, and let none in."""
        ...

    def release(self) -> None:
        """Let them in again."""
        ...


_watched: WeakSet[Holdable] = WeakSet()
_held: list[Holdable] = []
_from_before: list[Holdable] = []
_opening = threading.Lock()


def watch(session: Holdable) -> None:
    """Hold a session while the process forks, for as long as it is in use."""
    _watched.add(session)


def keep(session: Holdable) -> None:
    """In the child: never close a session of the parent."""
    _from_before.append(session)


def opening() -> threading.Lock:
    """What a child's threads hold while one of them makes its session."""
    return _opening


def _before() -> None:
    _held.extend(_watched)
    for session in _held:
        session.hold()


def _in_parent() -> None:
    while _held:
        _held.pop().release()


def _in_child() -> None:
    global _opening
    _opening = threading.Lock()
    _from_before.extend(_held)
    _held.clear()
    _watched.clear()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
