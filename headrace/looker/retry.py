"""Asking again for items that failed, one by one, without an extraction around them.

Pages that failed are left to the next extraction, which reads only those: what a page holds depends
on the pages beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.looker.content_types import content_of
from headrace.looker.exceptions import ItemRefused
from headrace.looker.vault import ITEM, PAGE, Failed, Failure, Status, Vault, item_of
from headrace.stopping import STOP, StopEvent, Stopped
from headrace.wire.exceptions import RequestError

if TYPE_CHECKING:
    from headrace.looker.client import LookerClient


@dataclass
class RetryReport:
    """What became of the failures.

    Attributes:
        session: the vault's session of the retry; None if there was nothing to ask for.
        stored: items that came this time, as (type, id).
        still: those that failed once more, with the reason.
        pages: failed pages, and elements of pages that have no id: left as they are.
        stopped: it was asked to end early.
    """

    session: int | None = None
    stored: list[tuple[str, str]] = field(default_factory=list)
    still: list[tuple[Failure, str]] = field(default_factory=list)
    pages: list[Failure] = field(default_factory=list)
    stopped: bool = False


def retry_failures(
    vault: Vault,
    client: LookerClient,
    *,
    types: Iterable[str] = (),
    stop: StopEvent = STOP,
    report: Callable[[Failure, str], None] = lambda _failure, _problem: None,
) -> RetryReport:
    """Ask for every item that is still failing; each costs a request.

    Args:
        vault: whose failures.
        client: of its Looker.
        types: only these.
        stop: looked at before each request.
        report: called with each failure and what is wrong with it now, empty if it came.

    Raises:
        ConfigurationError, OutageError: the Looker refuses the login, or is down.
    """
    done = RetryReport()
    failing = vault.failures.open(types=tuple(types))
    done.pages = [each for each in failing if each.kind == PAGE or _of_a_page(each)]
    items = [each for each in failing if each not in done.pages]
    if not items:
        return done
    done.session = vault.sessions.begin("retry", parameters={"items": len(items)})
    try:
        for failure in items:
            stop.check()
            problem = _retry(vault, client, done.session, failure)
            if problem:
                done.still.append((failure, problem))
            else:
                done.stored.append((failure.type, failure.key))
            report(failure, problem)
    except Stopped:
        done.stopped = True
    except BaseException:
        vault.sessions.end(done.session, Status.FAILED)
        raise
    status = Status.PARTIAL if done.still else Status.DONE
    summary = {"stored": len(done.stored), "still_failing": len(done.still)}
    vault.sessions.end(
        done.session, Status.INTERRUPTED if done.stopped else status, summary=summary
    )
    return done


def _retry(vault: Vault, client: LookerClient, session: int, failure: Failure) -> str:
    try:
        body = client.item(failure.type, failure.key)
        item = item_of(failure.type, body, item_id=failure.key)
    except (RequestError, ItemRefused) as error:
        status = error.status if isinstance(error, RequestError) else None
        again = Failed(failure.type, ITEM, failure.key, status, str(error))
        vault.upsert_many(session, (), failures=[again])
        return str(error)
    vault.upsert_many(session, [item])
    return ""


def _of_a_page(failure: Failure) -> bool:
    """An element of a listing that has no id is called by its place, as in `looks:17`."""
    listing, _, place = failure.key.rpartition(":")
    names = {listing.name for listing in content_of(failure.type).listings}
    return place.isdecimal() and listing.partition("@")[0].rstrip("~") in names
