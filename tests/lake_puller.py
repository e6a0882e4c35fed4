"""A process that pulls one product into a lake, to be stopped in the middle of it and woken late.

    python tests/lake_puller.py LAKE STATE TTL_S LAST_ID

STATE is a folder for leases and the checkpoint. `HEADRACE_KILL_AT` makes it stop (SIGSTOP) at a
named point, where other processes would be killed; the point `publish` lies between the question
whether the lease still holds and the moment in which a file gets its name. Exit code 3: another
process holds the lease.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from headrace import kill_points
from headrace.errors import HeadraceError
from headrace.exchange.planning import Sizing
from headrace.lake import local
from headrace.leases import LeaseHeld, SqliteLeases, open_leases
from headrace.pull.job import ProductJob, pull_progress
from headrace.pull.report import ProductReceipt
from headrace.pull.request import PullRequest
from headrace.stopping import StopEvent
from tests.lake_healer import FileCheckpoints
from tests.lake_writer import CELL_PAGES, PRODUCT, open_raw
from tests.support.exchange import FakeClient

WIDTH = 3
PAGE_S = 0.02
SIZING = Sizing(CELL_PAGES, in_flight=WIDTH, pool=WIDTH, pages_per_s=None, pages_per_chunk=1)


class SlowClient(FakeClient):
    """Takes a moment for each page, so that there are many in which to be stopped."""

    def page(self, *args: Any, **options: Any) -> Any:
        time.sleep(PAGE_S)
        return super().page(*args, **options)


def pull(lake: str, state: str, ttl_s: float, last_id: int) -> ProductReceipt:
    """What the product task does."""
    client = SlowClient(range(1, last_id + 1))
    client.stats = SimpleNamespace(requests_for=lambda _product: client.requests)
    job = ProductJob(
        PRODUCT,
        PullRequest.checked(
            products=[PRODUCT], lake=lake, base_url="http://127.0.0.1:1", rate="none"
        ),
        run_id=f"pid-{os.getpid()}",
        client=client,
        lake=open_raw(lake),
        checkpoints=FileCheckpoints(Path(state)),
        leases=open_leases(f"{state}/leases"),
        progress=pull_progress(WIDTH),
        stop=StopEvent(),
    )
    try:
        with job.product_leases.acquire(
            "backfill", "me", ttl_s=ttl_s, on_lost=job.lease_lost
        ) as lease:
            print("under way", flush=True)
            job.prepare(lease)
            with ThreadPoolExecutor(WIDTH) as pool:
                for receipt in pool.map(job.fetch, list(job.chunks(SIZING))):
                    job.keep(receipt)
                    if job.commit_due():
                        job.commit()
            job.commit(last=True)
    except LeaseHeld:
        sys.exit(3)
    except HeadraceError as error:
        return job.receipt(str(error))
    return job.receipt()


def stop_instead_of_dying() -> None:
    """Let kill points stop the process, and add the point `publish`.

    Not while another thread of it writes to the leases, which would keep everybody from them.
    """
    writing = threading.Lock()
    swap = SqliteLeases._swap

    def swap_awake(self: SqliteLeases, *rows: Any) -> bool:
        with writing:
            return swap(self, *rows)

    def stop(_pid: int, _signal: int) -> None:
        with writing:
            os.kill(os.getpid(), signal.SIGSTOP)

    SqliteLeases._swap = swap_awake
    kill_points.os = SimpleNamespace(kill=stop, getpid=os.getpid, environ=os.environ)
    kill_points.KILL_POINTS["publish"] = "the guard has allowed it, the file has no name yet"
    link = local.publish_new

    def stopped_link(temporary: Path, path: Path) -> bool:
        kill_points.kill_point("publish")
        return link(temporary, path)

    local.publish_new = stopped_link


if __name__ == "__main__":
    stop_instead_of_dying()
    print(pull(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])), flush=True)
