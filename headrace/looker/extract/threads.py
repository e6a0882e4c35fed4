"""The work of an extraction on threads of this process, where no flow maps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice

from headrace.looker.extract.context import Mapper, Piece
from headrace.looker.extract.job import TypeJob
from headrace.looker.extract.report import RangeReceipt
from headrace.stopping import StopEvent


def in_threads(job: TypeJob, width: int, stop: StopEvent) -> Mapper:
    """Do the pieces of a job on `width` threads, a bounded number of them ahead."""

    def mapped(kind: str, pieces: Iterator[Piece]) -> Iterable[RangeReceipt]:
        with ThreadPoolExecutor(width, thread_name_prefix=f"looker-{kind}") as pool:
            out: set[Future[RangeReceipt]] = set()
            while True:
                if not stop.is_set():
                    wave = islice(pieces, 2 * width - len(out))
                    out |= {pool.submit(job.do, kind, key, values) for key, values in wave}
                if not out:
                    return
                done, out = wait(out, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()

    return mapped
