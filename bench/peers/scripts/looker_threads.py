"""Dashboards of a Looker in the manner of lookervault. Usage: looker_threads.py DATABASE RATE."""

from __future__ import annotations

import queue
import sqlite3
import sys
import threading
import time
from collections import deque

import looker_sdk
from looker_sdk.rtl import serialize

PAGE = 100
WORKERS = 8
TRIES = 5


class Limiter:
    """So many requests in any second, in this process."""

    def __init__(self, rate: int) -> None:
        self._rate, self._sent, self._lock = rate, deque[float](), threading.Lock()

    def acquire(self) -> None:
        """Wait for one."""
        while True:
            with self._lock:
                now = time.monotonic()
                while self._sent and self._sent[0] <= now - 1.0:
                    self._sent.popleft()
                if len(self._sent) < self._rate:
                    self._sent.append(now)
                    return
                pause_s = self._sent[0] + 1.0 - now
            time.sleep(pause_s)


def main(path: str, rate: int) -> None:
    """Threads fetch pages by offset, and each stores what it fetched; a bad page is logged."""
    sdk = looker_sdk.init40()
    limiter = Limiter(rate)
    limiter.acquire()
    sdk.me()  # one login, before there are threads
    offsets: queue.SimpleQueue[int] = queue.SimpleQueue()
    offsets.put(0)
    over = threading.Event()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE IF NOT EXISTS dashboards (id TEXT PRIMARY KEY, body TEXT)")

    def fetch(offset: int) -> list:
        for attempt in range(TRIES):
            limiter.acquire()
            try:
                return list(sdk.search_dashboards(limit=PAGE, offset=offset))
            except Exception as error:
                if "429" not in str(error) or attempt == TRIES - 1:
                    raise
                time.sleep(2**attempt * 0.5)
        raise AssertionError("the last try returns or raises")

    def work() -> None:
        database = sqlite3.connect(path, timeout=60, isolation_level=None)
        while not over.is_set():
            offset = offsets.get()
            offsets.put(offset + PAGE)
            try:
                rows = fetch(offset)
            except Exception as error:  # noqa: BLE001 - as its model does: the range is left out
                print(f"offset {offset} failed: {error!r}"[:300], flush=True)
                continue
            if not rows:
                over.set()
            for row in rows:
                database.execute("BEGIN IMMEDIATE")
                body = serialize.serialize40(api_model=row).decode()
                database.execute("INSERT OR REPLACE INTO dashboards VALUES (?, ?)", [row.id, body])
                database.execute("COMMIT")
        database.close()

    threads = [threading.Thread(target=work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
