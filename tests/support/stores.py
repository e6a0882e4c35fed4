"""A store without a disk, for models that take thousands of steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.lake import StoredObject
from headrace.lake.exceptions import ObjectMissing
from headrace.lake.store import Guard, unguarded


class MemoryStore:
    """`Store` in a dictionary."""

    location = "memory"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    lists_together = True

    def place(self, key: str) -> str:
        return f"memory/{key}"

    def put(self, key: str, content: bytes, *, guard: Guard = unguarded) -> None:
        guard()
        self.objects[key] = content

    def put_if_absent(self, key: str, content: bytes, *, guard: Guard = unguarded) -> bool:
        guard()
        return self.objects.setdefault(key, content) is content

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectMissing("reading", self.place(key), "nothing there")
        return self.objects[key]

    def tail(self, key: str, size_bytes: int) -> bytes:
        return self.get(key)[-size_bytes:]

    def span(self, key: str, start: int, size_bytes: int) -> bytes:
        return self.get(key)[start : start + size_bytes]

    def exists(self, key: str) -> bool:
        return key in self.objects

    def entries(self, prefix: str) -> Iterator[StoredObject]:
        found = [key for key in self.objects if key.rpartition("/")[0] + "/" == prefix]
        return iter([StoredObject(key, len(self.objects[key])) for key in found])

    def listings(self, prefixes: Iterable[str]) -> Iterator[dict[str, list[StoredObject]]]:
        yield {prefix: list(self.entries(prefix)) for prefix in prefixes}

    def folders(self, prefix: str) -> list[str]:
        return []

    def delete(self, key: str, *, guard: Guard = unguarded) -> None:
        guard()
        self.objects.pop(key, None)

    def sweep(self, prefix: str) -> list[str]:
        return []

    def check(self) -> None:
        pass
