"""What answers 429 cost: one among many that go well, and a limit that is lower than was thought.

Every server has a client of its own that believes in 15 requests/s; all run at the same time. The
used share is what was served, of what the server would have served.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.quota.strict_window import Server, drive, headrace_client

RATE, THREADS = 15, 24
#: As the demo's exchange has it: the answers take long, and that is no delay on the way.
SLOW_WORK = (0.3, 1.2)

SERVERS = {
    "slow answers, no 429": lambda: Server(5, limit=RATE, way_s=0.002, work_s=SLOW_WORK),
    "1.5 % refused by chance": lambda: Server(
        5, limit=RATE, way_s=0.002, work_s=SLOW_WORK, refused=0.015
    ),
    "1.5 % by chance, quick": lambda: Server(5, limit=RATE, way_s=0.02, refused=0.015),
    "12/s in truth": lambda: Server(5, limit=12),
    "7/s in truth": lambda: Server(5, limit=7),
}


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """A row per server, two minutes (or twenty seconds)."""
    seconds = 20.0 if quick else 120.0
    with (
        TemporaryDirectory(prefix="headrace-bench-") as folder,
        ThreadPoolExecutor(len(SERVERS)) as pool,
    ):
        futures = []
        for number, (name, server) in enumerate(SERVERS.items()):
            client = headrace_client(Path(folder) / str(number), rates=f"{RATE}/s")
            futures.append(pool.submit(drive, name, client, server(), seconds, THREADS))
        return [{"server": row.pop("client"), **row} for row in (f.result() for f in futures)]
