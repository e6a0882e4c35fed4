"""Whether every checkpoint that the API keeps can be used by this version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headrace.doctor.asking import NoAnswer, ask
from headrace.doctor.model import Examined, Finding, ok, problem
from headrace.pull.checkpoints import read_checkpoint
from headrace.pull.exceptions import CheckpointUnreadable

_DOCUMENTS = "block_types/slug/headrace-checkpoint/block_documents?limit=200"
_REBUILD = "The lake holds all that is needed: headrace checkpoint rebuild PRODUCT"


def look_at_checkpoints(examined: Examined) -> Iterator[Finding]:
    """Every document, as a run would read it; the first 200."""
    if examined.api is None:
        yield ok("not looked at, since no Prefect API is up (headrace up)")
        return
    url = f"{examined.api.url.rstrip('/')}/{_DOCUMENTS}"
    try:
        answer = ask(url, examined.api.headers)
    except NoAnswer:
        yield ok("not looked at, since the Prefect API does not answer")
        return
    if answer.status == 404:
        yield ok("no run has saved one yet")
        return
    if answer.status in (401, 403):
        yield ok("not looked at, since the Prefect API refuses the login")
        return
    if answer.status != 200:
        yield problem(f"the checkpoints cannot be listed ({answer.status})", "See the server's log")
        return
    documents: list[dict[str, Any]] = json.loads(answer.body)
    found = [finding for each in documents if (finding := _of_document(each)) is not None]
    yield from found or [ok(f"{len(documents)} checkpoints can be read")]


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
