"""What lies in and below a folder, as it is now, into the vault of its Looker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from headrace.looker.content_types import in_stages
from headrace.looker.exceptions import FolderNotRead
from headrace.looker.extract.context import Context, Mapper, Piece, ending_of, resolve_folders
from headrace.looker.extract.job import TypeJob
from headrace.looker.extract.report import RangeReceipt, TypeReceipt
from headrace.looker.extract.request import ExtractRequest
from headrace.looker.extract.writer import Writer
from headrace.looker.vault import ITEM, Vault
from headrace.run.progress import RunProgress
from headrace.run.report import combined
from headrace.stopping import Ending, StopEvent

if TYPE_CHECKING:
    from headrace.looker.client import LookerClient


@dataclass(frozen=True, slots=True)
class Reading:
    """What a folder held when it was read.

    Args:
        session: of the vault, in which everything in the folder was seen.
        folders: ids of the folder and of those below it, parents first.
        unread: why single items did not come, by type and id.
    """

    session: int
    folders: tuple[str, ...]
    unread: dict[tuple[str, str], str]


def read_folder(
    vault: Vault, client: LookerClient, folder: str, *, workers: int, stop: StopEvent
) -> Reading:
    """Fetch the folders, looks, dashboards and merged queries in and below a folder.

    Raises:
        UnknownFolder: there is none of that id.
        FolderNotRead: a listing did not come as a whole: what the folder holds is not known.
        OutageError: the Looker was away for too long.
        Stopped: the process was asked to stop.
    """
    request = ExtractRequest.checked(
        folder_ids=[folder], recursive=True, full=True, workers=workers, vault=str(vault.path)
    )
    ending = Ending(stop)
    folders = resolve_folders(client, request.folder_ids, recursive=True)
    session = vault.sessions.begin("promote", parameters=dict(request.scope))
    receipts: list[TypeReceipt] = []
    with Writer(vault, session, may_write=stop.check) as writer:
        context = Context(
            client, vault, writer, session, request, False, folders, RunProgress("items"), ending
        )
        for type_ in chain.from_iterable(in_stages(request.chosen)):
            job = TypeJob.of(context, type_)
            receipts.append(job.run(in_threads(job, workers, ending.stop)))
    status = combined(receipt.status for receipt in receipts)
    vault.sessions.end(session, ending_of(status.value, cut_off=ending.stop.is_set()))
    ending.check()
    for receipt in receipts:
        if receipt.missing or (receipt.error and not receipt.failures):
            raise FolderNotRead(folder, receipt.type, receipt.error or ", ".join(receipt.missing))
    unread = {
        (failure.type, failure.key): failure.message
        for failure in vault.failures.open(types=request.chosen, kind=ITEM)
        if failure.session == session
    }
    return Reading(session, folders, unread)


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
