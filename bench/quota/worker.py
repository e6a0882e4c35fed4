"""One process that wants permits all the time, or now and then; run as `python -m`.

Reads one JSON object from argv, writes one to stdout when it is done. Times are nanoseconds of the
monotonic clock, which all processes share.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Where the quota lives, if not in the folder of the task.
SERVER = "HEADRACE_BENCH_QUOTA"

#: Waits for a permit for at most so many seconds; when it came, or 0 if it did not.
Acquire = Callable[[float], int]


def headrace(folder: Path, rates: str, lane: str) -> Acquire:
    """Our limiter, by the same call as pyrate-limiter's own."""
    from pydantic import SecretStr

    from headrace.quota import Lane, QuotaConfig, open_gate, parse_rates
    from headrace.quota.bucket import SlotLimiter
    from headrace.quota.location import read_server

    url = os.environ.get(SERVER)
    place = read_server(SecretStr(url)) if url else folder
    name = "bench." + rates.replace("/", ".").replace(",", ".")  # a server keeps it between runs
    gate = open_gate(place, QuotaConfig(name=name, rates=parse_rates(rates)))
    limiter = SlotLimiter(gate, lane=Lane[lane])

    def acquire(timeout_s: float) -> int:
        return time.monotonic_ns() if limiter.try_acquire("bench", timeout=timeout_s) else 0

    return acquire


def whole_gate(folder: Path, rates: str, lane: str) -> Acquire:
    """All that a request passes: breaker, quota, breaker, and the stamp of leaving."""
    from headrace.quota import Lane, PermitTimeout, QuotaConfig, open_gate, parse_rates

    gate = open_gate(folder, QuotaConfig(name="bench", rates=parse_rates(rates)))

    def acquire(timeout_s: float) -> int:
        try:
            with gate.admit(lane=Lane[lane], timeout_s=timeout_s) as admission:
                admission.sending()
                granted = time.monotonic_ns()
                admission.failed(neutral=True)
        except PermitTimeout:
            return 0
        return granted

    return acquire


def stock(folder: Path, rates: str, _lane: str) -> Acquire:
    """pyrate-limiter's own bucket for several processes: SQLite with its file lock."""
    import logging

    from pyrate_limiter import Limiter, SQLiteBucket

    from headrace.quota import parse_rates

    logging.getLogger("pyrate_limiter").setLevel(logging.CRITICAL)
    bucket = SQLiteBucket.init_from_file(
        [rate.as_pyrate() for rate in parse_rates(rates)],
        db_path=str(folder / "stock.sqlite"),
        use_file_lock=True,
    )
    limiter = Limiter(bucket)

    def acquire(timeout_s: float) -> int:
        return time.monotonic_ns() if limiter.try_acquire("bench", timeout=timeout_s) else 0

    return acquire


LIMITERS = {"headrace": headrace, "gate": whole_gate, "stock": stock}


def main(task: dict[str, Any]) -> dict[str, Any]:
    """Take permits for a time and say when they came and what they cost.

    Says `ready` first, and then waits for a line with the moments of start and end.
    """
    acquire = LIMITERS[task["limiter"]](Path(task["folder"]), task["rates"], task["lane"])
    grants: list[int] = []
    waits: list[int] = []
    pause_s = task["pause_s"]
    print("ready", flush=True)
    start, end = map(int, sys.stdin.readline().split())

    def want() -> None:
        while (now := time.monotonic_ns()) < end:
            granted = acquire((end - now) / 1e9)
            if not granted:
                break
            grants.append(granted)
            waits.append(granted - now)
            if pause_s:
                time.sleep(pause_s)

    time.sleep(max(0.0, (start - time.monotonic_ns()) / 1e9))
    before = resource.getrusage(resource.RUSAGE_SELF)
    threads = [threading.Thread(target=want) for _ in range(task["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "grants": grants,
        "waits": waits,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "wakeups": after.ru_nvcsw - before.ru_nvcsw,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))), flush=True)
