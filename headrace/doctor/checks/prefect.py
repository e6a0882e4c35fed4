"""The Prefect API that commands would use, its database, and the checkpoints that it keeps."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headrace.amounts import counted
from headrace.doctor.probes import NoAnswer, ask, damage, reading
from headrace.doctor.runner import Api, Finding, Severity, Target, ok, problem, warning
from headrace.pull.checkpoints import read_checkpoint
from headrace.pull.exceptions import CheckpointUnreadable
from headrace.wire.transport import Response, websocket_refusal

#: What to do where the API wants a login, or another one.
LOGIN_HINT = (
    "Set PREFECT_API_AUTH_STRING (or PREFECT_API_KEY) as that server wants it, in the environment "
    "or in the Prefect profile"
)
_ELSEWHERE = "unset it to use the local server (headrace up)"


def check_api(target: Target) -> Iterator[Finding]:
    """Health first, then the version, for which a server may want a login, then events."""
    api = target.api
    if api is None:
        yield ok("no Prefect API is up; each command starts one for its own time")
        return
    url = api.url.rstrip("/")
    try:
        health = _ask(api, "health")
    except NoAnswer as error:
        remedy = "headrace down, then headrace up" if api.managed else f"Start it, or {_ELSEWHERE}"
        yield problem(f"{error.message}, from {api.source}", remedy)
        return
    if health.status in (401, 403):
        yield _refused(api, url, health.status)
    elif health.status != 200 or health.body.strip() != b"true":
        yield problem(
            f"{url} (from {api.source}) answers {health.status}, but not as a Prefect API",
            f"Correct the address (it ends with /api), or {_ELSEWHERE}",
        )
    else:
        about_version = _of_version(api, url)
        yield about_version
        if about_version.severity is not Severity.PROBLEM:
            yield from _of_events(api, url)


def _ask(api: Api, path: str) -> Response:
    return ask(f"{api.url.rstrip('/')}/{path}", api.headers)


def _refused(api: Api, url: str, status: int) -> Finding:
    given = "the login" if "Authorization" in api.headers else "us without a login"
    return problem(f"{url} (from {api.source}) refuses {given} ({status})", LOGIN_HINT)


def _of_events(api: Api, url: str) -> Iterator[Finding]:
    if reason := websocket_refusal(f"{url}/events/in", api.headers, subprotocol="prefect"):
        yield warning(
            f"{url} takes no events ({reason}): it will show no task runs, and alarms stay silent",
            "Have the proxy in front of it pass WebSockets on (the headers Upgrade and Connection)",
        )


def _of_version(api: Api, url: str) -> Finding:
    answer = _ask(api, "admin/version")
    if answer.status in (401, 403):
        return _refused(api, url, answer.status)
    if answer.status != 200:
        return ok(f"{url} answers (from {api.source}); it does not say its version")
    found, ours = str(json.loads(answer.body)), version("prefect")
    words = f"{url} runs Prefect {found}, this client is {ours}"
    theirs, mine = found.split("."), ours.split(".")
    if theirs[0] != mine[0]:
        return problem(words, "Install the same major version on both sides")
    if theirs[:2] != mine[:2]:
        return warning(words, "Install the same minor version on both sides")
    return ok(f"{url} runs Prefect {found} (from {api.source})")


_MIB = 2**20
#: With the retention that `headrace up` sets, a busy month stays far below.
_BIG = 4096 * _MIB


def check_database(target: Target) -> Iterator[Finding]:
    """What the server reports, and the file of the managed server."""
    found = [*_reported(target), *_of_file(target.database)]
    yield from found or [ok("no database yet; the first command makes it")]


def _reported(target: Target) -> Iterator[Finding]:
    api = target.api
    if api is None:
        return
    try:
        answer = _ask(api, "ready")
    except NoAnswer:
        return  # the check of the server says so
    if answer.status == 503:
        yield problem(
            f"the Prefect server at {api.url} does not reach its database",
            "Look at that database, then restart the server",
        )
    elif answer.status == 200:
        yield ok(f"{api.url} reaches its database")


def _of_file(path: Path) -> Iterator[Finding]:
    if not path.exists():
        return
    size = sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))
    try:
        with reading(path) as connection:
            wrong = damage(connection)
    except sqlite3.Error as error:
        wrong = str(error)
    if wrong:
        yield problem(
            f"{path} is damaged ({wrong})",
            "headrace down, then move that file away: runs are lost from the UI, but no data; "
            "headrace checkpoint rebuild restores the checkpoints",
        )
    elif size > _BIG:
        yield warning(
            f"{path} has grown to {size / _MIB:,.0f} MiB",
            "Keep runs for a shorter time (docs/server.md), or headrace down --vacuum",
        )
    else:
        yield ok(f"{path} is sound, {size / _MIB:,.0f} MiB")


_DOCUMENTS = "block_types/slug/headrace-checkpoint/block_documents?limit=200"
_REBUILD = "The lake holds all that is needed: headrace checkpoint rebuild PRODUCT"


def check_checkpoints(target: Target) -> Iterator[Finding]:
    """Every document, as a run would read it; the first 200."""
    if target.api is None:
        yield ok("not checked, since no Prefect API is up (headrace up)")
        return
    try:
        answer = _ask(target.api, _DOCUMENTS)
    except NoAnswer:
        yield ok("not checked, since the Prefect API does not answer")
        return
    if answer.status == 404:
        yield ok("no run has saved one yet")
        return
    if answer.status in (401, 403):
        yield ok("not checked, since the Prefect API refuses the login")
        return
    if answer.status != 200:
        yield problem(f"the checkpoints cannot be listed ({answer.status})", "See the server's log")
        return
    documents: list[dict[str, Any]] = json.loads(answer.body)
    found = [finding for each in documents if (finding := _of_document(each)) is not None]
    yield from found or [ok(f"{counted(len(documents), 'checkpoint')} can be read")]


def _of_document(document: dict[str, Any]) -> Finding | None:
    name = str(document.get("name"))
    stored = (document.get("data") or {}).get("checkpoint")
    if not isinstance(stored, dict):
        return problem(f"the block {name} holds no checkpoint", _REBUILD)
    whose = {key: str(stored.get(key)) for key in ("lake", "source", "product")}
    try:
        read_checkpoint(stored, **whose)
    except CheckpointUnreadable as error:
        return problem(f"{error.message} (block {name})", error.hint)
    return None
