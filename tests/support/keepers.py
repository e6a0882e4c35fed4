"""A server of shared quotas without a server: for models that take thousands of steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.quota.shared.server import GONE, Answer, History, Position


@dataclass
class MemoryServer:
    """What the keepers of several processes share: the lists by name."""

    lists: dict[str, History] = field(default_factory=dict)

    def lose(self) -> None:
        """Begin again with nothing, as a Redis that keeps nothing."""
        self.lists.clear()


@dataclass
class MemoryKeeper:
    """`Keeper` of one process.

    Args:
        server: whose lists.
        clock: has `boot_id`, `steps`, `slack` and `now`.
        unsure: whether a server that knows nothing may have known something.
    """

    server: MemoryServer
    clock: Any
    unsure: bool = False
    connections: int = 1
    calls: int = 0

    def __str__(self) -> str:
        return "memory://"

    def connect(self) -> int:
        return self.connections

    def read(self, name: str) -> History | None:
        self.calls += 1
        known = self.server.lists.get(name)
        return known and known._replace(changes=list(known.changes))

    def begin(self, name: str, epoch: str, content: bytes, horizon: int) -> None:
        made = self.clock.now()
        self.server.lists.setdefault(name, History(epoch, made, self.unsure, 0, content, []))

    def append(self, position: Position, change: bytes, content: bytes) -> Answer:
        self.calls += 1
        known = self.server.lists.get(position.name)
        if known is None or known.epoch != position.epoch:
            return GONE
        missed = known.version - position.version
        if missed:
            return Answer(False, known.changes[-missed:]) if missed <= len(known.changes) else GONE
        if change:
            changes = [*known.changes, change]
            if content:
                known, changes = known._replace(content=content), []
            grown = known._replace(version=known.version + 1, changes=changes)
            self.server.lists[position.name] = grown
        return Answer(True, [])

    def names(self) -> list[str]:
        return sorted(self.server.lists)

    def drop(self, name: str) -> None:
        del self.server.lists[name]

    def close(self) -> None:
        pass
