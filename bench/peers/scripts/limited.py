"""Threads that share a limiter with other processes.

Usage: limited.py URL DONE WANTED THREADS LIMITER RATE FOLDER PROCESSES. A line of DONE for each
request that was answered; those of an earlier run count.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import requests

#: Sends one request when the limiter allows it; the status of its answer.
Ask = Callable[[], int]


def pyrate(url: str, rate: int, folder: Path) -> Ask:
    """pyrate-limiter, several processes."""
    from pyrate_limiter import Duration, Limiter, Rate, SQLiteBucket

    bucket = SQLiteBucket.init_from_file(
        [Rate(rate, Duration.SECOND)], db_path=str(folder / "bucket.sqlite"), use_file_lock=True
    )
    limiter, session = Limiter(bucket), requests.Session()

    def ask() -> int:
        limiter.try_acquire("request")
        return session.get(url).status_code

    return ask


def session(url: str, rate: int, folder: Path) -> Ask:
    """requests-ratelimiter, several processes."""
    from requests_ratelimiter import LimiterSession, SQLiteBucket

    limited = LimiterSession(
        per_second=rate,
        bucket_class=SQLiteBucket,
        bucket_kwargs={"path": folder / "bucket.sqlite", "use_file_lock": True},
    )
    return lambda: limited.get(url).status_code


def headrace(url: str, rate: int, folder: Path) -> Ask:
    """Headrace's quota."""
    from headrace.quota import Lane, QuotaConfig, open_gate, parse_rates

    gate = open_gate(folder, QuotaConfig(name="peers", rates=parse_rates(f"{rate}/s")))
    session = requests.Session()

    def ask() -> int:
        with gate.admit(lane=Lane.BACKFILL) as admission:
            admission.sending()
            answer = session.get(url)
            admission.answered(answer.status_code, headers=answer.headers)
        return answer.status_code

    return ask


def main(url: str, done: Path, wanted: int, threads: int, ask: Ask) -> None:
    """Ask until so many requests were answered."""
    left = wanted - (len(done.read_text().splitlines()) if done.exists() else 0)
    lock = threading.Lock()

    def work(out) -> None:
        nonlocal left
        while True:
            with lock:
                if left <= 0:
                    return
                left -= 1
            while (status := ask()) == 429:
                pass
            if status != 200:
                raise SystemExit(f"{url} answered {status}")
            with lock:
                out.write("200\n")
                out.flush()

    with done.open("a") as out:
        working = [threading.Thread(target=work, args=[out]) for _ in range(threads)]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()


if __name__ == "__main__":
    url, done, wanted, threads, limiter, rate, folder, _processes = sys.argv[1:]
    make = {"headrace": headrace, "pyrate": pyrate, "session": session}[limiter]
    main(url, Path(done), int(wanted), int(threads), make(url, int(rate), Path(folder)))
